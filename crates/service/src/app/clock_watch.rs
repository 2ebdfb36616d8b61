//! Watches whether the clock was set. `domain/trusted_time.rs` decides what follows from that; here it is logged and counted.

use std::sync::Arc;
use std::time::Duration;

use domain::trusted_time::ClockEvent;
use runtime::clock::Clock;
use telemetry::log_throttle::Throttle;
use telemetry::metrics::Metrics;
use tracing::{info, warn};

const LOOK_EVERY: Duration = Duration::from_secs(5);

pub struct ClockWatch {
    clock: Clock,
    metrics: Arc<Metrics>,
    steps: Throttle,
}

impl ClockWatch {
    pub fn new(clock: Clock, metrics: Arc<Metrics>) -> Self {
        Self { clock, metrics, steps: Throttle::default() }
    }

    /// Never ends.
    pub async fn run(&self) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            self.look();
        }
    }

    pub fn look(&self) {
        match self.clock.look() {
            Some(ClockEvent::Stepped(millis)) => {
                self.metrics.clock_steps.increment();
                if let Some(times) = self.steps.count(self.clock.ticks()) {
                    let seconds = millis / 1_000;
                    warn!(
                        seconds,
                        times,
                        "the system clock jumped; the service keeps the old time, and nothing expires, until the new time has \
                         stood for 5 minutes"
                    );
                }
            }
            Some(ClockEvent::Returned) => info!("the system clock is back at the service's time"),
            Some(ClockEvent::Believed) => {
                warn!("the system clock has kept its new time for 5 minutes; the service follows it now");
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use domain::Time;
    use parking_lot::Mutex;

    use super::*;

    /// Collects log lines.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_jump_is_one_line_and_its_end_another() {
        let log = Log::default();
        let listen = || {
            let writer = log.clone();
            let format = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
            tracing::Dispatch::new(format.finish())
        };
        // With a single listener, `tracing` lets the first thread that reaches a log line decide that nobody listens to it.
        let _second = listen();
        let _guard = tracing::dispatcher::set_default(&listen());
        let clock = Clock::manual(Time::from_seconds(1_800_000_000));
        let watch = ClockWatch::new(clock.clone(), Arc::default());
        let lines = || {
            let text = String::from_utf8(log.0.lock().clone()).unwrap();
            text.lines().filter(|line| line.contains("clock_watch")).map(str::to_owned).collect::<Vec<_>>()
        };
        let looks = |times: u32| {
            for _ in 0..times {
                watch.look();
                clock.advance(LOOK_EVERY);
            }
        };
        looks(1);
        assert_eq!(lines(), Vec::<String>::new());
        clock.set(864_000);
        looks(15);
        let told = lines();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("WARN") && told[0].contains("the system clock jumped"), "{told:?}");
        assert!(told[0].contains("seconds=864000") && told[0].contains("the service keeps the old time"), "{told:?}");
        clock.set(-864_000);
        looks(1);
        assert!(lines().len() == 2 && lines()[1].contains("the system clock is back"), "{:?}", lines());
        clock.set(864_000);
        // Five minutes, and the look that finds them over.
        looks(62);
        assert!(lines().last().unwrap().contains("the service follows it now"), "{:?}", lines());
    }
}
