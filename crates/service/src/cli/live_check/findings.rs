//! What each finding of a live check means, and what to do about it.

use std::io;
use std::path::Path;
use std::time::Duration;

use domain::Time;
use domain::health::is_silent;
use domain::saturating;
use provider::idp::{IdpError, IdpErrorKind};
use store::{Integrity, ServerLook};
use telemetry::untrusted::Untrusted;

use crate::cli::cautions;
use crate::cli::check_line::CheckLine;
use crate::config::ListenAddress;
use crate::server::{CertificateFacts, listen_advice};

/// If a clock is further off than this, times look odd; much further, and TLS and token expiry break.
const SKEW_NOTICED: Duration = Duration::from_secs(30);
const SKEW_HARMFUL: Duration = Duration::from_mins(5);
/// How long before its expiry a certificate should have been renewed.
const RENEWAL: Duration = Duration::from_hours(14 * 24);

#[derive(Clone, Copy)]
pub(super) enum CheckedPort {
    Service,
    Admin,
    /// At an address that nobody configured: the service runs without it.
    DefaultAdmin,
}

pub(super) fn port(port: CheckedPort, listen: &ListenAddress, error: &io::Error, is_ours: bool) -> CheckLine {
    let (name, option) = match port {
        CheckedPort::Service => ("port", "http.listen"),
        CheckedPort::Admin | CheckedPort::DefaultAdmin => ("admin port", "admin.listen"),
    };
    if error.kind() == io::ErrorKind::AddrInUse && is_ours {
        return CheckLine::fine(name, format!("{listen} is in use by a running bot-companion"));
    }
    let advice = listen_advice(listen, error);
    let text = format!("cannot listen on {listen} ({error}); {advice}, or set {option} to another address");
    match port {
        CheckedPort::DefaultAdmin => CheckLine::warning(name, text),
        CheckedPort::Service | CheckedPort::Admin => CheckLine::failed(name, text),
    }
}

pub(super) fn schema(found: i64, newest: usize) -> CheckLine {
    match usize::try_from(found) {
        Ok(0) => CheckLine::fine("schema", "there are no tables yet; the first start creates them"),
        Ok(found) if found == newest => CheckLine::fine("schema", format!("version {found}, as this release expects")),
        Ok(found) if found < newest => CheckLine::warning(
            "schema",
            format!(
                "version {found}; the next start of this release migrates it to {newest}, and older releases cannot use it \
                 after that: make a backup first"
            ),
        ),
        _ => CheckLine::failed(
            "schema",
            format!(
                "version {found}, but this release only supports up to {newest}; run the newer release, or restore a backup"
            ),
        ),
    }
}

/// Whether the role may create the tables, which happens at each start if they are missing.
pub(super) fn role(server: &ServerLook) -> CheckLine {
    let ServerLook { role, schema, may_create, .. } = server;
    match schema {
        Some(schema) if *may_create => {
            CheckLine::fine("role", format!("`{role}` may create tables in the schema `{schema}`"))
        }
        Some(schema) => CheckLine::failed(
            "role",
            format!(
                "`{role}` may not create tables in the schema `{schema}`, so the start fails; make the role the owner of the \
                 database, or run \
                 `GRANT CREATE ON SCHEMA {schema} TO {role}` as its owner"
            ),
        ),
        None => CheckLine::failed(
            "role",
            format!(
                "`{role}` may not use any schema on its search_path; run `GRANT USAGE, CREATE ON SCHEMA public TO {role}`"
            ),
        ),
    }
}

/// Whether the server accepts as many connections as one replica may open: the pool, the listener, and one more during startup.
pub(in crate::cli) fn connections(server: &ServerLook, pool: usize) -> CheckLine {
    let (most, option) = server.connections;
    let needed = saturating::to_i64(pool).saturating_add(2);
    if needed <= most {
        return CheckLine::fine("connections", format!("this replica uses {needed} of at most {most}"));
    }
    CheckLine::failed(
        "connections",
        format!(
            "store.connections is {pool}, so this replica needs {needed} connections (the pool and two more), but the server \
             allows this role only {most}; lower store.connections, or raise {option} (see Scaling in the documentation)"
        ),
    )
}

/// Whether this file is damaged.
pub(super) fn file(integrity: &Integrity, location: &str) -> CheckLine {
    match integrity {
        Integrity::Sound => CheckLine::fine("damage", "none: SQLite's quick_check found no damage"),
        Integrity::Damaged(found) => CheckLine::failed(
            "damage",
            format!(
                "the database file is damaged ({}): stop the service, keep a copy of the file, then salvage it or restore a backup \
                 (see CompanionStoreDamaged in the documentation, under Alerts)",
                Untrusted(&found.replace('\n', "; "))
            ),
        ),
        Integrity::TooLarge(size) => CheckLine::fine(
            "damage",
            format!(
                "skipped, because checking {} MB takes a while. Run this at a quiet time: `sqlite3 -readonly {location} 'PRAGMA quick_check'`",
                size.div_ceil(1_000_000)
            ),
        ),
    }
}

/// `missing` is where the key file should be if there is none.
pub(super) fn keys(configured: &[String], missing: Option<&Path>, grants_by_key: &[(String, u64)]) -> CheckLine {
    let unknown: Vec<_> = grants_by_key.iter().filter(|(id, _)| !configured.contains(id)).collect();
    let count: u64 = unknown.iter().map(|(_, count)| count).sum();
    let all: u64 = grants_by_key.iter().map(|(_, count)| count).sum();
    let ids: Vec<String> = unknown.iter().map(|(id, _)| id.clone()).collect();
    match (count, missing) {
        (0, None) => CheckLine::fine("keys", format!("all {all} grants can be read")),
        (0, Some(path)) => {
            CheckLine::fine("keys", format!("there is no key yet; the first start creates one at {}", path.display()))
        }
        (count, None) => CheckLine::failed("keys", cautions::unreadable_grants(count, &ids, None)),
        (count, Some(path)) => CheckLine::failed(
            "keys",
            format!(
                "{count} grants cannot be read, because the key file {} is missing; put it back before you start the service, \
                 or it creates a new one and those people have to sign in again",
                path.display()
            ),
        ),
    }
}

/// `reported` is when a bot process last sent a heartbeat.
pub(super) fn bot(reported: Option<Time>, now: Time) -> CheckLine {
    let Some(reported) = reported else {
        let advice =
            "make a key with `bot-companion key create` and give it to the bot (see Feed in the documentation)";
        return CheckLine::warning("bot", format!("no bot has ever reported; {advice}"));
    };
    let last = format!("last report at {}, {} s ago", reported.iso8601(), now.since(reported).as_secs());
    if !is_silent(reported, now) {
        return CheckLine::fine("bot", last);
    }
    let advice = "if the service is running, check that the bot is too, and what its log says about the companion";
    CheckLine::warning("bot", format!("the bot is silent: {last}; {advice}"))
}

pub(super) fn provider(base_url: &str, redirect_uri: &str, probed: &Result<(), IdpError>) -> Vec<CheckLine> {
    let reached = CheckLine::fine("provider", format!("{base_url} answers"));
    let error = match probed {
        Ok(()) => {
            let odd = "it accepted a made-up code; is idp.base_url really the provider's?";
            return vec![reached, CheckLine::failed("credentials", odd)];
        }
        Err(error) => error,
    };
    let credentials = match error.kind {
        IdpErrorKind::Rejected => {
            CheckLine::fine("credentials", "accepted; a made-up code was sent, and only the code was refused")
        }
        IdpErrorKind::Misconfigured => CheckLine::failed(
            "credentials",
            format!(
                "{}; compare idp.client_id and idp.client_secret with the provider's page: usually the secret was reset \
                 there. This counts as one refused call",
                error.detail
            ),
        ),
        IdpErrorKind::RedirectRefused => CheckLine::failed(
            "credentials",
            format!("{}; register exactly {redirect_uri} with the provider, or correct idp.redirect_uri", error.detail),
        ),
        IdpErrorKind::RateLimited(span) | IdpErrorKind::BackingOff(span) => CheckLine::warning(
            "credentials",
            format!("it is rate limiting this address; try again in {} s", span.as_secs().max(1)),
        ),
        IdpErrorKind::Refused | IdpErrorKind::Unauthorized => CheckLine::failed(
            "credentials",
            format!("{}; check idp.base_url, and whether the provider blocks this machine's address", error.detail),
        ),
        IdpErrorKind::Unavailable | IdpErrorKind::Timeout | IdpErrorKind::CircuitOpen(_) => {
            let advice = "check idp.base_url, name resolution, outgoing HTTPS, and HTTPS_PROXY if there is one";
            return vec![CheckLine::failed("provider", format!("{base_url}: {}; {advice}", error.detail))];
        }
    };
    vec![reached, credentials]
}

/// `date` is the provider's time in whole seconds, at some moment between our two.
pub(super) fn clock(date: Time, began: Time, ended: Time) -> CheckLine {
    let ahead = began.since(date.after(Duration::from_secs(1)));
    let behind = date.since(ended);
    let (off, word) = if ahead > behind { (ahead, "ahead of") } else { (behind, "behind") };
    if off <= SKEW_NOTICED {
        return CheckLine::fine("clock", "this machine's clock agrees with the provider's");
    }
    let text = format!(
        "this machine's clock is {} s {word} the provider's; set it, and keep it right with NTP (`timedatectl set-ntp true`)",
        off.as_secs()
    );
    if off > SKEW_HARMFUL { CheckLine::failed("clock", text) } else { CheckLine::warning("clock", text) }
}

pub(super) fn certificate(path: &Path, facts: Option<&CertificateFacts>, now: Time) -> CheckLine {
    let path = path.display();
    let Some(CertificateFacts { names, valid_from, expires }) = facts else {
        return CheckLine::warning(
            "certificate",
            format!("{path} matches its key, but its contents cannot be read here"),
        );
    };
    let until = expires.iso8601();
    let named = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
    if *expires <= now {
        return CheckLine::failed("certificate", format!("{path} expired at {until}; renew it"));
    }
    if *valid_from > now {
        let text = format!("{path} is not valid before {}; check this machine's clock, or wait", valid_from.iso8601());
        return CheckLine::failed("certificate", text);
    }
    if names.is_empty() {
        let advice = "browsers refuse it: request one with the service's name as a subject alternative name";
        return CheckLine::failed("certificate", format!("{path} names nobody; {advice}"));
    }
    if expires.since(now) <= RENEWAL {
        let text = format!(
            "{path} for {named} expires at {until}; renew it, and find out why it wasn't renewed automatically"
        );
        return CheckLine::warning("certificate", text);
    }
    CheckLine::fine("certificate", format!("{path} is for {named} and valid until {until}"))
}
