//! Which shards to send as a whole, and the lines of a snapshot.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::stream::{self, BoxStream, StreamExt as _};
use serde_json::{Value, json};

use crate::callbacks::Answers;
use crate::core::Core;
use crate::source::{Guild, GuildState, shard_of};
use crate::staff::{Holders, MOST_STAFF};

/// The service's limit on a name.
const NAME_CHARACTERS: usize = 100;

/// One of the process's shards that is ready. Others are not in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shard {
    /// Has to be sent as a whole.
    Stale,
    /// Its snapshot is being sent.
    Sending,
    /// The service has it.
    Sent,
    /// It belongs to a process that started later.
    Replaced,
}

/// What happens to a guild whose line the service refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is sent as unavailable.
    Unavailable,
    /// It is left out.
    LeftOut,
}

/// The process's shards, and which of their guilds the service refuses.
#[derive(Default)]
pub(crate) struct Snapshots {
    pub(crate) shard_count: u32,
    shards: BTreeMap<u32, Shard>,
    refused: HashMap<u64, Refused>,
    /// Whether any shard has been ready.
    pub(crate) was_ready: bool,
    /// Whether every one of the process's shards has been sent once.
    pub(crate) is_connected: bool,
}

impl Snapshots {
    pub(crate) fn make_ready(&mut self, shard: u32) {
        self.was_ready = true;
        self.shards.insert(shard, Shard::Stale);
    }

    pub(crate) fn forget(&mut self, shard: u32) {
        self.shards.remove(&shard);
    }

    pub(crate) fn clear(&mut self) {
        self.shards.clear();
    }

    pub(crate) fn make_stale(&mut self, is_theirs: impl Fn(u32) -> bool) {
        self.shards.iter_mut().filter(|(shard, _)| is_theirs(**shard)).for_each(|(_, state)| *state = Shard::Stale);
    }

    /// A process that started later owns the shard.
    pub(crate) fn replace(&mut self, shard: u32) {
        if let Some(state) = self.shards.get_mut(&shard) {
            *state = Shard::Replaced;
        }
    }

    /// The process that owned the shard is gone. Returns whether it has to be sent again.
    pub(crate) fn take_back(&mut self, shard: u32) -> bool {
        let lost = self.shards.get_mut(&shard).filter(|state| matches!(state, Shard::Sent | Shard::Replaced));
        lost.map(|state| *state = Shard::Stale).is_some()
    }

    pub(crate) fn any_replaced(&self) -> bool {
        self.shards.values().any(|state| *state == Shard::Replaced)
    }

    /// Subscriptions and team come from the process that owns shard 0.
    pub(crate) fn may_send_lists(&self) -> bool {
        self.shards.get(&0).is_some_and(|state| *state != Shard::Replaced)
    }

    pub(crate) fn is_ready(&self, shard: u32) -> bool {
        self.shards.contains_key(&shard)
    }

    pub(crate) fn ready(&self) -> impl Iterator<Item = u32> {
        self.shards.keys().copied()
    }

    pub(crate) fn next_stale(&self) -> Option<u32> {
        self.shards.iter().find(|(_, state)| **state == Shard::Stale).map(|(shard, _)| *shard)
    }

    /// Whether every ready shard has been sent, and there is one.
    pub(crate) fn are_sent(&self) -> bool {
        !self.shards.is_empty() && self.shards.values().all(|state| *state == Shard::Sent)
    }

    pub(crate) fn begin(&mut self, shard: u32) {
        self.shards.insert(shard, Shard::Sending);
    }

    /// The snapshot was answered: sets the shard's state, unless the shard has started over meanwhile.
    pub(crate) fn end(&mut self, shard: u32, state: Shard) {
        if let Some(current) = self.shards.get_mut(&shard).filter(|current| **current == Shard::Sending) {
            *current = state;
        }
    }

    /// Whether changes of this guild are marked and sent: those of an unknown or stale shard will be in its snapshot, and those
    /// of a replaced one would be ignored.
    pub(crate) fn marks(&self, guild: u64) -> bool {
        let shard = shard_of(guild, self.shard_count);
        self.shards.get(&shard).is_some_and(|state| matches!(state, Shard::Sending | Shard::Sent))
    }

    /// The service refused the guild's line; returns what to do about it.
    pub(crate) fn refuse(&mut self, guild: u64) -> Refused {
        let refused = if self.refused.contains_key(&guild) { Refused::LeftOut } else { Refused::Unavailable };
        self.refused.insert(guild, refused);
        refused
    }

    pub(crate) fn retain_refused(&mut self, stays: impl Fn(u64) -> bool) {
        self.refused.retain(|guild, _| stays(*guild));
    }

    /// The guild has changed, so its line may be accepted now. Returns whether it was refused before.
    pub(crate) fn accept(&mut self, guild: u64) -> bool {
        self.refused.remove(&guild).is_some()
    }
}

/// The guilds of the lines written so far, to find a refused line.
pub(crate) type Written = Arc<Mutex<Vec<u64>>>;

/// The lines of a shard, and a last one with their count.
pub(crate) fn lines(core: &Arc<Core>, guilds: Vec<u64>, written: &Written) -> BoxStream<'static, Vec<u8>> {
    let (maker, adder, end) = (Arc::clone(core), Arc::clone(written), Arc::clone(written));
    let at_once = core.limits.callbacks_at_once.max(1);
    stream::iter(guilds.into_iter().enumerate())
        .map(move |(index, guild)| {
            let core = Arc::clone(&maker);
            async move {
                let line = line(&core, guild).await;
                if (index + 1) % at_once == 0 {
                    // A shard with many guilds must not hold up the bot's own tasks. This comes afterwards, so that guilds whose
                    // answers come immediately stay in order.
                    tokio::task::yield_now().await;
                }
                (guild, line)
            }
        })
        .buffered(at_once)
        .filter_map(move |(guild, line)| {
            let line = line.map(|line| {
                adder.lock().unwrap_or_else(PoisonError::into_inner).push(guild);
                with_line_end(line)
            });
            async move { line }
        })
        .chain(stream::once(async move {
            let count = end.lock().unwrap_or_else(PoisonError::into_inner).len();
            with_line_end(json!({"end": count}).to_string())
        }))
        .boxed()
}

/// The guild's line; `None` if it is left out.
async fn line(core: &Arc<Core>, id: u64) -> Option<String> {
    let unavailable = json!({"id": id.to_string(), "unavailable": true}).to_string();
    let refused = core.lock().snapshots.refused.get(&id).copied();
    match (refused, core.source.guild(id)) {
        (Some(Refused::LeftOut), _) | (_, GuildState::Gone) => None,
        (Some(Refused::Unavailable), _) | (_, GuildState::Unavailable) => Some(unavailable),
        (None, GuildState::Available(guild)) => {
            let Some(answers) = core.ask(&guild).await else { return Some(unavailable) };
            // Read again, because the callbacks may take a while, and what changes from now on is sent again.
            let guild = match core.source.guild(id) {
                GuildState::Available(guild) => guild,
                GuildState::Unavailable => return Some(unavailable),
                GuildState::Gone => return None,
            };
            let (staff, replaced) = core.staff_of(&guild, &answers, true);
            let text = whole(&guild, &answers, staff.as_ref()).to_string();
            if text.len() <= core.limits.line_bytes {
                let mut state = core.lock();
                state.marks.count_is_sent(id, core.clock.now());
                state.replaced.extend(replaced);
                return Some(text);
            }
            core.put_back(replaced);
            core.say_guild_is_too_long(id);
            Some(unavailable)
        }
    }
}

/// Everything about a guild. Without staff, the service keeps the staff it has.
pub(crate) fn whole(guild: &Guild, answers: &Answers, staff: Option<&Holders>) -> Value {
    let mut line = fields(guild, answers);
    let grants: serde_json::Map<String, Value> =
        answers.grants.iter().map(|(role, keys)| (role.to_string(), json!(keys))).collect();
    line["grants"] = Value::Object(grants);
    if let Some(staff) = staff {
        let staff: serde_json::Map<String, Value> =
            staff.iter().take(MOST_STAFF).map(|(user, roles)| (user.to_string(), json!(id_texts(roles)))).collect();
        line["staff"] = Value::Object(staff);
    }
    line
}

/// A guild without grants and staff; the service keeps those it has.
pub(crate) fn fields(guild: &Guild, answers: &Answers) -> Value {
    let name: String = guild.name.chars().take(NAME_CHARACTERS).collect();
    json!({
        "id": guild.id.to_string(),
        "name": name,
        "icon": guild.icon,
        "owner": guild.owner.to_string(),
        "members": guild.members,
        "setup": answers.setup,
        "linked": answers.linked,
    })
}

pub(crate) fn id_texts(ids: &[u64]) -> Vec<String> {
    ids.iter().map(u64::to_string).collect()
}

pub(crate) fn with_line_end(mut line: String) -> Vec<u8> {
    line.push('\n');
    line.into_bytes()
}
