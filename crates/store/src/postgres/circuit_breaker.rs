//! A circuit breaker: keeps work away from a database that cannot be reached, so that nobody waits for nothing. While the
//! circuit is open, one task of this process probes the database, whether or not there is work; an answer closes the circuit
//! for all.

use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

/// How often to probe.
const PAUSE: Duration = Duration::from_millis(250);
/// How many quick probes may wait for an answer; if it comes, all of them get it at the same time.
const QUICK_PROBES: usize = 4;

/// How long a probe waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// Short, because what was sent while nobody could receive it may be lost.
    Quick,
    /// As long as a busy database may need. There is always one of these besides the quick ones.
    Patient,
}

#[derive(Debug, Default)]
pub(super) struct DatabaseCircuit {
    /// How often it was opened and closed; odd while it is open.
    changes: AtomicU64,
}

/// Which of the circuit's closed periods a piece of work began in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClosedSince(u64);

impl DatabaseCircuit {
    /// Lets work through while the circuit is closed.
    pub(super) fn closed_since(&self) -> Option<ClosedSince> {
        let changes = self.changes.load(Ordering::SeqCst);
        changes.is_multiple_of(2).then_some(ClosedSince(changes))
    }

    /// Opens the circuit, because the database could not be reached. Returns whether it was closed, in which case the caller
    /// has to probe. Work that began before the circuit was last closed does not open it: it may have hung since before the
    /// database came back.
    pub(super) fn open(&self, since: ClosedSince) -> bool {
        self.changes.compare_exchange(since.0, since.0 + 1, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Probes until the database answers, then closes the circuit. A hanging probe does not delay the next one: it may be lost,
    /// and the next one may get through. `spread` keeps replicas from all probing at the same time.
    pub(super) async fn close_when_answered<F>(&self, spread: Duration, probe: impl Fn(Probe) -> F)
    where
        F: Future<Output = bool> + Send + 'static,
    {
        let (mut quick, mut patient) = (JoinSet::new(), JoinSet::new());
        loop {
            if patient.is_empty() {
                patient.spawn(probe(Probe::Patient));
            } else if quick.len() < QUICK_PROBES {
                quick.spawn(probe(Probe::Quick));
            }
            let answered = async {
                tokio::select! { () = one_answered(&mut quick) => {}, () = one_answered(&mut patient) => {} }
            };
            if timeout(PAUSE + spread, answered).await.is_ok() {
                self.changes.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
    }
}

/// Returns when one of the probes was answered.
async fn one_answered(probes: &mut JoinSet<bool>) {
    loop {
        match probes.join_next().await {
            Some(Ok(true)) => return,
            Some(_) => {}
            None => pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[tokio::test]
    async fn one_probes_for_all_until_it_is_answered() {
        let circuit = DatabaseCircuit::default();
        let early = circuit.closed_since().unwrap();
        assert!(circuit.open(early) && !circuit.open(early), "the second finds it open");
        assert_eq!(circuit.closed_since(), None);
        let probes = Arc::new(AtomicUsize::new(0));
        circuit
            .close_when_answered(Duration::ZERO, |_| {
                let probes = Arc::clone(&probes);
                async move {
                    match probes.fetch_add(1, Ordering::SeqCst) {
                        0 => false,
                        1 => pending().await,
                        _ => true,
                    }
                }
            })
            .await;
        assert_eq!(probes.load(Ordering::SeqCst), 3);
        assert!(!circuit.open(early), "this is from before");
        assert!(circuit.open(circuit.closed_since().unwrap()));
    }

    #[tokio::test]
    async fn a_database_that_is_slower_than_a_quick_probe_is_let_answer() {
        let circuit = DatabaseCircuit::default();
        assert!(circuit.open(circuit.closed_since().unwrap()));
        let patient = Arc::new(AtomicUsize::new(0));
        circuit
            .close_when_answered(Duration::ZERO, |probe| {
                let patient = Arc::clone(&patient);
                async move {
                    if probe == Probe::Quick {
                        return false;
                    }
                    patient.fetch_add(1, Ordering::SeqCst);
                    // Several quick probes are given up in the meantime.
                    tokio::time::sleep(3 * PAUSE).await;
                    true
                }
            })
            .await;
        assert_eq!(patient.load(Ordering::SeqCst), 1, "it was not given up");
        assert!(circuit.closed_since().is_some());
    }
}
