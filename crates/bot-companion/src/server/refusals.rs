//! Connections that were refused, told in the log without flooding it: the first at once, then their number once a minute.

use std::net::IpAddr;

use parking_lot::Mutex;
use tracing::warn;

/// Milliseconds between two lines.
const TOLD_EVERY: u64 = 60_000;

/// What was refused since the last line.
#[derive(Default)]
pub(super) struct Refusals(Mutex<State>);

#[derive(Default)]
struct State {
    count: u64,
    latest: Option<IpAddr>,
    /// When the last line was written.
    told: Option<u64>,
}

impl Refusals {
    /// Notes that a connection of this address was refused.
    pub(super) fn note(&self, address: IpAddr, now: u64) {
        let mut state = self.0.lock();
        state.count += 1;
        state.latest = Some(address);
        drop(state);
        self.tell(now);
    }

    /// Tells what was not told yet, if it is time.
    pub(super) fn tell(&self, now: u64) {
        if let Some((count, address)) = self.due(now) {
            warn!(count, %address, "connections refused: a client address has limits.connections_per_address open; `address` is the latest");
        }
    }

    fn due(&self, now: u64) -> Option<(u64, IpAddr)> {
        let mut state = self.0.lock();
        if state.told.is_some_and(|told| now.saturating_sub(told) < TOLD_EVERY) {
            return None;
        }
        let address = state.latest.take()?;
        state.told = Some(now);
        Some((std::mem::take(&mut state.count), address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_at_once_and_then_their_number_once_a_minute() {
        let refusals = Refusals::default();
        let note = |last: u8| {
            let mut state = refusals.0.lock();
            state.count += 1;
            state.latest = Some(IpAddr::from([192, 0, 2, last]));
        };
        assert_eq!(refusals.due(0), None);
        note(1);
        assert_eq!(refusals.due(5), Some((1, IpAddr::from([192, 0, 2, 1]))));
        for last in 2..=9 {
            note(last);
            assert_eq!(refusals.due(60_000), None);
        }
        assert_eq!(refusals.due(60_005), Some((8, IpAddr::from([192, 0, 2, 9]))));
        assert_eq!(refusals.due(200_000), None, "nothing new");
    }
}
