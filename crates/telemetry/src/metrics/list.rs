//! Every metric: its name, type and description. `docs/metrics.md` explains them to operators; a test compares the two.

/// A metric, which may have several series by label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricFamily {
    /// Its name, ending with the unit.
    pub name: &'static str,
    /// Its description, in one line without a backslash, which would have to be escaped.
    pub help: &'static str,
    pub kind: MetricKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows, until the process ends.
    Counter,
    /// A current value.
    Gauge,
    /// Durations, in buckets.
    Histogram,
}

macro_rules! families {
    ($($constant:ident: $kind:ident $name:literal $help:literal;)+) => {
        $(
            #[doc = concat!("`", $name, "`")]
            pub const $constant: MetricFamily = MetricFamily { name: $name, help: $help, kind: MetricKind::$kind };
        )+

        /// All of them, sorted by name.
        pub const FAMILIES: &[MetricFamily] = &[$($constant),+];
    };
}

families! {
    AUDIT_LOST: Counter "companion_audit_rows_lost_total" "Audit rows lost because there were too many at once, or they could not be written.";
    LAST_BACKUP: Gauge "companion_backup_last_success_timestamp_seconds" "When the last backup by `bot-companion backup` was taken, epoch seconds; 0 if none is known.";
    BOT_REPORT_AGE: Gauge "companion_bot_report_age_seconds" "Time since any bot process last sent a heartbeat.";
    BUILD_INFO: Gauge "companion_build_info" "Always 1; the label is the version of the running service.";
    CACHE_ENTRIES: Gauge "companion_cache_entries" "Entries in a cache.";
    CACHE_EVICTIONS: Counter "companion_cache_evictions_total" "Entries that a cache evicted for lack of space.";
    CACHE_REQUESTS: Counter "companion_cache_requests_total" "Cache lookups, by whether a fresh entry was found.";
    CLOCK_STEPS: Counter "companion_clock_steps_total" "How often the system clock jumped by more than a minute.";
    CONNECTIONS: Gauge "companion_connections" "Open connections.";
    CONNECTIONS_ACCEPTED: Counter "companion_connections_total" "Accepted connections.";
    DISK_FREE: Gauge "companion_disk_free_bytes" "Free space for the service on the file system of the SQLite database.";
    DISK_SIZE: Gauge "companion_disk_size_bytes" "Size of the file system of the SQLite database.";
    FEED_AGE: Gauge "companion_feed_age_seconds" "Time since each shard last reported; above 1000 shards only the longest, as \
    shard=\"all\".";
    FEED_SHARDS: Gauge "companion_feed_shards" "Shards that the bot has reported.";
    GRANTS_UNREADABLE: Gauge "companion_grants_unreadable" "Stored grants that no configured key can decrypt; the count \
    is at most a minute old.";
    HTTP_DURATION: Histogram "companion_http_request_duration_seconds" "Time until the response started, by route.";
    HTTP_REQUESTS: Counter "companion_http_requests_total" "Requests, by method, route and status; 499 if the client left before the response.";
    LIMITS_HIT: Counter "companion_limits_hit_total" "How often a limit refused something.";
    LIVE_STREAMS: Gauge "companion_live_streams" "Open live streams, public and per user.";
    PROVIDER_DURATION: Histogram "companion_provider_call_duration_seconds" "Duration of calls to the identity provider, by call.";
    PROVIDER_CALLS: Counter "companion_provider_calls_total" "Calls to the identity provider, by outcome or by why they were \
    not made.";
    PROVIDER_CIRCUIT: Gauge "companion_provider_circuit_open" "Whether the circuit breaker of any call to the identity \
    provider is open.";
    PROVIDER_CREDENTIALS: Gauge "companion_provider_credentials_refused" "Whether the identity provider refuses the \
    service's own credentials, so that nobody can sign in.";
    PROVIDER_BUDGET: Gauge "companion_provider_failure_budget_remaining" "Calls the identity provider may still refuse before \
    no more are made.";
    RELOAD_SUCCESS: Gauge "companion_reload_last_success" "1 if the last reload succeeded or there was none, 0 if it failed.";
    REQUESTS_IN_FLIGHT: Gauge "companion_requests_in_flight" "Requests in progress, by the pool their permit comes from.";
    REQUESTS_LIMIT: Gauge "companion_requests_in_flight_limit" "Limit on requests in progress, by pool.";
    SERVER_ERRORS: Counter "companion_server_errors_total" "Requests that failed because of the service, by the error the \
    client got.";
    SESSIONS: Gauge "companion_sessions" "Sessions in the store; the count is at most a minute old.";
    SIGN_INS: Counter "companion_sign_ins_total" "Attempts to sign in with a code, by outcome.";
    STORE_BYTES: Gauge "companion_store_bytes" "Size of the database, and of SQLite's write-ahead log, at most a minute old.";
    STORE_CIRCUIT: Gauge "companion_store_circuit_open" "Whether the circuit breaker of the database server is open.";
    STORE_DAMAGED: Gauge "companion_store_damaged" "Whether damage was found in the store since the service started.";
    STORE_FILE_LOST: Gauge "companion_store_file_lost" "Whether the SQLite database is no longer at its path, so nothing is written.";
    STORE_DURATION: Histogram "companion_store_operation_duration_seconds" "Duration of store reads and writes, including their wait.";
    STORE_OPERATIONS: Counter "companion_store_operations_total" "Store reads and writes, by outcome.";
    STORE_POOL: Gauge "companion_store_pool_connections" "Connections to the store, in use or idle.";
    STORE_UP: Gauge "companion_store_up" "Whether the store could be read and written when it was last probed.";
    STORE_WAIT: Histogram "companion_store_wait_seconds" "Time that reads and writes waited for a connection or for the writer.";
    STORE_QUEUE: Gauge "companion_store_writer_queue" "Writes waiting for their turn.";
    CERTIFICATE_EXPIRY: Gauge "companion_tls_certificate_expiry_timestamp_seconds" "When the TLS certificate expires, epoch seconds.";
    PROCESS_CPU: Counter "process_cpu_seconds_total" "CPU time that the process has used.";
    PROCESS_MAX_FDS: Gauge "process_max_fds" "File descriptors that the process may have open.";
    PROCESS_OPEN_FDS: Gauge "process_open_fds" "File descriptors that the process has open.";
    PROCESS_MEMORY: Gauge "process_resident_memory_bytes" "Resident memory of the process.";
    PROCESS_START: Gauge "process_start_time_seconds" "When the process started, epoch seconds.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_say_their_kind() {
        assert!(FAMILIES.is_sorted_by(|a, b| a.name < b.name));
        for family in FAMILIES {
            let is_total = family.name.ends_with("_total");
            assert_eq!(is_total, family.kind == MetricKind::Counter, "{}", family.name);
            assert!(family.help.ends_with('.') && !family.help.contains(['\n', '\\']), "{}", family.name);
        }
    }
}
