//! The numbers of events and snapshots, and what follows when the service expects others.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::core::{Core, State};

/// What the next request is numbered.
pub(crate) struct Numbering {
    /// The number of the next event.
    pub(crate) next: u64,
    /// What the service expects at least, if it has lost nothing; unknown after it has asked for a resync, until it has a
    /// snapshot.
    after: Option<u64>,
}

impl Default for Numbering {
    fn default() -> Self {
        Self { next: 1, after: Some(1) }
    }
}

impl Numbering {
    /// The number of a new snapshot, and what the service expects before it, if that is known. The number is above `next`, so
    /// that a service that loses the snapshot finds a gap in whatever comes after it.
    pub(crate) fn of_snapshot(&self) -> (u64, Option<u64>) {
        (self.next + 1, self.after)
    }

    /// The service expects this number: it has everything before it.
    pub(crate) fn arrived(&mut self, next: u64) {
        self.next = next;
        self.after = Some(next);
    }

    /// There was no answer to the snapshot with this number: it may still arrive, or have arrived.
    pub(crate) fn snapshot_failed(&mut self, number: u64) {
        self.next = number;
    }
}

/// The service lacks something: everything is sent as a whole. The numbers below `after` may have been used. Returns the delay
/// before that, if this is not the first time in a row.
pub(crate) fn gap(core: &Core, state: &mut State, after: u64, data: &Map<String, Value>) -> Option<Duration> {
    let expected = next_of(data);
    let has_ready = state.snapshots.ready().next().is_some();
    state.numbering.next = if has_ready { after.max(expected) } else { expected };
    state.numbering.after = (!has_ready).then_some(expected);
    core.resync(state);
    state.resyncs += 1;
    (state.resyncs > 1).then(|| core.limits.retry_delay(state.resyncs - 1, core.clock.random()))
}

/// The service did not take a snapshot or list with this number. Returns the delay before it is sent again, if one is needed.
pub(crate) fn snapshot_refused(core: &Core, number: u64, data: &Map<String, Value>) -> Option<Duration> {
    let mut state = core.lock();
    if data.get("error").and_then(Value::as_str) != Some("snapshot_outdated") {
        return gap(core, &mut state, number, data);
    }
    let expected = next_of(data);
    let has_moved = expected > state.numbering.next;
    state.numbering.next = state.numbering.next.max(expected);
    state.numbering.after = Some(expected);
    state.is_introduced = false;
    if has_moved {
        return None;
    }
    state.refusals += 1;
    Some(core.limits.retry_delay(state.refusals, core.clock.random()))
}

/// The number that the service expects next.
fn next_of(data: &Map<String, Value>) -> u64 {
    data.get("next").and_then(Value::as_u64).unwrap_or(1)
}
