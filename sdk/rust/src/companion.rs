//! The handle for a bot's own code.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::broadcast;

use crate::builder::Builder;
use crate::callbacks::Answers;
use crate::configuration::{Configuration, ConfigurationError};
use crate::core::{Core, Phase, State, has_work};
use crate::feedback::{self, Delivery, Entry, PendingDelivery};
use crate::marks::{GuildMark, Key, Mark};
use crate::source::shard_of;
use crate::spool::Spool;
use crate::status::{Notice, Status};

/// An event that the bot sees. The adapters report it; with another library, report it yourself, in the order it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "ids speak for themselves")]
pub enum BotEvent {
    /// A shard has a new session (READY). Its guilds are unknown until it is ready.
    Session { shard: u32 },
    /// All guilds of a shard have arrived.
    Ready { shard: u32 },
    /// The bot joined a guild, or it is available again.
    GuildHere { guild: u64 },
    /// The bot was removed from a guild. Don't report outages as this.
    GuildGone { guild: u64 },
    /// A guild has an outage: the bot is in it, but cannot see it.
    GuildUnavailable { guild: u64 },
    /// A guild's name, icon or owner changed.
    GuildChanged { guild: u64 },
    /// A role was created or changed.
    RoleChanged { guild: u64 },
    /// A role was deleted.
    RoleGone { guild: u64, role: u64 },
    /// A member joined.
    MemberJoined { guild: u64, user: u64, roles: Vec<u64> },
    /// A member's roles changed.
    MemberChanged { guild: u64, user: u64, roles: Vec<u64> },
    /// A member left.
    MemberGone { guild: u64, user: u64 },
    /// The platform answered one of the bot's requests with 429 and asked to wait this long. Members are then listed more slowly.
    Limited { time: Duration },
}

impl BotEvent {
    /// The guild that it is about, if any.
    fn guild(&self) -> Option<u64> {
        match *self {
            Self::GuildHere { guild }
            | Self::GuildGone { guild }
            | Self::GuildUnavailable { guild }
            | Self::GuildChanged { guild }
            | Self::RoleChanged { guild }
            | Self::RoleGone { guild, .. }
            | Self::MemberJoined { guild, .. }
            | Self::MemberChanged { guild, .. }
            | Self::MemberGone { guild, .. } => Some(guild),
            Self::Session { .. } | Self::Ready { .. } | Self::Limited { .. } => None,
        }
    }
}

/// Keeps the service up to date. It is cheap to clone, and nothing here blocks except [`close`](Self::close).
#[derive(Clone)]
pub struct Companion {
    pub(crate) core: Arc<Core>,
}

impl Companion {
    /// Takes the address from `COMPANION_URL` and the key from `COMPANION_BOT_KEY`.
    pub fn from_env() -> Result<Builder, ConfigurationError> {
        Ok(Builder::with(Configuration::from_env()?))
    }

    /// Uses this address and this key.
    pub fn builder(url: &str, key: &str) -> Result<Builder, ConfigurationError> {
        Ok(Builder::with(Configuration::new(url, key)?))
    }

    /// Reports an event.
    pub fn tell(&self, event: &BotEvent) {
        if !self.core.is_open() {
            return;
        }
        // The bot goes on after a bug in this package, and the change is not lost.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.hear(event))) {
            self.core.say_fault(&*panic);
            self.core.miss(event.guild());
        }
    }

    fn hear(&self, event: &BotEvent) {
        let core = &self.core;
        match *event {
            BotEvent::Session { shard } => core.shard_lost(shard),
            BotEvent::Ready { shard } => core.shard_ready(shard),
            BotEvent::GuildHere { guild } => core.mark_guild(guild, GuildMark::WHOLE),
            BotEvent::GuildGone { guild } => core.guild_gone(guild),
            // Its members may change without an event.
            BotEvent::GuildUnavailable { guild } => core.lock().staff.forget_where(|one| one == guild),
            BotEvent::GuildChanged { guild } => core.mark_guild(guild, GuildMark::FIELDS),
            BotEvent::RoleChanged { guild } => core.mark_guild(guild, GuildMark::ASK),
            BotEvent::RoleGone { guild, role } => {
                let has_granted = core.lock().staff.role_gone(guild, role, core.clock.now());
                core.mark_guild(guild, if has_granted { GuildMark::WHOLE } else { GuildMark::ASK });
            }
            BotEvent::MemberJoined { guild, user, ref roles } => {
                core.member(guild, user, roles);
                core.members_counted(guild);
            }
            BotEvent::MemberChanged { guild, user, ref roles } => core.member(guild, user, roles),
            BotEvent::MemberGone { guild, user } => {
                core.member_gone(guild, user);
                core.members_counted(guild);
            }
            BotEvent::Limited { time } => core.limited(time),
        }
    }

    /// Call this when the callbacks would answer differently for this guild.
    pub fn changed(&self, guild: impl Into<u64>) {
        if self.core.is_open() {
            self.core.mark_guild(guild.into(), GuildMark::WHOLE);
        }
    }

    /// Call this when the callbacks would answer differently for many guilds: everything is sent again.
    pub fn all_changed(&self) {
        if self.core.is_open() {
            self.core.resync(&mut self.core.lock());
        }
    }

    /// Call this when the subscriptions have changed.
    pub fn subscriptions_changed(&self) {
        self.make_stale(|state| state.subscriptions.is_stale = true);
    }

    /// Call this when the team's roster has changed.
    pub fn team_changed(&self) {
        self.make_stale(|state| state.team.is_stale = true);
    }

    /// Sends feedback: a [`Feedback`](crate::Feedback), or any value with the same fields. Sending the same ID again
    /// replaces the entry. Without a timestamp, it gets the current time.
    pub fn feedback(&self, entry: &impl Serialize) -> PendingDelivery {
        match feedback::feedback_line(entry, self.core.clock.epoch()) {
            Ok((line, about)) => self.core.add_feedback(line, about),
            Err(reason) => {
                let (entry, pending) = Entry::new(String::new(), String::new());
                entry.end(Delivery::NotDelivered(reason));
                pending
            }
        }
    }

    /// Withdraws a feedback entry.
    pub fn feedback_gone(&self, id: &str) -> PendingDelivery {
        self.core.add_feedback(feedback::feedback_gone_line(id), format!("the withdrawal of feedback {id:?}"))
    }

    /// The current state.
    pub fn status(&self) -> Status {
        self.core.status()
    }

    /// The feed's notices from now on. A receiver that does not keep up misses the oldest ones.
    pub fn notices(&self) -> broadcast::Receiver<Notice> {
        self.core.reporter.notices()
    }

    /// Sends what is waiting and tells the service that this process is leaving, within
    /// [`Limits::close_timeout`](crate::Limits::close_timeout). Nothing is sent afterwards.
    pub async fn close(&self) {
        let mut phase = self.core.phase.subscribe();
        self.core.phase.send_if_modified(|phase| {
            let is_open = *phase == Phase::Open;
            if is_open {
                *phase = Phase::Closing;
            }
            is_open
        });
        // The sending task may be gone with its runtime, in which case nothing reports that it is closed.
        let longest = self.core.limits.close_timeout + Duration::from_secs(1);
        tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase == Phase::Closed) => {}
            () = self.core.clock.sleep(longest) => {}
        }
    }

    #[cfg(any(feature = "serenity", feature = "twilight"))]
    pub(crate) fn role_changed(&self, guild: u64) {
        self.tell(&BotEvent::RoleChanged { guild });
    }

    #[cfg(any(feature = "serenity", feature = "twilight"))]
    pub(crate) fn role_gone(&self, guild: u64, role: u64) {
        self.tell(&BotEvent::RoleGone { guild, role });
    }

    #[cfg(any(feature = "serenity", feature = "twilight"))]
    pub(crate) fn member_changed(&self, guild: u64, user: u64, roles: Vec<u64>) {
        self.tell(&BotEvent::MemberChanged { guild, user, roles });
    }

    fn make_stale(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.core.lock();
        if self.core.is_open() && state.snapshots.may_send_lists() {
            change(&mut state);
            self.core.start_after(&mut state, Duration::ZERO);
        }
    }
}

/// Guilds with an event that was lost to a bug.
#[derive(Default)]
pub(crate) struct Missed {
    /// To be sent with the next refresh; `None` stands for all.
    guilds: HashSet<Option<u64>>,
    /// The first time, they are sent immediately, and then only with each refresh, because the bug may hit every event.
    has_sent_again: bool,
}

impl Core {
    /// An event was lost to a bug: the guild's shard is sent again, or every shard.
    fn miss(&self, guild: Option<u64>) {
        let mut state = self.lock();
        state.missed.guilds.insert(guild);
        if !state.missed.has_sent_again {
            self.send_missed(&mut state);
        }
    }

    /// A refresh: sends what was missed since the last one.
    pub(crate) fn refresh_missed(&self, state: &mut State) {
        state.missed.has_sent_again = false;
        if !state.missed.guilds.is_empty() {
            self.send_missed(state);
        }
    }

    fn send_missed(&self, state: &mut State) {
        let missed = std::mem::take(&mut state.missed.guilds);
        state.missed.has_sent_again = true;
        let is_missed = |guild| missed.contains(&None) || missed.contains(&Some(guild));
        state.staff.forget_where(is_missed);
        let count = state.snapshots.shard_count;
        state
            .snapshots
            .make_stale(|shard| missed.iter().any(|guild| guild.is_none_or(|one| shard_of(one, count) == shard)));
        self.start_after(state, Duration::ZERO);
    }

    fn guild_gone(&self, guild: u64) {
        let mut state = self.lock();
        state.snapshots.accept(guild);
        state.staff.forget_where(|one| one == guild);
        state.answers.forget(guild);
        state.retries.remove(&guild);
        if state.snapshots.marks(guild) {
            state.marks.put_gone(guild);
            self.mark(&mut state, Key::Guild(guild), Mark::Guild(GuildMark::default()));
        }
    }

    fn member(&self, guild: u64, user: u64, roles: &[u64]) {
        let mut state = self.lock();
        let grants = |answers: Answers| !answers.granting_roles(guild).is_empty();
        let is_news = state.staff.member(guild, user, roles, self.clock.now());
        let is_news = is_news.unwrap_or_else(|| state.answers.of(guild).is_some_and(grants));
        if is_news || state.marks.has_member_gone(guild, user) {
            let mark = Mark::Member { roles: roles.to_vec(), replaces_gone: false };
            self.mark(&mut state, Key::Member { guild, user }, mark);
        }
    }

    fn member_gone(&self, guild: u64, user: u64) {
        let mut state = self.lock();
        state.staff.member_gone(guild, user, self.clock.now());
        self.mark(&mut state, Key::Member { guild, user }, Mark::MemberGone);
    }

    fn members_counted(&self, guild: u64) {
        let mut state = self.lock();
        if state.snapshots.marks(guild) {
            state.marks.count_members(guild, self.clock.now(), self.limits.member_count_interval);
            self.wake.notify_one();
        }
    }

    fn add_feedback(&self, line: String, about: String) -> PendingDelivery {
        let (mut entry, pending) = Entry::new(line, about);
        let mut state = self.lock();
        let refused = if !self.is_open() {
            Some("closed".to_owned())
        } else if entry.line.len() > self.limits.line_bytes {
            let text = format!("feedback is too long: its line has more than {} bytes", self.limits.line_bytes);
            self.reporter.warn(&text);
            Some(text)
        } else if state.feedback.len() >= self.limits.feedback {
            let text = format!("too much feedback is waiting, {} entries: no more are accepted", self.limits.feedback);
            self.reporter.warn_once("feedback", &text);
            Some(text)
        } else {
            None
        };
        if let Some(reason) = refused {
            self.reporter.count(|counters| counters.feedback_dropped += 1);
            entry.end(Delivery::NotDelivered(reason));
            return pending;
        }
        entry.spooled = self.with_spool(&mut state, |spool| spool.add(&entry.line));
        state.feedback.push_back(entry);
        self.start_gathered(&mut state);
        pending
    }

    /// The service has accepted or refused an entry.
    pub(crate) fn end_feedback(&self, state: &mut State, entry: Entry, delivery: Delivery) {
        self.reporter.count(|counters| match delivery {
            Delivery::Delivered => counters.feedback_delivered += 1,
            Delivery::NotDelivered(_) => counters.feedback_dropped += 1,
        });
        if let Some(number) = entry.spooled {
            self.with_spool(state, |spool| spool.remove(number));
        }
        entry.end(delivery);
    }

    pub(crate) fn open_spool(&self, path: &std::path::Path) {
        match Spool::open(path) {
            Ok(spool) => {
                let mut state = self.lock();
                let entries = spool.entries().take(self.limits.feedback);
                state.feedback = entries.map(|(number, line)| Entry::from_spool(number, line.to_owned())).collect();
                state.spool = Some(spool);
                if !state.feedback.is_empty() {
                    self.start_gathered(&mut state);
                }
            }
            Err(error) => self.reporter.warn(&format!(
                "the spool {} cannot be used, so waiting feedback is lost when the bot ends: {error}",
                path.display()
            )),
        }
    }

    fn with_spool<T>(&self, state: &mut State, act: impl FnOnce(&mut Spool) -> std::io::Result<T>) -> Option<T> {
        let done = act(state.spool.as_mut()?);
        done.map_err(|error| {
            self.reporter.warn_once("spool", &format!("the spool cannot be written: {error}"));
        })
        .ok()
    }

    /// Closed: tells all entries that are left.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        let left = has_work(&state);
        let batch = state.batch.take();
        let entries: Vec<Entry> =
            batch.into_iter().flat_map(crate::batch::Batch::into_feedback).chain(state.feedback.drain(..)).collect();
        for entry in entries {
            let reason = if entry.spooled.is_some() { "closed; it will be sent at the next start" } else { "closed" };
            self.reporter.count(|counters| counters.feedback_dropped += u64::from(entry.spooled.is_none()));
            entry.end(Delivery::NotDelivered(reason.to_owned()));
        }
        state.spool = None;
        drop(state);
        if left {
            self.reporter.warn("closed before everything was sent");
        }
        self.phase.send_replace(Phase::Closed);
    }
}
