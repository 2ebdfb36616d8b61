//! Records the bot's health: checks it every few seconds, writes each minute once it is over, and opens and closes incidents.
//! Every replica does this; the store makes sure that a minute counts once. While nothing can be read or written, and while no
//! replica runs, there is no data.

use std::sync::Arc;
use std::time::Duration;

use domain::Time;
use domain::history::incident::IncidentStep;
use domain::history::recording::{ALONE_AFTER, minute_to_record};
use domain::history::{BotState, observe};
use runtime::clock::Clock;
use store::{Recorded, Result, Store};
use telemetry::log_throttle::Throttle;
use tokio::sync::Mutex;
use tracing::{debug, info, warn};

/// How often to check the bot's health: as often as a bot process reports.
const LOOK_EVERY: Duration = Duration::from_secs(15);
/// After a longer gap between two checks, the machine was asleep or its clock was set, so the time in between is unknown.
const LONGEST_GAP: Duration = Duration::from_mins(1);

pub struct Recorder {
    store: Arc<Store>,
    clock: Clock,
    watch: Mutex<RecorderWatch>,
    failures: Throttle,
    refusals: Throttle,
}

/// What a replica remembers between checks.
#[derive(Default)]
struct RecorderWatch {
    /// Since when it has watched without a gap; `None` if the last check failed.
    since: Option<Time>,
    /// When it last checked, in clock time and in ticks.
    looked: Option<(Time, Duration)>,
    /// The last minute it wrote.
    minute: Option<Time>,
    /// The bot's health when it last wrote: state, silent shards, all shards.
    written: Option<(BotState, u32, u32)>,
    /// The newest minute in the store, and when it was first seen there.
    newest: Option<(Time, Duration)>,
}

impl Recorder {
    pub fn new(store: Arc<Store>, clock: Clock) -> Self {
        Self { store, clock, watch: Mutex::default(), failures: Throttle::default(), refusals: Throttle::default() }
    }

    /// Never ends.
    pub async fn run(&self) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            self.record().await;
        }
    }

    /// Checks the bot's health, and records what is due.
    pub async fn record(&self) {
        let mut watch = self.watch.lock().await;
        if let Err(error) = self.try_record(&mut watch).await {
            // The bot cannot have reported anything either.
            watch.since = None;
            if let Some(times) = self.failures.count(self.clock.ticks()) {
                warn!(%error, times, "the bot's history could not be recorded; this period will have no data");
            }
        }
    }

    async fn try_record(&self, watch: &mut RecorderWatch) -> Result<()> {
        let (now, ticks) = self.clock.read();
        let since = watch.look(now, ticks);
        // Not the cached status, which may be stale while this replica hears nothing from the others.
        let health = self.store.health().await?;
        let Some(seen) = observe(&health, since, now) else { return Ok(()) };
        let minute = minute_to_record(&seen, since).filter(|minute| watch.minute != Some(minute.begins));
        let state = (seen.state, seen.silent, seen.shard_count);
        if minute.is_none() && watch.written == Some(state) {
            return Ok(());
        }
        let written = minute.as_ref().map(|minute| minute.begins).or(watch.minute);
        let may_delete = self.clock.may_delete();
        let recorded = self.store.record(seen, minute, watch.unchanged(ticks), may_delete).await?;
        if recorded.is_accepted {
            (watch.minute, watch.written) = (written, Some(state));
        } else {
            self.refused(watch, &recorded, ticks);
        }
        if watch.newest.map(|(newest, _)| newest) != recorded.newest {
            watch.newest = recorded.newest.map(|newest| (newest, ticks));
        }
        tell(recorded.incident);
        Ok(())
    }

    fn refused(&self, watch: &RecorderWatch, recorded: &Recorded, ticks: Duration) {
        // This is also what happens first after the service was stopped for a while.
        let is_first = watch.newest.is_none_or(|(newest, _)| recorded.newest == Some(newest));
        if is_first {
            debug!(
                "the newest minute in the history is far from this machine's clock; waiting to see whether another replica \
            records"
            );
        } else if let Some(times) = self.refusals.count(ticks) {
            warn!(
                times,
                "other replicas record the bot's history with clocks that are minutes off this machine's, so this one records \
                 nothing; synchronise the clocks"
            );
        }
    }
}

impl RecorderWatch {
    /// Notes a check at this time. Returns since when it has watched.
    fn look(&mut self, now: Time, ticks: Duration) -> Time {
        let is_gap =
            |(at, then): (Time, Duration)| now.apart(at) > LONGEST_GAP || ticks.saturating_sub(then) > LONGEST_GAP;
        if self.looked.is_none_or(is_gap) {
            self.since = None;
        }
        self.looked = Some((now, ticks));
        *self.since.get_or_insert(now)
    }

    /// The newest minute in the store, if it has not changed for so long that nobody else can be recording.
    fn unchanged(&self, ticks: Duration) -> Option<Time> {
        let is_old = |first_seen: Duration| ticks.saturating_sub(first_seen) >= ALONE_AFTER;
        self.newest.filter(|(_, first_seen)| is_old(*first_seen)).map(|(newest, _)| newest)
    }
}

fn tell(incident: IncidentStep) {
    match incident {
        IncidentStep::Opens { worst, began, shards, shard_count } => {
            let (state, began) = (worst.name(), began.iso8601());
            info!(
                state,
                shards, shard_count, began, "an incident has started: the bot or some of its shards stopped reporting"
            );
        }
        IncidentStep::Ends(ended) => {
            let ended = ended.iso8601();
            info!(ended, "the incident is over: all shards report again");
        }
        IncidentStep::Worsens { .. } | IncidentStep::Stays => {}
    }
}

#[cfg(test)]
mod tests {
    use domain::Heartbeat;
    use domain::feed::InstanceId;
    use domain::health::ShardHeartbeat;
    use domain::trusted_time::STANDING;
    use store::{self, Freshness, StoreOptions};
    use test_support::TestFolder;

    use super::*;

    #[tokio::test]
    async fn while_the_clock_is_not_trusted_the_history_goes_on_and_nothing_is_deleted() {
        let folder = TestFolder::new();
        let clock = Clock::manual(Time::from_seconds(20_000 * 86_400));
        let options = StoreOptions {
            url: format!("sqlite:{}", folder.path("history.db").display()).into(),
            wait: Duration::from_mins(1),
            connections: 1,
            start_wait: Duration::from_mins(1),
        };
        let store = store::open(options, Arc::new(Freshness::new(clock.clone()))).await.unwrap();
        let recorder = Recorder::new(Arc::clone(&store), clock.clone());
        let started_at = clock.now();
        let passes = async |seconds: u64| {
            for _ in 0..seconds / 30 {
                let instance = InstanceId::parse("key", "a").unwrap();
                let shards = vec![ShardHeartbeat { id: 0, sent: None, acknowledged: None, latency: None }];
                let heartbeat = Heartbeat { instance, started_at, memory: 1, shard_count: 1, shards, leaving: false };
                store.record_heartbeat(heartbeat, clock.now()).await.unwrap();
                recorder.record().await;
                clock.advance(Duration::from_secs(30));
            }
            store.history().await.unwrap().minutes
        };
        let first = passes(180).await;
        assert!(!first.is_empty());
        // The machine was asleep for two days, and its clock is wrong.
        clock.advance(Duration::from_hours(48));
        clock.set(3_600);
        clock.look();
        assert!(!clock.may_delete());
        let later = passes(600).await;
        assert!(later.len() > first.len() + 3 && later.starts_with(&first), "{later:?}");
        clock.set(-3_600);
        clock.look();
        clock.advance(STANDING);
        let last = passes(120).await;
        assert!(last.len() > 3 && !last.contains(&first[0]), "{last:?}");
    }
}
