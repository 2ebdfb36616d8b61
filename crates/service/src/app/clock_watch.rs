//! Watches whether the clock was set, and whether it agrees with the database's. `domain/trusted_time.rs` decides what follows
//! from that; here it is logged and counted.

use std::sync::Arc;
use std::time::Duration;

use domain::trusted_time::{ClockEvent, Witness};
use runtime::clock::Clock;
use store::Store;
use telemetry::log_throttle::Throttle;
use telemetry::metrics::Metrics;
use tracing::{info, warn};

const LOOK_EVERY: Duration = Duration::from_secs(5);

pub struct ClockWatch {
    clock: Clock,
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    steps: Throttle,
    disputes: Throttle,
}

impl ClockWatch {
    /// Uses this store's clock as a witness, if it has one.
    pub fn new(clock: Clock, store: Arc<dyn Store>, metrics: Arc<Metrics>) -> Self {
        Self { clock, store, metrics, steps: Throttle::default(), disputes: Throttle::default() }
    }

    /// Never ends.
    pub async fn run(&self) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            self.look().await;
        }
    }

    pub async fn look(&self) {
        for event in self.clock.look(self.witness().await) {
            self.tell(event);
        }
    }

    async fn witness(&self) -> Witness {
        if !self.clock.is_comparable() {
            return Witness::Absent;
        }
        match self.store.time().await {
            Ok(Some(time)) => Witness::Says(time),
            Ok(None) => Witness::Absent,
            Err(_) => Witness::Silent,
        }
    }

    fn tell(&self, event: ClockEvent) {
        match event {
            ClockEvent::Stepped { millis, is_followed } => {
                self.metrics.clock_steps.increment();
                if let Some(times) = self.steps.count(self.clock.ticks()) {
                    let seconds = millis / 1_000;
                    if is_followed {
                        warn!(
                            seconds,
                            times,
                            "the system clock jumped; the service follows it, but nothing expires until the new time has held \
                             for 5 minutes"
                        );
                    } else {
                        warn!(
                            seconds,
                            times,
                            "the system clock jumped; the service keeps the old time, and nothing expires, until the new time \
                             has held for 5 minutes"
                        );
                    }
                }
            }
            ClockEvent::Returned => info!("the system clock is back at the service's time"),
            ClockEvent::Believed => {
                warn!("the system clock has kept its new time for 5 minutes; the service follows it now");
            }
            ClockEvent::Confirmed => {
                warn!(
                    "the database's clock confirms the system clock's new time; the service follows it now, but nothing expires for 5 minutes"
                );
            }
            ClockEvent::Disputed(millis) => {
                if let Some(times) = self.disputes.count(self.clock.ticks()) {
                    let seconds = millis / 1_000;
                    warn!(
                        seconds,
                        times,
                        "the database's clock is this far ahead of this machine's; nothing expires until they agree: run NTP \
                         on both"
                    );
                }
            }
            ClockEvent::Agreed => info!("the database's clock agrees with this machine's again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use domain::Time;
    use parking_lot::Mutex;
    use store::{self, Freshness, StoreOptions};
    use test_support::TestFolder;

    use super::*;

    /// Collects log lines.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_jump_is_one_line_and_its_end_another() {
        let log = Log::default();
        let listen = || {
            let writer = log.clone();
            let format = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
            tracing::Dispatch::new(format.finish())
        };
        // With a single listener, `tracing` lets the first thread that reaches a log line decide that nobody listens to it.
        let _second = listen();
        let _guard = tracing::dispatcher::set_default(&listen());
        let folder = TestFolder::new();
        let clock = Clock::manual(Time::from_seconds(1_800_000_000));
        let options = StoreOptions {
            url: format!("sqlite:{}", folder.path("clock.db").display()).into(),
            wait: Duration::from_mins(1),
            connections: 1,
            start_wait: Duration::from_mins(1),
        };
        let store = store::open(options, Arc::new(Freshness::new(clock.clone()))).await.unwrap();
        let watch = ClockWatch::new(clock.clone(), store, Arc::default());
        let lines = || {
            let text = String::from_utf8(log.0.lock().clone()).unwrap();
            text.lines().filter(|line| line.contains("clock_watch")).map(str::to_owned).collect::<Vec<_>>()
        };
        watch.look().await;
        assert_eq!(lines(), Vec::<String>::new());
        clock.set(864_000);
        for _ in 0..15 {
            watch.look().await;
            clock.advance(Duration::from_secs(5));
        }
        let jump = &lines()[..];
        assert_eq!(jump.len(), 1, "{jump:?}");
        assert!(jump[0].contains("WARN") && jump[0].contains("the system clock jumped"), "{jump:?}");
        assert!(jump[0].contains("seconds=864000") && jump[0].contains("the service keeps the old time"), "{jump:?}");
        clock.set(-864_000);
        watch.look().await;
        assert!(lines().len() == 2 && lines()[1].contains("the system clock is back"), "{:?}", lines());
        assert_eq!(watch.metrics.clock_steps.get(), 1);
        clock.advance(Duration::from_mins(2));
        watch.tell(ClockEvent::Stepped { millis: 90_000, is_followed: true });
        assert!(lines()[2].contains("the system clock jumped; the service follows it"), "{:?}", lines());
    }
}
