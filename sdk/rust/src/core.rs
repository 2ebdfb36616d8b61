//! What all parts share: the state behind one lock, which is never held across a wait.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::batch::Batch;
use crate::budget::Budget;
use crate::callbacks::{Answers, Callbacks, LastAnswers, Time};
use crate::clock::Clock;
use crate::companion::Missed;
use crate::feedback::Queue;
use crate::limits::Limits;
use crate::marks::{GuildMark, Key, Mark, Marks};
use crate::numbering::Numbering;
use crate::outage::Outage;
use crate::snapshots::Snapshots;
use crate::source::{Guild, Source, shard_of};
use crate::spool::Spool;
use crate::staff::{Holders, MOST_STAFF, Staff};
use crate::status::Reporter;
use crate::subscriptions::Refusals;
use crate::transport::Transport;

/// How far closing has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Open,
    /// Sending what is waiting.
    Closing,
    Closed,
}

/// The state of the feed.
pub(crate) struct State {
    pub(crate) numbering: Numbering,
    pub(crate) snapshots: Snapshots,
    pub(crate) marks: Marks,
    pub(crate) batch: Option<Batch>,
    pub(crate) feedback: Queue,
    pub(crate) spool: Option<Spool>,
    pub(crate) staff: Staff,
    pub(crate) budget: Budget,
    pub(crate) answers: LastAnswers,
    /// Guilds whose callbacks are called again, and when.
    pub(crate) retries: HashMap<u64, Duration>,
    /// The service has received a heartbeat from this process.
    pub(crate) is_introduced: bool,
    /// The service was down, so it may have lost something.
    pub(crate) is_doubtful: bool,
    pub(crate) subscriptions: Listed,
    pub(crate) refused_subscriptions: Refusals,
    pub(crate) team: Listed,
    pub(crate) outage: Outage,
    /// Consecutive resyncs caused by a gap.
    pub(crate) resyncs: u32,
    /// Consecutive refused snapshots that could not be fixed.
    pub(crate) refusals: u32,
    /// Marks that the snapshot in progress replaces, if it arrives.
    pub(crate) replaced: Vec<(Key, Mark)>,
    pub(crate) missed: Missed,
    /// When the last heartbeat began, if there was one.
    pub(crate) last_heartbeat: Option<Duration>,
    /// A shard has become ready: when the heartbeat that reports it is due, unless one starts before.
    pub(crate) report_at: Option<Duration>,
    pub(crate) next_refresh: Duration,
    /// When the sender starts to work; `None` if there is nothing to do, or it is already working.
    pub(crate) start_at: Option<Duration>,
    pub(crate) is_working: bool,
}

/// Subscriptions or the team.
#[derive(Default)]
pub(crate) struct Listed {
    pub(crate) is_stale: bool,
    /// A digest of the last acknowledged content.
    pub(crate) acknowledged: Option<u128>,
    /// The callback has failed and will be called again.
    pub(crate) retry_at: Option<Duration>,
}

impl Listed {
    pub(crate) fn make_unknown(&mut self) {
        self.is_stale = true;
        self.acknowledged = None;
    }

    fn tick(&mut self, now: Duration, may_send: bool) {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.retry_at = None;
            self.is_stale |= may_send;
        }
    }
}

/// The state shared by all parts.
pub(crate) struct Core {
    pub(crate) url: String,
    pub(crate) instance: String,
    pub(crate) started_at: f64,
    /// The same on the clock that only moves forward.
    pub(crate) start: Duration,
    pub(crate) limits: Limits,
    pub(crate) callbacks: Callbacks,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) reporter: Reporter,
    pub(crate) wake: Notify,
    pub(crate) list_wake: Notify,
    pub(crate) shards_known: Notify,
    /// Held while a heartbeat is being sent.
    pub(crate) heartbeat_turn: tokio::sync::Mutex<()>,
    pub(crate) phase: watch::Sender<Phase>,
    state: Mutex<State>,
}

impl Core {
    #[expect(clippy::too_many_arguments, reason = "each is a part that is handed in")]
    pub(crate) fn new(
        url: String,
        instance: String,
        limits: Limits,
        callbacks: Callbacks,
        source: Arc<dyn Source>,
        clock: Arc<dyn Clock>,
        transport: Arc<dyn Transport>,
        reporter: Reporter,
    ) -> Self {
        let state = State {
            numbering: Numbering::default(),
            snapshots: Snapshots::default(),
            marks: Marks::default(),
            batch: None,
            feedback: Queue::new(),
            spool: None,
            staff: Staff::default(),
            budget: Budget::default(),
            answers: LastAnswers::default(),
            retries: HashMap::new(),
            is_introduced: false,
            is_doubtful: false,
            subscriptions: Listed::default(),
            refused_subscriptions: Refusals::default(),
            team: Listed::default(),
            outage: Outage::default(),
            resyncs: 0,
            refusals: 0,
            replaced: Vec::new(),
            missed: Missed::default(),
            last_heartbeat: None,
            report_at: None,
            next_refresh: clock.now() + limits.refresh_interval,
            start_at: None,
            is_working: false,
        };
        Self {
            url,
            instance,
            started_at: clock.epoch(),
            start: clock.now(),
            limits,
            callbacks,
            source,
            transport,
            reporter,
            wake: Notify::new(),
            list_wake: Notify::new(),
            shards_known: Notify::new(),
            heartbeat_turn: tokio::sync::Mutex::new(()),
            phase: watch::Sender::new(Phase::Open),
            state: Mutex::new(state),
            clock,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_open(&self) -> bool {
        *self.phase.borrow() == Phase::Open
    }

    /// Starts the sender after this time, or earlier if that was already scheduled.
    pub(crate) fn start_after(&self, state: &mut State, time: Duration) {
        if state.is_working {
            return;
        }
        let at = self.clock.now() + time;
        if state.start_at.is_none_or(|earlier| at < earlier) {
            state.start_at = Some(at);
            self.wake.notify_one();
        }
    }

    /// A change waits for others, unless enough are waiting already.
    pub(crate) fn start_gathered(&self, state: &mut State) {
        let is_enough = state.marks.len() + state.feedback.len() >= self.limits.batch_lines;
        self.start_after(state, if is_enough { Duration::ZERO } else { self.limits.gather_time });
    }

    /// Marks a guild, if its shard has been sent.
    pub(crate) fn mark_guild(&self, guild: u64, mark: GuildMark) {
        let mut state = self.lock();
        if (mark.fields || mark.whole) && state.snapshots.accept(guild) {
            self.reporter.forget(&format!("refused {guild}"));
        }
        self.mark(&mut state, Key::Guild(guild), Mark::Guild(mark));
    }

    pub(crate) fn mark(&self, state: &mut State, key: Key, mark: Mark) {
        let is_marked = state.snapshots.marks(key.guild()) || self.outlives_snapshots(state, key, &mark);
        if !is_marked {
            return;
        }
        state.marks.put(key, mark);
        if state.marks.len() > self.limits.changes {
            self.reporter.warn_once(
                "changes",
                &format!(
                    "too many changes are waiting, more than {}: every shard is sent as a whole instead",
                    self.limits.changes
                ),
            );
            state.marks.clear();
            self.resync(state);
            return;
        }
        self.start_gathered(state);
    }

    /// Whether to keep the mark even though the guild's shard has not been sent: a snapshot without staff does not say that a
    /// member has left, or has come back since.
    fn outlives_snapshots(&self, state: &State, key: Key, mark: &Mark) -> bool {
        let shard = shard_of(key.guild(), state.snapshots.shard_count);
        match (key, mark) {
            (Key::Member { .. }, Mark::MemberGone) => self.source.shards().iter().any(|own| own.id == shard),
            (Key::Member { guild, user }, Mark::Member { .. }) => state.marks.has_member_gone(guild, user),
            _ => false,
        }
    }

    /// Sends everything as a whole. A batch and feedback stay.
    pub(crate) fn resync(&self, state: &mut State) {
        self.reporter.count(|counters| counters.resyncs += 1);
        state.marks.drop_guilds(|_| true);
        state.is_doubtful = false;
        state.snapshots.make_stale(|_| true);
        if state.snapshots.is_ready(0) {
            state.subscriptions.make_unknown();
            state.team.make_unknown();
        }
        state.is_introduced = false;
        self.start_after(state, Duration::ZERO);
    }

    /// All guilds of a shard have arrived.
    pub(crate) fn shard_ready(&self, shard: u32) {
        let mut state = self.lock();
        self.look_at_shard_count(&mut state);
        state.snapshots.make_ready(shard);
        if shard == 0 {
            state.subscriptions.make_unknown();
            state.team.make_unknown();
        }
        if state.report_at.is_none() && self.source.shards().iter().any(|own| own.id == shard) {
            state.report_at = Some(self.clock.now() + self.limits.gather_time);
        }
        self.start_after(&mut state, Duration::ZERO);
        self.shards_known.notify_one();
    }

    /// The platform rate limits the bot's requests for this long.
    pub(crate) fn limited(&self, time: Duration) {
        let time = time.min(self.limits.longest_retry_after);
        let slowdown = {
            let mut state = self.lock();
            state.budget.limit(self.clock.now(), time);
            state.budget.slowdown()
        };
        tracing::debug!(
            target: "bot_companion_feed",
            "Discord is rate limiting the bot: no members are listed for {time:?}, then at 1/{slowdown} of the usual rate"
        );
    }

    /// A new session: the shard is unknown until it is ready.
    pub(crate) fn shard_lost(&self, shard: u32) {
        let mut state = self.lock();
        self.look_at_shard_count(&mut state);
        let count = state.snapshots.shard_count;
        state.snapshots.forget(shard);
        state.marks.drop_guilds(|guild| shard_of(guild, count) == shard);
        state.staff.forget_where(|guild| shard_of(guild, count) == shard);
        state.staff.is_forbidden = false;
        self.shards_known.notify_one();
    }

    /// Drops data about guilds that the shard no longer has. No event reports guilds that the bot left while it was offline.
    pub(crate) fn forget_other_guilds(&self, shard: u32, guilds: &[u64]) {
        let guilds: HashSet<u64> = guilds.iter().copied().collect();
        let mut state = self.lock();
        let count = state.snapshots.shard_count;
        let stays = |guild: u64| shard_of(guild, count) != shard || guilds.contains(&guild);
        state.answers.retain(stays);
        state.snapshots.retain_refused(stays);
        state.marks.retain_counts(stays);
        state.retries.retain(|guild, _| stays(*guild));
    }

    fn look_at_shard_count(&self, state: &mut State) {
        let count = self.source.shard_count();
        if state.snapshots.shard_count != count {
            state.snapshots.shard_count = count;
            state.snapshots.clear();
            state.marks.drop_guilds(|_| true);
            state.staff.forget_where(|_| true);
        }
    }

    /// Turns everything that is due into work.
    pub(crate) fn tick(&self, state: &mut State) {
        let now = self.clock.now();
        let may_send = state.snapshots.may_send_lists();
        state.subscriptions.tick(now, may_send);
        state.team.tick(now, may_send);
        if state.next_refresh <= now {
            state.next_refresh = now + self.limits.refresh_interval;
            state.is_doubtful = true;
            if may_send {
                state.subscriptions.is_stale = true;
                state.team.is_stale = true;
            }
            self.refresh_missed(state);
        }
        let due: Vec<u64> = state.retries.iter().filter(|(_, at)| **at <= now).map(|(guild, _)| *guild).collect();
        for guild in due {
            state.retries.remove(&guild);
            self.mark(state, Key::Guild(guild), Mark::Guild(GuildMark::ASK));
        }
    }

    /// When the next thing is due that no event triggers.
    pub(crate) fn next_tick(state: &State) -> Duration {
        [state.subscriptions.retry_at, state.team.retry_at]
            .into_iter()
            .flatten()
            .chain(state.retries.values().copied())
            .fold(state.next_refresh, Duration::min)
    }

    // --- what a line needs

    /// Calls the callbacks. `None` if one failed that has never answered; the guild is then tried again later.
    pub(crate) async fn ask(&self, guild: &Guild) -> Option<Answers> {
        let asked = self.callbacks.ask(guild, &self.callback_time()).await;
        let has_failed = asked.has_failed();
        let mut state = self.lock();
        let answers = state.answers.keep(guild.id, asked);
        if has_failed {
            state.retries.insert(guild.id, self.clock.now() + self.limits.callback_retry);
        }
        answers
    }

    /// Puts back marks that were taken but not sent, in order.
    pub(crate) fn put_back(&self, marks: Vec<(Key, Mark)>) {
        let mut state = self.lock();
        for (key, mark) in marks.into_iter().rev() {
            if state.snapshots.marks(key.guild()) || mark.outlives_snapshots() {
                state.marks.put_back(key, mark);
            }
        }
    }

    pub(crate) fn callback_time(&self) -> Time<'_> {
        Time { clock: &*self.clock, limit: self.limits.callback_timeout, reporter: &self.reporter }
    }

    /// The guild's staff, if it is completely known, and the marks of its members, if they are to be taken because the staff
    /// list includes them.
    pub(crate) fn staff_of(&self, guild: &Guild, answers: &Answers, take: bool) -> (Option<Holders>, Vec<(Key, Mark)>) {
        let roles = answers.granting_roles(guild.id);
        let has_intent = self.source.has_members_intent();
        let cached = if roles.is_empty() || !has_intent { None } else { self.source.cached_holders(guild.id, &roles) };
        let mut state = self.lock();
        let staff = match cached {
            Some(members) => state.staff.of_cache(guild.id, &roles, members, self.clock.now()),
            None => state.staff.of(guild.id, &roles),
        };
        let taken = if take && staff.is_some() { state.marks.take_members(guild.id) } else { Vec::new() };
        drop(state);
        match &staff {
            None => self.list_wake.notify_one(),
            Some(staff) if staff.len() > MOST_STAFF => self.reporter.warn_once(
                &format!("staff {}", guild.id),
                &format!("guild {} has more than {MOST_STAFF} staff: the rest is left out", guild.id),
            ),
            Some(_) => {}
        }
        (staff, taken)
    }

    pub(crate) fn say_guild_is_too_long(&self, guild: u64) {
        self.reporter.warn_once(
            &format!("long {guild}"),
            &format!(
                "guild {guild} is too long: its line has more than {} bytes; the service keeps what it has",
                self.limits.line_bytes
            ),
        );
    }

    pub(crate) fn say_intent_is_missing(&self) {
        self.reporter.warn_once(
            "intent",
            "the client lacks the intent GUILD_MEMBERS: staff cannot be found, and the service keeps what it has. Add it to \
             the client's intents, and enable it (Server Members Intent) in Discord's developer portal",
        );
    }

    #[cfg(any(feature = "serenity", feature = "twilight"))]
    pub(crate) fn say_guilds_intent_is_missing(&self) {
        self.reporter.warn_once(
            "intent GUILDS",
            "the client lacks the intent GUILDS: Discord does not send it its guilds. Add it to the client's intents",
        );
    }

    /// Whether the service has all shards that the library knows.
    pub(crate) fn are_own_shards_sent(&self, state: &State) -> bool {
        state.snapshots.are_sent() && self.source.shards().iter().all(|shard| state.snapshots.is_ready(shard.id))
    }
}

/// Whether anything is waiting to be sent.
pub(crate) fn has_work(state: &State) -> bool {
    state.batch.is_some()
        || state.snapshots.next_stale().is_some()
        || state.subscriptions.is_stale
        || state.refused_subscriptions.retry.is_some()
        || state.team.is_stale
        || has_changes(state)
        || !state.feedback.is_empty()
}

/// Whether a change can be sent. Those of shards that are unknown or belong to another process wait for a snapshot.
pub(crate) fn has_changes(state: &State) -> bool {
    state.marks.has_any(|guild| state.snapshots.marks(guild))
}

/// Completes at this time, or earlier when `wake` does.
pub(crate) async fn wait_until(clock: &dyn Clock, due: Option<Duration>, wake: impl Future<Output = ()>) {
    let sleep = async {
        match due {
            Some(due) => clock.sleep(due.saturating_sub(clock.now())).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = wake => {}
        () = sleep => {}
    }
}
