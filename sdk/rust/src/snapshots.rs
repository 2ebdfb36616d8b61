//! Which shards are to be sent whole, and the lines of a snapshot.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::stream::{self, BoxStream, StreamExt as _};
use serde_json::{Value, json};

use crate::callbacks::Answers;
use crate::core::Core;
use crate::source::{Guild, GuildState, shard_of};
use crate::staff::{Holders, MOST_STAFF};

/// The service's bound on a name.
const NAME_CHARACTERS: usize = 100;

/// An own shard that is ready. One that is not is not in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shard {
    /// To be sent whole.
    Stale,
    /// Its snapshot is on its way.
    Sending,
    /// The service has it.
    Sent,
}

/// What became of a guild whose line the service has refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is sent as unavailable.
    Unavailable,
    /// It is left out.
    LeftOut,
}

/// The own shards, and what the service refuses of them.
#[derive(Default)]
pub(crate) struct Snapshots {
    pub(crate) shard_count: u32,
    shards: BTreeMap<u32, Shard>,
    refused: HashMap<u64, Refused>,
    /// Some shard has been ready.
    pub(crate) was_ready: bool,
    /// Every own shard has been sent once.
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

    pub(crate) fn make_all_stale(&mut self) {
        self.shards.values_mut().for_each(|shard| *shard = Shard::Stale);
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

    /// The snapshot was answered; unless the shard has begun again meanwhile, this is what it is now.
    pub(crate) fn end(&mut self, shard: u32, state: Shard) {
        if let Some(current) = self.shards.get_mut(&shard).filter(|current| **current == Shard::Sending) {
            *current = state;
        }
    }

    /// Whether changes of this guild are marked: those of an unknown or stale shard will be in its snapshot.
    pub(crate) fn marks(&self, guild: u64) -> bool {
        let shard = shard_of(guild, self.shard_count);
        self.shards.get(&shard).is_some_and(|state| *state != Shard::Stale)
    }

    /// The service has refused the guild's line; returns what is done about it.
    pub(crate) fn refuse(&mut self, guild: u64) -> Refused {
        let refused = if self.refused.contains_key(&guild) { Refused::LeftOut } else { Refused::Unavailable };
        self.refused.insert(guild, refused);
        refused
    }

    pub(crate) fn retain_refused(&mut self, stays: impl Fn(u64) -> bool) {
        self.refused.retain(|guild, _| stays(*guild));
    }

    /// The guild has changed: its line may be accepted now. Says whether it was refused.
    pub(crate) fn accept(&mut self, guild: u64) -> bool {
        self.refused.remove(&guild).is_some()
    }
}

/// The guilds of the lines that were written, by which a refused line is found.
pub(crate) type Written = Arc<Mutex<Vec<u64>>>;

/// The lines of a shard, and the last one, which counts them.
pub(crate) fn lines(core: &Arc<Core>, guilds: Vec<u64>, written: &Written) -> BoxStream<'static, Vec<u8>> {
    let (maker, adder, end) = (Arc::clone(core), Arc::clone(written), Arc::clone(written));
    let at_once = core.limits.callbacks_at_once.max(1);
    stream::iter(guilds.into_iter().enumerate())
        .map(move |(index, guild)| {
            let core = Arc::clone(&maker);
            async move {
                let line = line(&core, guild).await;
                if (index + 1) % at_once == 0 {
                    // A shard with many guilds must not keep the bot's own tasks waiting. Afterwards, so that guilds whose
                    // answers come at once are listed in their order.
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

/// The guild's line; `None`: it is left out.
async fn line(core: &Arc<Core>, id: u64) -> Option<String> {
    let unavailable = json!({"id": id.to_string(), "unavailable": true}).to_string();
    let refused = core.lock().snapshots.refused.get(&id).copied();
    match (refused, core.source.guild(id)) {
        (Some(Refused::LeftOut), _) | (_, GuildState::Gone) => None,
        (Some(Refused::Unavailable), _) | (_, GuildState::Unavailable) => Some(unavailable),
        (None, GuildState::Available(guild)) => {
            let Some(answers) = core.ask(&guild).await else { return Some(unavailable) };
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

/// Everything of a guild. Absent staff stays as the service has it.
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

/// A guild without grants and staff, which stay as the service has them.
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
