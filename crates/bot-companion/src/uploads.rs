//! What the bot is sending right now: how much of it may go on at once, and what it leaves to clean up.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tracing::warn;

use crate::background::Background;
use crate::domain::feed::{InstanceId, Scope};
use crate::domain::retention::CLEAN_UP_BATCH;
use crate::log_throttle::Throttles;
use crate::store::Store;

/// Snapshots at a time.
const SNAPSHOTS: usize = 4;
/// Requests of the bot's side at a time.
const REQUESTS: usize = 128;

/// The uploads in progress.
pub struct Uploads {
    /// How many requests of the bot's side may be in work at once.
    pub in_work: Semaphore,
    /// Of whom the log was told that its data is ignored.
    pub ignored: Throttles<InstanceId>,
    scopes: Mutex<HashSet<Scope>>,
    cleaning: AtomicBool,
    store: Arc<dyn Store>,
    background: Background,
}

/// The place of a snapshot among those in progress; free again when this is dropped.
pub struct Place {
    uploads: Arc<Uploads>,
    scope: Scope,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.uploads.scopes.lock().remove(&self.scope);
    }
}

impl Uploads {
    /// None yet.
    pub fn new(store: Arc<dyn Store>, background: Background) -> Self {
        Self {
            in_work: Semaphore::new(REQUESTS),
            ignored: Throttles::default(),
            scopes: Mutex::default(),
            cleaning: AtomicBool::new(false),
            store,
            background,
        }
    }

    /// A place for a snapshot, if nobody sends the same one and there is room.
    pub fn place(self: &Arc<Self>, scope: Scope) -> Option<Place> {
        let mut scopes = self.scopes.lock();
        let free = scopes.len() < SNAPSHOTS && scopes.insert(scope);
        free.then(|| Place { uploads: Arc::clone(self), scope })
    }

    /// How many snapshots are being received.
    pub fn under_way(&self) -> usize {
        self.scopes.lock().len()
    }

    /// Takes away, behind, what no read can see any more; one such pass at a time, in small steps between other writes.
    pub fn clean_up(self: &Arc<Self>) {
        if self.cleaning.swap(true, Ordering::SeqCst) {
            return;
        }
        let uploads = Arc::clone(self);
        self.background.spawn(async move {
            // When the service stops, the rest waits for the next start.
            while !uploads.background.is_closing() {
                match uploads.store.clean_up(CLEAN_UP_BATCH).await {
                    Ok(0) => break,
                    Ok(_) => tokio::task::yield_now().await,
                    Err(error) => {
                        warn!(%error, "what snapshots left behind could not be cleaned up; trying again in a minute");
                        break;
                    }
                }
            }
            uploads.cleaning.store(false, Ordering::SeqCst);
        });
    }
}
