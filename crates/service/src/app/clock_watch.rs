//! Watches whether the clock was set. `domain/trusted_time.rs` decides what follows from that; here it is logged and counted.

use std::sync::Arc;
use std::time::Duration;

use domain::trusted_time::ClockEvent;
use runtime::clock::Clock;
use telemetry::log_throttle::Throttle;
use telemetry::metrics::Metrics;
use tracing::{info, warn};

const LOOK_EVERY: Duration = Duration::from_secs(5);

pub struct ClockWatch {
    clock: Clock,
    metrics: Arc<Metrics>,
    steps: Throttle,
}

impl ClockWatch {
    pub fn new(clock: Clock, metrics: Arc<Metrics>) -> Self {
        Self { clock, metrics, steps: Throttle::default() }
    }

    /// Never ends.
    pub async fn run(&self) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            self.look();
        }
    }

    pub fn look(&self) {
        match self.clock.look() {
            Some(ClockEvent::Stepped(millis)) => {
                self.metrics.clock_steps.increment();
                if let Some(times) = self.steps.count(self.clock.ticks()) {
                    let seconds = millis / 1_000;
                    warn!(
                        seconds,
                        times,
                        "the system clock jumped; the service keeps the old time, and nothing expires, until the new time has \
                         stood for 5 minutes"
                    );
                }
            }
            Some(ClockEvent::Returned) => info!("the system clock is back at the service's time"),
            Some(ClockEvent::Believed) => {
                warn!("the system clock has kept its new time for 5 minutes; the service follows it now");
            }
            None => {}
        }
    }
}
