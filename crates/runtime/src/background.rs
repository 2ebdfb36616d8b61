//! Background tasks: work that outlives the request that started it (code exchanges, token refreshes, revocations). It has its
//! own runtime, separate from the connections, and a shutdown waits for it.

use std::future::Future;
use std::time::Duration;

use telemetry::request_id;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

#[derive(Clone, Debug)]
pub struct Background {
    runtime: Handle,
    tracker: TaskTracker,
}

impl Background {
    /// Uses the current runtime.
    pub fn here() -> Self {
        Self { runtime: Handle::current(), tracker: TaskTracker::new() }
    }

    /// Runs this to its end, even if nobody waits for it. What it logs carries the ID of the request that started it.
    pub fn spawn<F>(&self, work: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.tracker.spawn_on(request_id::inherit(work), &self.runtime)
    }

    /// Whether a drain has begun.
    pub fn is_closing(&self) -> bool {
        self.tracker.is_closed()
    }

    /// Waits until everything is done or the time is up. Returns whether everything is done.
    pub async fn drain(&self, limit: Duration) -> bool {
        self.tracker.close();
        tokio::time::timeout(limit, self.tracker.wait()).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use telemetry::request_id::{RequestScope, current, scope};

    use super::*;

    #[tokio::test]
    async fn background_work_goes_on_under_the_id_of_who_began_it() {
        let background = Background::here();
        let outer = async {
            let inner = background.spawn(async { current() }).await.unwrap();
            assert_eq!(inner, current());
            inner
        };
        let request = RequestScope { id: HeaderValue::from_static("abc"), trace: None };
        assert_eq!(scope(request, outer).await.unwrap(), "abc");
        assert_eq!(background.spawn(async { current() }).await.unwrap(), None);
        assert_eq!(current(), None);
    }
}
