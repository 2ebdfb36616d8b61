//! Which process owns a shard: the one that started last and has sent its snapshot, until it leaves.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::core::{Core, State};
use crate::source::shard_of;

/// An answer names shards that belong to another process now, and shards that are free because their owner is gone.
pub(crate) fn note_owners(state: &mut State, data: &Map<String, Value>) {
    let count = state.snapshots.shard_count;
    for shard in shards(data, "replaced", count) {
        state.snapshots.replace(shard);
        state.marks.drop_guilds(|guild| shard_of(guild, count) == shard);
        if shard == 0 {
            state.subscriptions.is_stale = false;
            state.refused_subscriptions.retry = None;
            state.team.is_stale = false;
        }
    }
    for shard in shards(data, "free", count) {
        if state.snapshots.take_back(shard) && shard == 0 {
            state.subscriptions.make_unknown();
            state.team.make_unknown();
        }
    }
}

/// The shards of a bot with this many in one of the answer's lists.
fn shards(data: &Map<String, Value>, list: &str, count: u32) -> impl Iterator<Item = u32> {
    let listed = data.get(list).and_then(Value::as_array).into_iter().flatten();
    listed
        .filter(move |shard| shard["shard_count"].as_u64() == Some(count.into()))
        .filter_map(|shard| u32::try_from(shard["shard_id"].as_u64()?).ok())
}

impl Core {
    /// Asks whether the process that owns some of the shards is still there.
    pub(crate) fn check_replaced(&self, state: &mut State) {
        if state.snapshots.any_replaced() {
            state.is_doubtful = true;
            self.start_after(state, Duration::ZERO);
        }
    }
}
