//! The open connections of the admin listener. Their number is limited. At the limit, one that has not sent a request makes
//! room, so that idle connections cannot lock out Prometheus and orchestrators.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// The most connections at a time.
const CONNECTIONS: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdminPhase {
    /// Its request has not arrived yet.
    Waiting,
    /// Its request is being answered.
    Working,
    /// Its response is being sent.
    Responding,
}

/// The open connections, oldest first.
#[derive(Default)]
pub(super) struct AdminConnections {
    open: VecDeque<(AbortHandle, ConnectionProgress)>,
    /// Notified when a request was answered.
    answered: Arc<Notify>,
}

/// The phase of a connection, shared between the connection and the list.
#[derive(Clone)]
pub(super) struct ConnectionProgress {
    phase: Arc<AtomicU8>,
    answered: Arc<Notify>,
}

/// A request in progress, until this is dropped.
pub(super) struct RequestInWork<'a>(&'a ConnectionProgress);

impl AdminConnections {
    /// Waits until there is room for another connection. At the limit, closes one that has no request in progress.
    pub(super) async fn make_room(&mut self) {
        self.open.retain(|(task, _)| !task.is_finished());
        while self.open.len() >= CONNECTIONS {
            let Some(index) = evictable(&self.open.iter().map(|(_, progress)| progress.phase())) else {
                // Every request in progress is answered soon.
                self.answered.notified().await;
                self.open.retain(|(task, _)| !task.is_finished());
                continue;
            };
            if let Some((task, _)) = self.open.remove(index) {
                task.abort();
            }
        }
    }

    pub(super) fn progress(&self) -> ConnectionProgress {
        ConnectionProgress { phase: Arc::default(), answered: Arc::clone(&self.answered) }
    }

    /// Adds a connection that is served by this task.
    pub(super) fn add(&mut self, task: AbortHandle, progress: ConnectionProgress) {
        self.open.push_back((task, progress));
    }
}

/// Which of these connections, oldest first, makes room for a new one: the oldest without a request, or else the oldest that is
/// not reading its response. `None` if all are being answered.
fn evictable(phases: &(impl Iterator<Item = AdminPhase> + Clone)) -> Option<usize> {
    let oldest = |wanted| phases.clone().position(|phase| phase == wanted);
    oldest(AdminPhase::Waiting).or_else(|| oldest(AdminPhase::Responding))
}

impl ConnectionProgress {
    /// Records that the request has arrived and, once the guard is dropped, that it was answered.
    pub(super) fn work(&self) -> RequestInWork<'_> {
        self.phase.store(AdminPhase::Working as u8, Ordering::Relaxed);
        RequestInWork(self)
    }

    fn phase(&self) -> AdminPhase {
        [AdminPhase::Waiting, AdminPhase::Working]
            .into_iter()
            .find(|phase| *phase as u8 == self.phase.load(Ordering::Relaxed))
            .unwrap_or(AdminPhase::Responding)
    }
}

impl Drop for RequestInWork<'_> {
    fn drop(&mut self) {
        self.0.phase.store(AdminPhase::Responding as u8, Ordering::Relaxed);
        self.0.answered.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::AdminPhase::{Responding, Waiting, Working};
    use super::*;

    #[test]
    fn the_oldest_without_a_request_goes_then_the_oldest_that_takes_no_response() {
        let table: [(&[AdminPhase], Option<usize>); 5] = [
            (&[Working, Waiting, Waiting], Some(1)),
            (&[Responding, Working, Waiting], Some(2)),
            (&[Working, Responding, Responding], Some(1)),
            (&[Working, Working], None),
            (&[], None),
        ];
        for (phases, expected) in table {
            assert_eq!(evictable(&phases.iter().copied()), expected, "{phases:?}");
        }
    }

    #[tokio::test]
    async fn at_the_bound_one_goes_and_if_all_are_answered_the_next_waits_for_them() {
        let mut connections = AdminConnections::default();
        let add = |connections: &mut AdminConnections| {
            let progress = connections.progress();
            let task = tokio::spawn(std::future::pending::<()>());
            connections.add(task.abort_handle(), progress.clone());
            (task, progress)
        };
        let open: Vec<_> = (0..CONNECTIONS).map(|_| add(&mut connections)).collect();
        let working: Vec<_> = open.iter().skip(1).map(|(_, progress)| progress.work()).collect();
        connections.make_room().await;
        assert!(connections.open.len() == CONNECTIONS - 1, "the one without a request has gone");
        tokio::task::yield_now().await;
        assert!(open[0].0.is_finished() && !open[1].0.is_finished());
        let (_, last) = add(&mut connections);
        let last = last.work();
        let mut room = Box::pin(connections.make_room());
        assert!(futures_util::FutureExt::now_or_never(&mut room).is_none(), "all are being answered");
        drop(working);
        room.await;
        drop(last);
        tokio::task::yield_now().await;
        assert!(open[1].0.is_finished(), "its client does not take the response");
    }
}
