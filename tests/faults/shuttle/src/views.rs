//! The cache, and the sessions as the view that most depends on it. What is checked is what a user sees: who asks after a change was
//! acknowledged gets the change, whatever other threads read and cache meanwhile.

#[path = "../../../../crates/service/src/views/cached.rs"]
pub mod cached;
#[path = "../../../../crates/service/src/views/sessions.rs"]
pub mod sessions;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cached::{CacheMap, CacheRead, CacheSlot, Weigh};
use domain::{Session, SessionId, SessionLimits, Snowflake, Time, TokenHash};
use sessions::SessionsView;
use shuttle::future::block_on;
use shuttle::thread::{self, JoinHandle};

use crate::clock::Clock;
use crate::freshness::{Freshness, Topic};
use crate::metrics::{CacheName, Metrics};
use crate::sources::Sources;
use crate::stand_ins::Store;

const TOPIC: Topic = Topic::Team;
const KEY: u8 = 1;
const READERS: usize = 2;
const READS: usize = 2;
const CHANGES: usize = 2;

/// The parts of the service that a view uses.
struct World {
    store: Arc<Store>,
    sources: Sources,
    /// The latest value whose write was acknowledged. A plain atomic, so that shuttle doesn't schedule around it.
    acknowledged: AtomicU64,
}

impl World {
    fn new() -> Self {
        let (store, clock) = (Arc::new(Store::default()), Clock::manual(Time::from_seconds(1_000)));
        let sources = Sources {
            store: Arc::clone(&store) as _,
            freshness: Arc::new(Freshness::new(clock.clone())),
            metrics: Arc::new(Metrics::default()),
            clock,
        };
        Self { store, sources, acknowledged: AtomicU64::new(0) }
    }

    fn commit(&self) -> u64 {
        let mut value = self.store.value.lock().unwrap();
        *value += 1;
        *value
    }

    fn acknowledge(&self, value: u64) {
        self.acknowledged.fetch_max(value, Ordering::SeqCst);
    }

    /// Like the stores: commit, then update the counters, then acknowledge.
    fn change(&self) {
        let value = self.commit();
        self.sources.freshness.invalidate(TOPIC);
        self.acknowledge(value);
    }

    fn check(&self, read: impl FnOnce() -> u64) {
        let acknowledged = self.acknowledged.load(Ordering::SeqCst);
        let seen = read();
        assert!(seen >= acknowledged, "a read shows {seen} after {acknowledged} was acknowledged");
    }
}

struct Number(u64);

impl Weigh for Number {}

fn begin(sources: &Sources) -> (CacheRead<'_>, u64) {
    let mut read = CacheRead::begin(sources);
    let value = read.depend_on([TOPIC]).value();
    (read, value)
}

fn get_public(slot: &CacheSlot<Number>, sources: &Sources) -> u64 {
    if let Some(cached) = slot.get_fresh() {
        return cached.0;
    }
    let (read, value) = begin(sources);
    slot.insert(read, Number(value)).0
}

fn get_private(map: &CacheMap<u8, Number>, world: &World) -> u64 {
    if let Some(cached) = map.get_fresh(&KEY) {
        return cached.0;
    }
    let (read, value) = begin(&world.sources);
    let is_overtaken = world.acknowledged.load(Ordering::SeqCst) > value;
    let cached = map.insert(KEY, read, Number(value));
    let is_kept = map.peek(&KEY).is_some_and(|kept| Arc::ptr_eq(&kept, &cached));
    assert!(!(is_overtaken && is_kept), "a read that a change has overtaken was kept, in place of a newer one");
    value
}

pub(crate) fn public_view() {
    let world = Arc::new(World::new());
    let slot = Arc::new(CacheSlot::new(CacheName::Team, &world.sources));
    let get = {
        let (world, slot) = (Arc::clone(&world), Arc::clone(&slot));
        move || get_public(&slot, &world.sources)
    };
    run(&world, get, World::change);
    assert!(slot.get_fresh().is_some_and(|cached| cached.0 == CHANGES as u64), "the last read was not kept");
}

pub(crate) fn private_view() {
    let world = Arc::new(World::new());
    let map = Arc::new(CacheMap::new(CacheName::Me, &world.sources, 8, 8));
    let get = {
        let (world, map) = (Arc::clone(&world), Arc::clone(&map));
        move || get_private(&map, &world)
    };
    run(&world, get, World::change);
    assert!(map.get_fresh(&KEY).is_some_and(|cached| cached.0 == CHANGES as u64), "the last read was not kept");
}

/// Another process changes the value, and this one isn't notified until the suspension ends.
pub(crate) fn suspension() {
    let world = Arc::new(World::new());
    let slot = Arc::new(CacheSlot::new(CacheName::Team, &world.sources));
    let get = {
        let (world, slot) = (Arc::clone(&world), Arc::clone(&slot));
        move || get_public(&slot, &world.sources)
    };
    run(&world, get, |world| {
        world.sources.freshness.suspend();
        let value = world.commit();
        world.acknowledge(value);
        world.sources.freshness.resume_invalidated();
    });
}

/// Reads and changes at the same time, then reads once more without changes.
fn run(world: &Arc<World>, get: impl Fn() -> u64 + Clone + Send + 'static, change: fn(&World)) {
    let readers = (0..READERS).map(|_| {
        let (world, get) = (Arc::clone(world), get.clone());
        thread::spawn(move || (0..READS).for_each(|_| world.check(&get)))
    });
    let mut threads: Vec<JoinHandle<()>> = readers.collect();
    let writer = Arc::clone(world);
    threads.push(thread::spawn(move || (0..CHANGES).for_each(|_| change(&writer))));
    for each in threads {
        each.join().unwrap();
    }
    world.check(&get);
}

pub(crate) fn ended_session() {
    let world = Arc::new(World::new());
    let (user, token) = (Snowflake::new(7).unwrap(), TokenHash([1; 32]));
    let session = Session {
        id: SessionId::parse("0123456789abcdef").unwrap(),
        user,
        created: Time::from_seconds(1_000),
        last_seen: Time::from_seconds(1_000),
        agent: String::new(),
    };
    world.store.sessions.lock().unwrap().insert(token, session);
    let hour = Duration::from_secs(3_600);
    let limits = SessionLimits { idle: hour, absolute: hour, per_user: 10 };
    let view = Arc::new(SessionsView::new(&world.sources, limits));
    let ended = Arc::new(AtomicBool::new(false));
    let readers = (0..READERS).map(|_| {
        let (view, ended) = (Arc::clone(&view), Arc::clone(&ended));
        thread::spawn(move || {
            for _ in 0..READS {
                let is_over = ended.load(Ordering::SeqCst);
                let found = block_on(view.find(token)).unwrap();
                assert!(!is_over || found.is_none(), "a session that was ended is still taken");
            }
        })
    });
    let mut threads: Vec<JoinHandle<()>> = readers.collect();
    let (changed, signal) = (Arc::clone(&world), Arc::clone(&ended));
    threads.push(thread::spawn(move || {
        changed.store.sessions.lock().unwrap().remove(&token);
        changed.sources.freshness.invalidate(Topic::SessionsOf(user));
        signal.store(true, Ordering::SeqCst);
    }));
    for each in threads {
        each.join().unwrap();
    }
    assert!(block_on(view.find(token)).unwrap().is_none(), "a session that was ended is taken later");
}
