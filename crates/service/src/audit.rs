//! Writes the audit without slowing requests down: entries go into a queue in memory and are written to the store every few
//! seconds. What does not fit is counted. Strangers can only cause this many rows per minute.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::audit::{AuditEntry, AuditKind, StrangerBudget, network_of};
use domain::{Snowflake, Time};
use parking_lot::Mutex;
use runtime::clock::Clock;
use store::{AuditBounds, Store};
use tracing::warn;

use crate::config::AuditConfig;

const QUEUE: usize = 4_096;
/// How many uses of a key from a network are remembered for the hour.
const USES: usize = 1_000;
/// The longest time between deletions of rows that are too old or too many.
const TRIM_EVERY: Duration = Duration::from_mins(10);
/// Deletes also whenever a process has written one in this many of the allowed rows. Not after each batch, because counting
/// reads them all.
const TRIM_PARTS: u64 = 100;
/// The longest text from a client or an operator.
const LONGEST: usize = 200;

#[derive(Clone, Copy, Debug)]
pub struct AuditOrigin<'a> {
    pub client: IpAddr,
    pub request: &'a str,
}

pub struct Audit {
    store: Arc<Store>,
    clock: Clock,
    config: AuditConfig,
    state: Mutex<AuditState>,
    rows_lost: AtomicU64,
    /// Only one task writes at a time.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct AuditState {
    queue: Vec<AuditEntry>,
    lost: u64,
    strangers: StrangerBudget,
    /// The hour in which each key was last used from each network.
    uses: HashMap<(String, String), u64>,
    trimmed: Option<Duration>,
    /// Rows written since the last deletion.
    untrimmed: u64,
}

impl Audit {
    pub fn new(store: Arc<Store>, clock: Clock, config: AuditConfig) -> Self {
        Self {
            store,
            clock,
            config,
            state: Mutex::default(),
            rows_lost: AtomicU64::new(0),
            writing: tokio::sync::Mutex::default(),
        }
    }

    /// How many rows were lost since startup, because there were too many at the same time or they could not be written.
    pub fn rows_lost(&self) -> u64 {
        self.rows_lost.load(Ordering::Relaxed)
    }

    fn is_off(&self) -> bool {
        self.config.keep.is_zero()
    }

    /// A request changed something about a user's account.
    pub fn of_user(&self, kind: AuditKind, user: Snowflake, origin: AuditOrigin<'_>, detail: &str) {
        self.add(kind, Some(origin), |entry| {
            entry.person = Some(user.to_string());
            detail.clone_into(&mut entry.detail);
        });
    }

    pub fn refused(&self, kind: AuditKind, origin: AuditOrigin<'_>, why: &str) {
        self.add(kind, Some(origin), |entry| why.clone_into(&mut entry.detail));
    }

    pub fn grant_revoked(&self, user: Snowflake) {
        self.add(AuditKind::GrantRevoked, None, |entry| entry.person = Some(user.to_string()));
    }

    /// A bot's key was used; counts once per hour and network.
    pub fn key_used(&self, key: &str, origin: AuditOrigin<'_>) {
        if self.is_off() {
            return;
        }
        let hour = self.clock.now().seconds() / 3_600;
        let name = (key.to_owned(), network_of(origin.client));
        {
            let mut state = self.state.lock();
            if state.uses.get(&name) == Some(&hour) {
                return;
            }
            if state.uses.len() >= USES {
                state.uses.retain(|_, used| *used == hour);
            }
            if state.uses.len() >= USES {
                return;
            }
            state.uses.insert(name, hour);
        }
        self.add(AuditKind::KeyUsed, Some(origin), |entry| entry.key = Some(key.to_owned()));
    }

    /// A command has changed something.
    pub fn command(&self, kind: AuditKind, detail: &str, person: Option<String>, key: Option<&str>) {
        self.add(kind, None, |entry| {
            entry.detail = detail.chars().take(LONGEST).collect();
            entry.person = person;
            entry.key = key.map(ToOwned::to_owned);
        });
    }

    fn add(&self, kind: AuditKind, origin: Option<AuditOrigin<'_>>, fill: impl FnOnce(&mut AuditEntry)) {
        if self.is_off() {
            return;
        }
        let now = self.clock.now();
        let network = origin.map(|origin| network_of(origin.client));
        let mut state = self.state.lock();
        if kind.is_by_strangers() && !state.strangers.admits(kind, network.as_deref().unwrap_or_default(), now) {
            return;
        }
        if state.queue.len() >= QUEUE {
            state.lost += 1;
            self.rows_lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut entry = AuditEntry::new(now, kind);
        entry.network = network;
        entry.request = origin.map(|origin| origin.request.chars().take(LONGEST).collect());
        fill(&mut entry);
        state.queue.push(entry);
    }

    /// Writes what is waiting, and deletes what is too old or too much. `all`: also totals whose minute is not over.
    pub async fn flush(&self, all: bool) {
        if self.is_off() {
            return;
        }
        let _one_at_a_time = self.writing.lock().await;
        let (entries, lost) = self.take(all);
        // The row about lost rows is not one of them.
        let count = (entries.len() as u64).saturating_sub(u64::from(lost > 0));
        let is_due = {
            let (ticks, state) = (self.clock.ticks(), self.state.lock());
            state.untrimmed + count >= (self.config.rows / TRIM_PARTS).max(1)
                || state.trimmed.is_none_or(|trimmed| ticks.saturating_sub(trimmed) >= TRIM_EVERY)
        };
        if entries.is_empty() && !is_due {
            return;
        }
        let bounds =
            is_due.then(|| AuditBounds { rows: self.config.rows, before: self.oldest(), now: self.clock.now() });
        match self.store.write_audit(entries, bounds).await {
            Ok(()) => {
                let mut state = self.state.lock();
                if is_due {
                    (state.trimmed, state.untrimmed) = (Some(self.clock.ticks()), 0);
                } else {
                    state.untrimmed += count;
                }
                drop(state);
                if lost > 0 {
                    warn!(lost, "audit rows were lost: there were too many at once");
                }
            }
            Err(error) => {
                self.state.lock().lost += count + lost;
                self.rows_lost.fetch_add(count, Ordering::Relaxed);
                // There may be nothing to write, only rows to delete.
                if count > 0 {
                    warn!(%error, rows = count, "audit rows were lost: they could not be written");
                }
            }
        }
    }

    fn take(&self, all: bool) -> (Vec<AuditEntry>, u64) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let mut entries = std::mem::take(&mut state.queue);
        entries.extend(state.strangers.summaries(now, all));
        let lost = std::mem::take(&mut state.lost);
        if lost > 0 {
            entries.push(AuditEntry { count: lost, ..AuditEntry::new(now, AuditKind::Lost) });
        }
        (entries, lost)
    }

    /// Older rows are deleted; none while the clock may be wrong.
    fn oldest(&self) -> Time {
        if self.clock.may_delete() { self.clock.now().before(self.config.keep) } else { Time::default() }
    }
}
