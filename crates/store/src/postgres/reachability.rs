//! Whether the database can be reached: when it last answered, a probe when it is silent, and the circuit breaker that opens
//! when a probe gets no answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool_postgres::Pool;
use tokio::sync::Mutex;
use tokio::time::error::Elapsed;
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;
use tracing::{info, warn};

use super::address::{Address, ConnectError, DriverConnection, end_in_background};
use super::circuit_breaker::{ClosedSince, DatabaseCircuit, Probe};
use crate::Freshness;

/// How much later one replica may probe than another, in milliseconds.
pub(super) const SPREAD: u64 = 50;
/// How often work checks whether the database can still be reached.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long the listener and all work may hear nothing before work probes for itself.
const SILENCE: Duration = Duration::from_millis(250);
/// How long a quick probe waits, and the shortest wait for a probe that decides about the circuit.
const PROBE: Duration = Duration::from_secs(1);

pub(super) struct Reachability {
    address: Address,
    pool: Pool,
    /// The listener suspends the cache while it does not hear from the database.
    freshness: Arc<Freshness>,
    circuit: DatabaseCircuit,
    /// How often the database has answered work or accepted a connection: while this grows, it is slow at most.
    answers: AtomicU64,
    /// When it last did, in milliseconds of the clock's ticks.
    answered_at: AtomicU64,
    /// Held while probing: one probe at a time for everyone who waits. Contains the value of `answers` when a probe got no
    /// answer.
    unanswered_at: Mutex<Option<u64>>,
    wait: Duration,
    /// This replica's share of [`SPREAD`].
    spread: Duration,
}

impl Reachability {
    pub(super) fn new(
        address: Address,
        pool: Pool,
        freshness: Arc<Freshness>,
        wait: Duration,
        spread: Duration,
    ) -> Self {
        Self {
            address,
            pool,
            freshness,
            circuit: DatabaseCircuit::default(),
            answers: AtomicU64::new(0),
            answered_at: AtomicU64::new(0),
            unanswered_at: Mutex::default(),
            wait,
            spread,
        }
    }

    /// Lets work through while the circuit is closed.
    pub(super) fn closed_since(&self) -> Option<ClosedSince> {
        self.circuit.closed_since()
    }

    pub(super) fn note_answer(&self) {
        self.answered_at.store(self.ticks(), Ordering::Relaxed);
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// In milliseconds, which fit for longer than any process runs.
    fn ticks(&self) -> u64 {
        u64::try_from(self.freshness.clock().ticks().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether work that waited in vain waited for a database that is gone, because the circuit is open or about to be. How far
    /// the probe has got by then is a matter of chance, especially on a busy machine.
    pub(super) fn is_gone(&self) -> bool {
        let silent = self.ticks().saturating_sub(self.answered_at.load(Ordering::Relaxed));
        self.closed_since().is_none() || self.freshness.is_suspended() && u128::from(silent) >= PROBE.as_millis()
    }

    /// Opens the circuit and probes in the background until the database answers.
    pub(super) fn open_circuit(self: &Arc<Self>, since: ClosedSince, why: &str) {
        if !self.circuit.open(since) {
            return;
        }
        warn!(why, "the database cannot be reached; no queries are sent until it answers");
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let probe = |probe| {
                let this = Arc::clone(&this);
                async move {
                    let limit = if probe == Probe::Quick { PROBE } else { this.address.patience() };
                    this.pool.is_closed() || was_answered(timeout(limit, this.address.connect()).await)
                }
            };
            this.circuit.close_when_answered(this.spread, probe).await;
            this.note_answer();
            info!("the database answers again");
        });
    }

    /// Returns when the database is out of reach: for a while neither the listener nor any work has an answer from it, and it
    /// accepts no new connection either. A slow one that answers now and then does not count. The probe gets part of
    /// the time that a read or write may wait: with the default, and the time the listener needs to notice, all of it stays below three seconds.
    pub(super) async fn lost(&self) {
        let (mut silent_for, mut answers) = (Duration::ZERO, self.answers.load(Ordering::Relaxed));
        let is_silent = |answers: u64| self.freshness.is_suspended() && self.answers.load(Ordering::Relaxed) == answers;
        loop {
            sleep(LOOK_EVERY).await;
            silent_for = if is_silent(answers) { silent_for + LOOK_EVERY } else { Duration::ZERO };
            answers = self.answers.load(Ordering::Relaxed);
            if silent_for < SILENCE {
                continue;
            }
            let mut unanswered_at = self.unanswered_at.lock().await;
            if !is_silent(answers) {
                continue;
            }
            if *unanswered_at == Some(answers) {
                return;
            }
            let limit = PROBE.max(self.wait * 3 / 4);
            if was_answered(timeout(limit, self.address.connect_to_latest()).await) {
                self.note_answer();
            } else if is_silent(answers) {
                *unanswered_at = Some(answers);
                return;
            }
        }
    }
}

/// Whether the database answered an attempt to connect; one that says it has no room for another connection is there, too.
fn was_answered(
    attempt: std::result::Result<std::result::Result<(Client, DriverConnection), ConnectError>, Elapsed>,
) -> bool {
    match attempt {
        Ok(Ok(connected)) => {
            end_in_background(connected);
            true
        }
        Ok(Err(error)) => error.is_for_want_of_room(),
        Err(_) => false,
    }
}
