//! Stand-ins for the parts of the service that aren't modelled. Each call is atomic.

use std::collections::HashMap;
use std::future::{Ready, ready};
use std::sync::Arc;

use domain::{Session, SessionId, Snowflake, Time, TokenHash};
use shuttle::sync::Mutex;
use shuttle::thread;

/// The store's value and sessions, as committed.
#[derive(Default)]
pub struct Store {
    pub value: Mutex<u64>,
    pub sessions: Mutex<HashMap<TokenHash, Session>>,
}

impl Store {
    pub fn value(&self) -> u64 {
        let value = *self.value.lock().unwrap();
        // The response takes a while to arrive.
        thread::yield_now();
        value
    }

    pub fn session(&self, token: TokenHash) -> Ready<Result<Option<Session>>> {
        let session = self.sessions.lock().unwrap().get(&token).cloned();
        thread::yield_now();
        ready(Ok(session))
    }

    pub fn sessions_of(&self, user: Snowflake) -> Ready<Result<Vec<Session>>> {
        let sessions = self.sessions.lock().unwrap();
        ready(Ok(sessions.values().filter(|session| session.user == user).cloned().collect()))
    }

    pub fn note_seen(&self, _: Vec<(SessionId, Time)>) -> Ready<Result<()>> {
        ready(Ok(()))
    }
}

pub type Result<T> = std::result::Result<T, StoreError>;

#[derive(Debug)]
pub enum StoreError {
    Unavailable(String),
    Busy(String),
}

pub mod sources {
    use super::{Arc, Store, StoreError};
    use crate::clock::Clock;
    use crate::freshness::Freshness;
    use crate::metrics::Metrics;

    #[derive(Clone)]
    pub struct Sources {
        pub store: Arc<Store>,
        pub freshness: Arc<Freshness>,
        pub metrics: Arc<Metrics>,
        pub clock: Clock,
    }

    impl Sources {
        pub fn warn_served_stale(&self, _: &StoreError) {}
    }
}

pub mod metrics {
    #[derive(Default)]
    pub struct Metrics {
        pub caches: Caches,
    }

    #[derive(Default)]
    pub struct Caches {
        pub evictions: Evictions,
    }

    #[derive(Default)]
    pub struct Evictions;

    #[derive(Clone, Copy)]
    pub enum CacheName {
        Sessions,
        Team,
        Me,
    }

    pub enum CacheOutcome {
        Hit,
        Miss,
    }

    impl Caches {
        pub fn count(&self, _: CacheName, _: CacheOutcome) {}
    }

    impl Evictions {
        pub fn count(&self, _: CacheName) {}
    }
}

pub mod background {
    use shuttle::rand::{Rng, thread_rng};

    /// Where background tasks are spawned.
    #[derive(Clone, Debug)]
    pub struct Background {
        /// Whether to drop some of the work, as a runtime does when it shuts down.
        pub loses_work: bool,
    }

    impl Background {
        pub fn spawn<F>(&self, work: F)
        where
            F: Future<Output: Send> + Send + 'static,
        {
            if self.loses_work && thread_rng().r#gen() {
                drop(work);
            } else {
                drop(shuttle::future::spawn(work));
            }
        }
    }
}

/// Replaces `arc_swap`.
#[derive(Default)]
pub struct ArcSwapOption<T>(Mutex<Option<Arc<T>>>);

impl<T> ArcSwapOption<T> {
    pub fn empty() -> Self {
        Self(Mutex::new(None))
    }

    pub fn load(&self) -> Loaded<T> {
        Loaded(self.load_full())
    }

    pub fn load_full(&self) -> Option<Arc<T>> {
        self.0.lock().unwrap().clone()
    }

    pub fn store(&self, value: Option<Arc<T>>) {
        *self.0.lock().unwrap() = value;
    }
}

pub struct Loaded<T>(Option<Arc<T>>);

impl<T> std::ops::Deref for Loaded<T> {
    type Target = Option<Arc<T>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

// Replaces `quick_cache`, without eviction.
pub use std::collections::hash_map::RandomState as DefaultHashBuilder;

pub trait Weighter<K, V> {
    fn weight(&self, key: &K, value: &V) -> u64;
}

pub trait Lifecycle<K, V> {
    type RequestState;
    fn on_evict(&self, state: &mut Self::RequestState, key: K, value: V);
}

pub mod sync {
    use std::hash::Hash;
    use std::marker::PhantomData;

    use super::{HashMap, Mutex};

    pub struct Cache<K, V, W, B, L>(Mutex<HashMap<K, V>>, PhantomData<(W, B, L)>);

    impl<K: Clone + Eq + Hash, V: Clone, W, B, L> Cache<K, V, W, B, L> {
        pub fn with(_: usize, _: u64, _: W, _: B, _: L) -> Self {
            Self(Mutex::default(), PhantomData)
        }

        pub fn get(&self, key: &K) -> Option<V> {
            self.0.lock().unwrap().get(key).cloned()
        }

        pub fn peek(&self, key: &K) -> Option<V> {
            self.get(key)
        }

        pub fn len(&self) -> usize {
            self.0.lock().unwrap().len()
        }

        pub fn iter(&self) -> impl Iterator<Item = (K, V)> {
            self.0.lock().unwrap().clone().into_iter()
        }

        pub fn insert(&self, key: K, value: V) {
            self.0.lock().unwrap().insert(key, value);
        }

        pub fn remove(&self, key: &K) {
            self.0.lock().unwrap().remove(key);
        }
    }
}
