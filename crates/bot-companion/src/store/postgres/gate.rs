//! Keeps work away from a database that cannot be reached, so that nobody waits for it in vain. Meanwhile one task of this process
//! knocks, whether or not there is work; when the database answers it, the gate opens for all.

use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

/// How often to knock.
const PAUSE: Duration = Duration::from_millis(250);
/// How many quick knocks may wait for an answer: if it comes, it comes to all of them at once.
const KNOCKS: usize = 4;

/// How long a knock waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Knock {
    /// A moment: what was asked while nobody could hear may have got lost.
    Quick,
    /// As long as a database with much to do may need. There is always one of these beside the quick ones.
    Patient,
}

#[derive(Debug, Default)]
pub(super) struct Gate {
    /// How often it was shut and opened: odd while it is shut.
    turns: AtomicU64,
}

/// Lets work in. It tells between which turns of the gate the work began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pass(u64);

impl Gate {
    /// Whether work may try.
    pub(super) fn lets_in(&self) -> Option<Pass> {
        let turns = self.turns.load(Ordering::SeqCst);
        turns.is_multiple_of(2).then_some(Pass(turns))
    }

    /// The database could not be reached. Whoever shuts the gate has to knock. Work that began before the gate was last opened
    /// does not shut it: it may have hung since before the database came back.
    pub(super) fn shut(&self, pass: Pass) -> bool {
        self.turns.compare_exchange(pass.0, pass.0 + 1, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Knocks until the database answers, then opens. A knock that hangs does not keep the next from being tried: it may have got
    /// lost, and the next may not. `spread` keeps replicas from knocking all at once.
    pub(super) async fn knock<F>(&self, spread: Duration, answers: impl Fn(Knock) -> F)
    where
        F: Future<Output = bool> + Send + 'static,
    {
        let (mut quick, mut patient) = (JoinSet::new(), JoinSet::new());
        loop {
            if patient.is_empty() {
                patient.spawn(answers(Knock::Patient));
            } else if quick.len() < KNOCKS {
                quick.spawn(answers(Knock::Quick));
            }
            let answered = async {
                tokio::select! { () = one_of(&mut quick) => {}, () = one_of(&mut patient) => {} }
            };
            if timeout(PAUSE + spread, answered).await.is_ok() {
                self.turns.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
    }
}

/// Comes back when one of the knocks was answered.
async fn one_of(knocks: &mut JoinSet<bool>) {
    loop {
        match knocks.join_next().await {
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
    async fn one_knocks_for_all_until_it_is_answered() {
        let gate = Gate::default();
        let early = gate.lets_in().unwrap();
        assert!(gate.shut(early) && !gate.shut(early), "the second finds it shut");
        assert_eq!(gate.lets_in(), None);
        let knocks = Arc::new(AtomicUsize::new(0));
        gate.knock(Duration::ZERO, |_| {
            let knocks = Arc::clone(&knocks);
            async move {
                match knocks.fetch_add(1, Ordering::SeqCst) {
                    0 => false,
                    1 => pending().await,
                    _ => true,
                }
            }
        })
        .await;
        assert_eq!(knocks.load(Ordering::SeqCst), 3);
        assert!(!gate.shut(early), "this is from before");
        assert!(gate.shut(gate.lets_in().unwrap()));
    }
    #[tokio::test]
    async fn a_database_that_is_slower_than_a_quick_knock_is_let_answer() {
        let gate = Gate::default();
        assert!(gate.shut(gate.lets_in().unwrap()));
        let patient = Arc::new(AtomicUsize::new(0));
        gate.knock(Duration::ZERO, |knock| {
            let patient = Arc::clone(&patient);
            async move {
                if knock == Knock::Quick {
                    return false;
                }
                patient.fetch_add(1, Ordering::SeqCst);
                // Several quick knocks are given up meanwhile.
                tokio::time::sleep(3 * PAUSE).await;
                true
            }
        })
        .await;
        assert_eq!(patient.load(Ordering::SeqCst), 1, "it was not given up");
        assert!(gate.lets_in().is_some());
    }
}
