//! A circuit breaker: after a few failures in a row, calls fail immediately for a pause that doubles; then one probe decides
//! whether the circuit closes again. Pure bookkeeping; the time is passed in.

use std::time::Duration;

/// Failures in a row that open the circuit.
pub(super) const FAILURES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

#[derive(Clone, Copy, Debug)]
pub(super) struct CircuitBreaker {
    circuit: Circuit,
    /// How long the circuit opens the next time.
    pause: Duration,
    /// The number of the latest probe.
    probes: u64,
}

#[derive(Clone, Copy, Debug)]
enum Circuit {
    Closed { failures: u32 },
    Open { until: Duration },
    HalfOpen { probe: u64 },
}

impl CircuitBreaker {
    pub(super) const fn new() -> Self {
        Self { circuit: Circuit::Closed { failures: 0 }, pause: FIRST_PAUSE, probes: 0 }
    }

    /// Whether calls are made as usual.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.circuit, Circuit::Closed { .. })
    }

    /// Lets a call through, as a probe with this number if the circuit was open; an error says how long it stays open.
    pub(super) fn enter(&mut self, now: Duration) -> Result<Option<u64>, Duration> {
        match self.circuit {
            Circuit::Closed { .. } => Ok(None),
            Circuit::Open { until } if until <= now => {
                self.probes += 1;
                self.circuit = Circuit::HalfOpen { probe: self.probes };
                Ok(Some(self.probes))
            }
            Circuit::Open { until } => Err(until.saturating_sub(now)),
            // The probe decides soon.
            Circuit::HalfOpen { .. } => Err(Duration::ZERO),
        }
    }

    /// Closes the circuit after a call was answered. Returns whether this closed it.
    pub(super) fn succeed(&mut self) -> bool {
        let was_closed = matches!(self.circuit, Circuit::Closed { .. });
        *self = Self { probes: self.probes, ..Self::new() };
        !was_closed
    }

    /// Counts a failed call. If that opens the circuit, returns for how long.
    pub(super) fn fail(&mut self, probe: Option<u64>, now: Duration) -> Option<Duration> {
        let opens = match &mut self.circuit {
            Circuit::Closed { failures } => {
                *failures += 1;
                *failures >= FAILURES
            }
            Circuit::HalfOpen { .. } => self.is_probed_by(probe),
            // A call from before it opened says nothing new.
            Circuit::Open { .. } => false,
        };
        opens.then(|| {
            let pause = self.pause;
            self.circuit = Circuit::Open { until: now + pause };
            self.pause = (pause * 2).min(LONGEST_PAUSE);
            pause
        })
    }

    /// Undoes a call that was not made; if it was the probe, the next call becomes the probe.
    pub(super) fn cancel(&mut self, probe: Option<u64>, now: Duration) {
        if self.is_probed_by(probe) {
            self.circuit = Circuit::Open { until: now };
        }
    }

    fn is_probed_by(&self, call: Option<u64>) -> bool {
        matches!(self.circuit, Circuit::HalfOpen { probe } if call == Some(probe))
    }
}
