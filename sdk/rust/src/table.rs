//! The guilds reported by the gateway's events. A library's own cache keeps guilds that the bot left while it was offline;
//! here, READY decides which guilds exist.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::companion::{BotEvent, Companion};
use crate::source::{Guild, GuildState, ShardHealth, shard_of};

/// A shard is also ready if no guild has arrived for this long: the missing ones have an outage.
const ARRIVAL_TIME: Duration = Duration::from_secs(15);
/// A guild that arrives this long before its shard's READY counts as part of that session, because libraries may report them
/// out of order.
const EARLY_TIME: Duration = Duration::from_secs(5);

/// If no other shard has started for this long, there are no more.
const START_TIME: Duration = Duration::from_secs(30);

/// A shard of this process.
#[derive(Default)]
struct Shard {
    /// When it last sent a heartbeat, when one was acknowledged, and the milliseconds in between.
    sent: Option<Instant>,
    acknowledged: Option<Instant>,
    latency: Option<f64>,
    /// Guilds in READY that have not arrived yet.
    missing: HashSet<u64>,
    is_ready: bool,
    /// The session's number.
    session: u64,
    /// Guilds that have arrived in this session.
    arrivals: u64,
}

#[derive(Default)]
struct Inner {
    name: Option<String>,
    shard_count: u32,
    shards: BTreeMap<u32, Shard>,
    last_session: Option<Instant>,
    /// `None` if the bot is in it but cannot see it.
    guilds: BTreeMap<u64, Option<Guild>>,
    /// Guilds that have only just arrived.
    early: HashMap<u64, (Instant, Guild)>,
}

/// The table.
#[derive(Default)]
pub(crate) struct Table {
    inner: Mutex<Inner>,
    /// Held from a change until it has been reported; otherwise a shard might be reported ready before its session. Take this
    /// lock before the other one, never after it.
    turn: Mutex<()>,
}

/// The fields of a guild that can change.
pub(crate) struct Changed {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) icon: Option<String>,
    pub(crate) owner: u64,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// READY: sets the shard's guilds. Returns the session's number.
    pub(crate) fn begin_session(
        &self,
        companion: &Companion,
        shard: u32,
        count: u32,
        name: &str,
        guilds: &[u64],
    ) -> u64 {
        let _turn = self.take_turn();
        let session = {
            let mut inner = self.lock();
            let inner = &mut *inner;
            inner.name = Some(name.to_owned());
            inner.last_session = Some(Instant::now());
            if inner.shard_count != count {
                inner.shard_count = count;
                inner.shards.clear();
                inner.guilds.clear();
            }
            inner.guilds.retain(|guild, _| shard_of(*guild, count) != shard);
            let state = inner.shards.entry(shard).or_default();
            state.missing = guilds.iter().copied().collect();
            state.is_ready = false;
            state.session += 1;
            state.arrivals = 0;
            for guild in guilds {
                let early =
                    inner.early.remove(guild).filter(|(at, _)| at.elapsed() < EARLY_TIME).map(|(_, guild)| guild);
                if early.is_some() {
                    state.missing.remove(guild);
                }
                inner.guilds.insert(*guild, early);
            }
            state.session
        };
        companion.tell(&BotEvent::Session { shard });
        self.look_whether_ready(companion, shard);
        session
    }

    /// Waits until the shard's guilds have arrived, or no more come. After that, no guild counts as early.
    pub(crate) async fn await_guilds(&self, companion: &Companion, shard: u32, session: u64) {
        self.await_arrivals(companion, shard, session).await;
        tokio::time::sleep(EARLY_TIME).await;
        self.lock().early.retain(|_, (at, _)| at.elapsed() < EARLY_TIME);
    }

    async fn await_arrivals(&self, companion: &Companion, shard: u32, session: u64) {
        let mut seen = None;
        loop {
            let arrivals = {
                let inner = self.lock();
                match inner.shards.get(&shard).filter(|state| state.session == session && !state.is_ready) {
                    Some(state) => state.arrivals,
                    None => return,
                }
            };
            if seen == Some(arrivals) {
                let _turn = self.take_turn();
                if let Some(state) = self.lock().shards.get_mut(&shard).filter(|state| state.session == session) {
                    state.missing.clear();
                }
                return self.look_whether_ready(companion, shard);
            }
            seen = Some(arrivals);
            tokio::time::sleep(ARRIVAL_TIME).await;
        }
    }

    fn look_whether_ready(&self, companion: &Companion, shard: u32) {
        let mut inner = self.lock();
        let Some(state) = inner.shards.get_mut(&shard).filter(|state| state.missing.is_empty() && !state.is_ready)
        else {
            return;
        };
        state.is_ready = true;
        drop(inner);
        companion.tell(&BotEvent::Ready { shard });
    }

    /// A guild has arrived (`GUILD_CREATE`).
    pub(crate) fn guild_here(&self, companion: &Companion, guild: Guild) {
        let _turn = self.take_turn();
        self.arrive(companion, guild);
    }

    fn arrive(&self, companion: &Companion, guild: Guild) {
        let (id, shard) = {
            let mut inner = self.lock();
            let (id, shard) = (guild.id, shard_of(guild.id, inner.shard_count));
            inner.early.retain(|_, (at, _)| at.elapsed() < EARLY_TIME);
            let Some(state) = inner.shards.get_mut(&shard) else {
                // The shard's READY is reported after this.
                inner.early.insert(id, (Instant::now(), guild));
                return;
            };
            let was_missing = state.missing.remove(&id);
            state.arrivals += 1;
            if !was_missing {
                inner.early.insert(id, (Instant::now(), guild.clone()));
            }
            inner.guilds.insert(id, Some(guild));
            (id, shard)
        };
        companion.tell(&BotEvent::GuildHere { guild: id });
        self.look_whether_ready(companion, shard);
    }

    /// The same from a source that may report it late: it only counts if the guild has not arrived yet.
    #[cfg(feature = "serenity")]
    pub(crate) fn guild_here_late(&self, companion: &Companion, guild: Guild) {
        let _turn = self.take_turn();
        let is_missing = {
            let mut inner = self.lock();
            let shard = shard_of(guild.id, inner.shard_count);
            let is_missing = inner.shards.get(&shard).is_none_or(|state| state.missing.contains(&guild.id));
            if !is_missing {
                inner.early.retain(|_, (at, _)| at.elapsed() < EARLY_TIME);
                inner.early.entry(guild.id).or_insert_with(|| (Instant::now(), guild.clone()));
            }
            is_missing
        };
        if is_missing {
            self.arrive(companion, guild);
        }
    }

    /// The bot was removed from a guild that has not arrived, according to a source that may report it late.
    #[cfg(feature = "serenity")]
    pub(crate) fn guild_gone_late(&self, companion: &Companion, guild: u64) {
        let _turn = self.take_turn();
        let is_missing = {
            let inner = self.lock();
            let shard = shard_of(guild, inner.shard_count);
            inner.shards.get(&shard).is_some_and(|state| state.missing.contains(&guild))
        };
        if is_missing {
            self.leave(companion, guild);
        }
    }

    /// An outage: the bot is in the guild, but cannot see it.
    pub(crate) fn guild_unavailable(&self, companion: &Companion, guild: u64) {
        let _turn = self.take_turn();
        let shard = {
            let mut inner = self.lock();
            inner.guilds.insert(guild, None);
            inner.early.remove(&guild);
            let shard = shard_of(guild, inner.shard_count);
            if let Some(state) = inner.shards.get_mut(&shard) {
                state.missing.remove(&guild);
            }
            shard
        };
        companion.tell(&BotEvent::GuildUnavailable { guild });
        self.look_whether_ready(companion, shard);
    }

    /// The bot was removed.
    pub(crate) fn guild_gone(&self, companion: &Companion, guild: u64) {
        let _turn = self.take_turn();
        self.leave(companion, guild);
    }

    fn leave(&self, companion: &Companion, guild: u64) {
        let shard = {
            let mut inner = self.lock();
            inner.guilds.remove(&guild);
            inner.early.remove(&guild);
            let shard = shard_of(guild, inner.shard_count);
            if let Some(state) = inner.shards.get_mut(&shard) {
                state.missing.remove(&guild);
            }
            shard
        };
        companion.tell(&BotEvent::GuildGone { guild });
        self.look_whether_ready(companion, shard);
    }

    /// A guild was updated (`GUILD_UPDATE`). Reported only if something that is sent has changed.
    pub(crate) fn guild_changed(&self, companion: &Companion, changed: Changed) {
        let _turn = self.take_turn();
        let mut inner = self.lock();
        let Some(Some(guild)) = inner.guilds.get_mut(&changed.id) else { return };
        let before = guild.clone();
        (guild.name, guild.icon, guild.owner) = (changed.name, changed.icon, changed.owner);
        let is_news = *guild != before;
        drop(inner);
        if is_news {
            companion.tell(&BotEvent::GuildChanged { guild: changed.id });
        }
    }

    pub(crate) fn member_joined(&self, companion: &Companion, guild: u64, user: u64, roles: Vec<u64>) {
        self.count_members(guild, 1);
        companion.tell(&BotEvent::MemberJoined { guild, user, roles });
    }

    pub(crate) fn member_gone(&self, companion: &Companion, guild: u64, user: u64) {
        self.count_members(guild, -1);
        companion.tell(&BotEvent::MemberGone { guild, user });
    }

    fn count_members(&self, guild: u64, growth: i64) {
        if let Some(Some(guild)) = self.lock().guilds.get_mut(&guild) {
            guild.members = guild.members.saturating_add_signed(growth);
        }
    }

    /// Records when a known shard last sent a heartbeat and got an acknowledgement, and the latency in milliseconds.
    #[cfg(feature = "twilight")]
    pub(crate) fn set_times(
        &self,
        shard: u32,
        sent: Option<Instant>,
        acknowledged: Option<Instant>,
        latency: Option<f64>,
    ) {
        if let Some(shard) = self.lock().shards.get_mut(&shard) {
            (shard.sent, shard.acknowledged, shard.latency) = (sent, acknowledged, latency);
        }
    }

    pub(crate) fn name(&self) -> Option<String> {
        self.lock().name.clone()
    }

    pub(crate) fn shard_count(&self) -> u32 {
        self.lock().shard_count.max(1)
    }

    pub(crate) fn shards(&self) -> Vec<ShardHealth> {
        let age = |then: Option<Instant>| then.map(|then| then.elapsed().as_secs_f64() * 1_000.0);
        let health = |(id, shard): (&u32, &Shard)| ShardHealth {
            id: *id,
            sent_ms_ago: age(shard.sent),
            acknowledged_ms_ago: age(shard.acknowledged),
            latency: shard.latency,
        };
        self.lock().shards.iter().map(health).collect()
    }

    /// A bot with a single process has all shards. In a cluster, nothing says how many this process has: if no more start for a
    // while, that's all.
    pub(crate) fn expects_shards(&self) -> bool {
        let inner = self.lock();
        let is_new = inner.last_session.is_some_and(|at| at.elapsed() < START_TIME);
        is_new && inner.shards.len() < inner.shard_count as usize
    }

    pub(crate) fn guild_ids(&self, shard: u32) -> Vec<u64> {
        let inner = self.lock();
        inner.guilds.keys().copied().filter(|guild| shard_of(*guild, inner.shard_count) == shard).collect()
    }

    pub(crate) fn guild(&self, id: u64) -> GuildState {
        match self.lock().guilds.get(&id) {
            Some(Some(guild)) => GuildState::Available(guild.clone()),
            Some(None) => GuildState::Unavailable,
            None => GuildState::Gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::future::BoxFuture;

    use super::*;
    use crate::library::{Library, LibrarySource};
    use crate::source::{ListingError, Member, Page};

    struct NoLibrary;

    impl Library for NoLibrary {
        fn name(&self) -> String {
            String::new()
        }

        fn has_members_intent(&self) -> bool {
            true
        }

        fn cached_holders(&self, _: u64, _: &[u64]) -> Option<Vec<Member>> {
            None
        }

        fn list_members(&self, _: u64, _: u64) -> BoxFuture<'static, Result<Page, ListingError>> {
            Box::pin(std::future::pending())
        }
    }

    const FIRST: u64 = 4_194_304;
    const SECOND: u64 = 8_388_608;

    fn start() -> (Arc<Table>, Companion) {
        let table = Arc::new(Table::default());
        let source = LibrarySource { table: Arc::clone(&table), library: Arc::new(NoLibrary) };
        let builder = Companion::builder("http://companion.example", "bck_test").unwrap();
        (table, builder.build(Arc::new(source)).unwrap().0)
    }

    fn guild(id: u64, name: &str) -> Guild {
        Guild::new(id, name, 10, 5)
    }

    fn is_ready(companion: &Companion) -> bool {
        companion.core.lock().snapshots.is_ready(0)
    }

    #[tokio::test]
    async fn a_shard_is_ready_when_its_guilds_have_arrived() {
        let (table, companion) = start();
        table.begin_session(&companion, 0, 1, "lantern", &[FIRST, SECOND]);
        table.guild_here(&companion, guild(FIRST, "a"));
        assert!(!is_ready(&companion));
        table.guild_unavailable(&companion, SECOND);
        assert!(is_ready(&companion));
        assert_eq!(table.guild_ids(0), [FIRST, SECOND]);
        assert_eq!(table.guild(SECOND), GuildState::Unavailable);
    }

    #[tokio::test(start_paused = true)]
    async fn a_guild_that_does_not_arrive_does_not_hold_up_the_others() {
        let (table, companion) = start();
        let session = table.begin_session(&companion, 0, 1, "lantern", &[FIRST, SECOND]);
        table.guild_here(&companion, guild(FIRST, "a"));
        table.await_guilds(&companion, 0, session).await;
        assert!(is_ready(&companion));
    }

    #[tokio::test]
    async fn guilds_may_be_told_before_their_session() {
        let (table, companion) = start();
        table.guild_here(&companion, guild(FIRST, "a"));
        table.begin_session(&companion, 0, 1, "lantern", &[FIRST]);
        assert!(is_ready(&companion));
        assert_eq!(table.guild(FIRST), GuildState::Available(guild(FIRST, "a")));
    }

    #[tokio::test]
    async fn a_new_session_says_which_guilds_there_are() {
        let (table, companion) = start();
        table.begin_session(&companion, 0, 1, "lantern", &[FIRST, SECOND]);
        table.guild_here(&companion, guild(FIRST, "a"));
        table.guild_here(&companion, guild(SECOND, "b"));
        table.begin_session(&companion, 0, 1, "lantern", &[SECOND]);
        assert_eq!(table.guild(FIRST), GuildState::Gone);
        assert!(!is_ready(&companion), "the other one has not arrived again");
    }

    /// serenity reports READY in its own task, while the shard reports what comes after it.
    #[tokio::test]
    async fn a_guild_may_arrive_while_its_session_is_told() {
        for _ in 0..2_000 {
            let (table, companion) = start();
            let held = companion.core.lock();
            std::thread::scope(|threads| {
                threads.spawn(|| table.begin_session(&companion, 0, 1, "lantern", &[FIRST]));
                while table.name().is_none() {
                    std::thread::yield_now();
                }
                threads.spawn(|| table.guild_here(&companion, guild(FIRST, "a")));
                std::thread::yield_now();
                drop(held);
            });
            assert!(is_ready(&companion));
        }
    }

    #[cfg(feature = "serenity")]
    #[tokio::test]
    async fn a_guild_that_is_told_late_does_not_replace_newer_news() {
        let (table, companion) = start();
        table.begin_session(&companion, 0, 1, "lantern", &[FIRST]);
        table.guild_here_late(&companion, guild(FIRST, "old"));
        assert!(is_ready(&companion), "it was missing");
        let changed = Changed { id: FIRST, name: "new".to_owned(), icon: None, owner: 10 };
        table.guild_changed(&companion, changed);
        table.guild_here_late(&companion, guild(FIRST, "old"));
        assert_eq!(table.guild(FIRST), GuildState::Available(guild(FIRST, "new")));
        table.guild_gone(&companion, FIRST);
        table.guild_here_late(&companion, guild(FIRST, "old"));
        assert_eq!(table.guild(FIRST), GuildState::Gone);
    }
}
