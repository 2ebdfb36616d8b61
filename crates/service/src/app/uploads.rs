//! The bot's uploads in progress: how many there may be, and the clean-up after them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use domain::TokenHash;
use domain::feed::{InstanceId, Scope};
use domain::retention::CLEAN_UP_BATCH;
use parking_lot::Mutex;
use runtime::background::Background;
use runtime::permits_per_key::{KeyPermit, PermitsPerKey};
use store::{SnapshotId, Store};
use telemetry::log_throttle::Throttles;
use tokio::sync::Semaphore;
use tracing::warn;

// All of these are for all bot keys together; one key gets a quarter.
/// Snapshots received at the same time.
const SNAPSHOTS: usize = 16;
/// Bot requests in progress at the same time, not counting heartbeats.
const REQUESTS: usize = 128;
/// Heartbeats in progress at the same time.
const HEARTBEATS: usize = 128;

/// Lookups of uncached keys in the store at the same time.
const KEY_LOOKUPS: usize = 128;

/// Whether a background task is cleaning up: no, yes, or yes and it was asked to start again.
const IDLE: u8 = 0;
const CLEANING: u8 = 1;
const AGAIN: u8 = 2;

pub struct Uploads {
    /// Permits for bots' requests. They are separate from other requests, so that slow uploads hold up nobody else.
    pub permits: PermitsPerKey,
    /// Permits for heartbeats, so that no other upload can make a bot look down.
    pub heartbeats: PermitsPerKey,
    /// Permits for looking up uncached keys, before it is known whose permit a request would use.
    pub key_lookups: Semaphore,
    /// For the log line about instances whose data is ignored.
    pub ignored: Throttles<InstanceId>,
    snapshots: PermitsPerKey,
    /// The scopes that each key is sending a snapshot of.
    scopes: Mutex<HashSet<(TokenHash, Scope)>>,
    /// Snapshots that could not be discarded. The store has a row for each.
    unfinished: Mutex<Vec<SnapshotId>>,
    cleaning: AtomicU8,
    store: Arc<Store>,
    background: Background,
}

/// A snapshot's permit; released when this is dropped.
pub struct SnapshotPermit {
    uploads: Arc<Uploads>,
    scope: (TokenHash, Scope),
    _permit: KeyPermit,
}

impl Drop for SnapshotPermit {
    fn drop(&mut self) {
        self.uploads.scopes.lock().remove(&self.scope);
    }
}

impl Uploads {
    pub fn new(store: Arc<Store>, background: Background) -> Self {
        Self {
            permits: PermitsPerKey::new(REQUESTS),
            heartbeats: PermitsPerKey::new(HEARTBEATS),
            key_lookups: Semaphore::new(KEY_LOOKUPS),
            ignored: Throttles::default(),
            snapshots: PermitsPerKey::new(SNAPSHOTS),
            scopes: Mutex::default(),
            unfinished: Mutex::default(),
            cleaning: AtomicU8::new(IDLE),
            store,
            background,
        }
    }

    /// A permit for a snapshot, unless this key is already sending the same one, or there is none left.
    pub fn try_acquire(self: &Arc<Self>, scope: Scope, key: TokenHash) -> Option<SnapshotPermit> {
        // Per key, so that one key's upload cannot keep others from sending the same shard. At the commit the store decides
        // between them, as it does between replicas.
        let scope = (key, scope);
        let mut scopes = self.scopes.lock();
        if scopes.contains(&scope) {
            return None;
        }
        let permit = self.snapshots.try_acquire(key)?;
        scopes.insert(scope);
        Some(SnapshotPermit { uploads: Arc::clone(self), scope, _permit: permit })
    }

    /// The pools by name, for the metrics.
    pub fn pools(&self) -> [(&'static str, &PermitsPerKey); 3] {
        [("bot", &self.permits), ("heartbeats", &self.heartbeats), ("snapshots", &self.snapshots)]
    }

    /// How many snapshots are being received.
    pub fn under_way(&self) -> usize {
        self.scopes.lock().len()
    }

    /// Discards a snapshot that was not committed. If that fails, on a full disk for example, a later clean-up does it.
    pub async fn discard(self: &Arc<Self>, snapshot: SnapshotId) {
        if self.store.abandon_snapshot(snapshot).await.is_err() {
            self.unfinished.lock().push(snapshot);
        }
        self.clean_up();
    }

    /// Deletes data that no read can see any more, in one background task at a time and in small steps between other writes.
    pub fn clean_up(self: &Arc<Self>) {
        // A task that is about to end starts over, because the request may have come after its last look.
        if self.cleaning.swap(AGAIN, Ordering::SeqCst) != IDLE {
            return;
        }
        let uploads = Arc::clone(self);
        self.background.spawn(async move {
            loop {
                uploads.cleaning.store(CLEANING, Ordering::SeqCst);
                uploads.clean_up_all().await;
                // An error means that it was asked to start again.
                let ended = uploads.cleaning.compare_exchange(CLEANING, IDLE, Ordering::SeqCst, Ordering::SeqCst);
                if ended.is_ok() || uploads.background.is_closing() {
                    break;
                }
            }
        });
    }

    /// Cleans up until nothing is left or the process ends, which leaves the rest to the next start.
    async fn clean_up_all(&self) {
        while !self.background.is_closing() {
            match self.clean_up_some().await {
                Ok(0) => break,
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => {
                    warn!(%error, "leftovers of unfinished snapshots could not be cleaned up; retrying in a minute");
                    break;
                }
            }
        }
    }

    async fn clean_up_some(&self) -> store::Result<usize> {
        while let Some(snapshot) = self.last_unfinished() {
            self.store.abandon_snapshot(snapshot).await?;
            self.unfinished.lock().retain(|other| *other != snapshot);
        }
        self.store.clean_up(CLEAN_UP_BATCH).await
    }

    fn last_unfinished(&self) -> Option<SnapshotId> {
        self.unfinished.lock().last().copied()
    }
}
