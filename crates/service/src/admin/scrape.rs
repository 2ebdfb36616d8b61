//! `GET /metrics`: collects what the parts of the service have counted.

use std::path::Path;
use std::sync::Arc;

use domain::{Health, Time};
use provider::idp::Endpoint;
use store::{self, StoreBytes};
use telemetry::Version;
use telemetry::metrics::{
    CacheName, CacheOutcome, Exposition, HistogramSnapshot, Label, LimitName, ProviderOutcome, ServerError,
    SignInOutcome, StoreAccess, StoreOutcome, list,
};

use super::process::ProcessStats;
use crate::app::App;

/// Up to this many shards get their own series.
const MOST_SHARDS: usize = 1_000;

/// Counts from the store that are only updated rarely.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Census {
    sessions: Option<u64>,
    unreadable_grants: Option<u64>,
    bytes: Option<StoreBytes>,
    /// `None` if the store could not be reached; the time is 0 if there was no backup.
    last_backup: Option<Time>,
}

impl Census {
    pub(super) async fn take(app: Arc<App>) -> Self {
        let (sessions, unreadable, bytes, last_backup) = tokio::join!(
            app.sources.store.session_count(),
            app.unreadable_grants(),
            app.sources.store.bytes(),
            app.sources.store.last_backup(),
        );
        Self {
            sessions: sessions.ok(),
            unreadable_grants: unreadable.ok().map(|(count, _)| count),
            bytes: bytes.ok(),
            last_backup: last_backup.ok().map(Option::unwrap_or_default),
        }
    }
}

pub(super) fn collect(app: &App, store_is_up: bool, census: &Census) -> String {
    let mut text = Exposition::default();
    text.sample(list::BUILD_INFO, &[("version", Version::NAME)], 1);
    requests(&mut text, app);
    people(&mut text, app, census);
    provider(&mut text, app);
    store(&mut text, app, store_is_up, census);
    caches(&mut text, app);
    bot(&mut text, app);
    machine(&mut text, app);
    text.finish()
}

fn requests(text: &mut Exposition, app: &App) {
    text.family(list::HTTP_REQUESTS);
    text.family(list::HTTP_DURATION);
    if let Some(requests) = app.sources.metrics.requests.get() {
        for (route, method, status, count) in requests.counts() {
            let labels = [("method", method.text()), ("route", route), ("status", &status)];
            text.sample(list::HTTP_REQUESTS, &labels, count);
        }
        for (route, durations) in requests.durations() {
            text.histogram(list::HTTP_DURATION, ("route", route), &durations);
        }
    }
    for error in ServerError::ALL {
        text.sample(list::SERVER_ERRORS, &[("error", error.text())], app.sources.metrics.server_errors.get(*error));
    }
    let calls = &app.sources.provider.metrics().calls;
    for limit in LimitName::ALL {
        let hit = match limit {
            LimitName::FailureBudget => {
                Endpoint::ALL.iter().map(|endpoint| calls.get(*endpoint, ProviderOutcome::BudgetSpent)).sum()
            }
            limit => app.sources.metrics.limits.get(*limit),
        };
        text.sample(list::LIMITS_HIT, &[("limit", limit.text())], hit);
    }
    let people = (app.sources.metrics.requests_in_flight.get(), app.current.get().limits.concurrent_requests as u64);
    let of_bots = app.uploads.pools().map(|(name, pool)| (name, (pool.in_use() as u64, pool.size() as u64)));
    for (name, (in_flight, limit)) in [("people", people)].into_iter().chain(of_bots) {
        text.sample(list::REQUESTS_IN_FLIGHT, &[("pool", name)], in_flight);
        text.sample(list::REQUESTS_LIMIT, &[("pool", name)], limit);
    }
    text.value(list::CONNECTIONS, app.sources.metrics.connections.get());
    text.value(list::CONNECTIONS_ACCEPTED, app.sources.metrics.accepted.get());
    let (public, of_users) = app.live.counts();
    text.sample(list::LIVE_STREAMS, &[("kind", "public")], public);
    text.sample(list::LIVE_STREAMS, &[("kind", "user")], of_users);
}

fn people(text: &mut Exposition, app: &App, census: &Census) {
    for outcome in SignInOutcome::ALL {
        text.sample(list::SIGN_INS, &[("outcome", outcome.text())], app.sources.metrics.sign_ins.get(*outcome));
    }
    text.value_if_any(list::SESSIONS, census.sessions);
    text.value_if_any(list::GRANTS_UNREADABLE, census.unreadable_grants);
}

fn provider(text: &mut Exposition, app: &App) {
    let (metrics, state) = (app.sources.provider.metrics(), app.sources.provider.state());
    for call in Endpoint::ALL {
        for outcome in ProviderOutcome::ALL {
            let labels = [("call", call.text()), ("outcome", outcome.text())];
            text.sample(list::PROVIDER_CALLS, &labels, metrics.calls.get(*call, *outcome));
        }
        let durations = HistogramSnapshot::of([metrics.durations(*call)]);
        text.histogram(list::PROVIDER_DURATION, ("call", call.text()), &durations);
    }
    text.value(list::PROVIDER_CIRCUIT, u8::from(!state.open_circuits.is_empty()));
    text.value(list::PROVIDER_CREDENTIALS, u8::from(state.credentials_refused));
    text.value(list::PROVIDER_BUDGET, state.budget_remaining);
}

fn store(text: &mut Exposition, app: &App, is_up: bool, census: &Census) {
    let (metrics, load) = (app.sources.store.metrics(), app.sources.store.load());
    text.value(list::STORE_UP, u8::from(is_up));
    for access in StoreAccess::ALL {
        for outcome in StoreOutcome::ALL {
            let labels = [("kind", access.text()), ("outcome", outcome.text())];
            text.sample(list::STORE_OPERATIONS, &labels, metrics.operations.get(*access, *outcome));
        }
        let waits = HistogramSnapshot::of([metrics.waits(*access)]);
        text.histogram(list::STORE_WAIT, ("kind", access.text()), &waits);
        let durations = HistogramSnapshot::of([metrics.durations(*access)]);
        text.histogram(list::STORE_DURATION, ("kind", access.text()), &durations);
    }
    text.sample(list::STORE_POOL, &[("state", "in_use")], load.in_use);
    text.sample(list::STORE_POOL, &[("state", "idle")], load.idle);
    text.value(list::STORE_QUEUE, load.queued_writes);
    text.value(list::STORE_CIRCUIT, u8::from(load.circuit_open));
    if let Some(StoreBytes { database, log }) = census.bytes {
        text.sample(list::STORE_BYTES, &[("part", "database")], database);
        if let Some(log) = log {
            text.sample(list::STORE_BYTES, &[("part", "log")], log);
        }
    }
    text.value_if_any(list::LAST_BACKUP, census.last_backup.map(Time::seconds));
    text.value(list::AUDIT_LOST, app.sources.audit.rows_lost());
    text.value(list::STORE_DAMAGED, metrics.damaged.get());
    text.value(list::STORE_FILE_LOST, metrics.file_lost.get());
}

fn caches(text: &mut Exposition, app: &App) {
    for cache in CacheName::ALL {
        let name = ("cache", cache.text());
        for outcome in CacheOutcome::ALL {
            let count = app.sources.metrics.caches.requests(*cache, *outcome);
            text.sample(list::CACHE_REQUESTS, &[name, ("outcome", outcome.text())], count);
        }
        text.sample(list::CACHE_EVICTIONS, &[name], app.sources.metrics.caches.evictions.get(*cache));
        text.sample(list::CACHE_ENTRIES, &[name], app.views.cached_entries(*cache));
    }
}

fn bot(text: &mut Exposition, app: &App) {
    let now = app.sources.clock.now();
    text.family(list::FEED_AGE);
    let shards = app.views.status.last_known_health(|health| {
        if let Some(age) = health.report_age(now) {
            text.seconds(list::BOT_REPORT_AGE, &[], age);
        }
        shard_ages(text, health, now);
        health.shards.len()
    });
    // No shard is known before the first look at the bot's health.
    text.value(list::FEED_SHARDS, shards.unwrap_or(0));
}

fn shard_ages(text: &mut Exposition, health: &Health, now: Time) {
    let ages = health.shards.iter().map(|(id, shard)| (id, now.since(shard.reported)));
    if health.shards.len() <= MOST_SHARDS {
        for (id, age) in ages {
            text.seconds(list::FEED_AGE, &[("shard", &id.to_string())], age);
        }
    } else if let Some(greatest) = ages.map(|(_, age)| age).max() {
        text.seconds(list::FEED_AGE, &[("shard", "all")], greatest);
    }
}

fn machine(text: &mut Exposition, app: &App) {
    text.value_if_any(
        list::CERTIFICATE_EXPIRY,
        Some(app.sources.metrics.certificate_expiry.get()).filter(|at| *at > 0),
    );
    if let Some(disk) = store::local_file(&app.config.store.url).and_then(|database| disk_of(&database)) {
        text.value(list::DISK_FREE, disk.f_bavail.saturating_mul(disk.f_frsize));
        text.value(list::DISK_SIZE, disk.f_blocks.saturating_mul(disk.f_frsize));
    }
    text.value(list::CLOCK_STEPS, app.sources.metrics.clock_steps.get());
    text.value(list::RELOAD_SUCCESS, u8::from(app.sources.metrics.reload_failed.get() == 0));
    let process = ProcessStats::read();
    text.value_if_any(list::PROCESS_CPU, process.cpu.map(|time| time.as_secs_f64()));
    text.value_if_any(list::PROCESS_MEMORY, process.resident_bytes);
    text.value_if_any(list::PROCESS_OPEN_FDS, process.open_files);
    text.value_if_any(list::PROCESS_MAX_FDS, process.most_files);
    text.value_if_any(list::PROCESS_START, process.started);
}

/// The database's file system. This asks for its folder, because the file itself may be gone.
fn disk_of(database: &Path) -> Option<rustix::fs::StatVfs> {
    let folder = database.parent().filter(|folder| !folder.as_os_str().is_empty());
    rustix::fs::statvfs(folder.unwrap_or(Path::new("."))).ok()
}
