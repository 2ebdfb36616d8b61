//! `GET /health`. Only reading and writing the store decides the result. The provider and the bot are reported too, but
//! restarting this service would fix neither. The IDs of the keys tell whether a change of keys has reached this process.

use std::sync::Arc;
use std::time::Duration;

use domain::health::{Health, is_silent};
use runtime::shared_check::SharedCheck;
use serde_json::{Value, json};
use store::Result;
use telemetry::metrics::{Label, ProviderOutcome};
use tokio::time::timeout;

use crate::app::App;

/// How often the store is probed at most, however many ask.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// How long the store may take to read and write a row.
const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// Finds out whether the store can be read and written.
pub(super) struct StoreProbe {
    app: Arc<App>,
    check: SharedCheck<ProbeOutcome>,
}

/// Whether the store could be read and written; if not, why.
#[derive(Clone, Debug)]
pub(super) struct ProbeOutcome {
    read: std::result::Result<(), String>,
    write: std::result::Result<(), String>,
    /// Damage counts even if this row can be read, because others cannot.
    problem: Option<&'static str>,
}

impl ProbeOutcome {
    /// Whether a row could be read and another written.
    pub(super) fn is_up(&self) -> bool {
        self.read.is_ok() && self.write.is_ok()
    }

    /// Whether there is no known problem.
    pub(super) fn is_ok(&self) -> bool {
        self.is_up() && self.problem.is_none()
    }
}

impl StoreProbe {
    pub(super) fn new(app: &Arc<App>) -> Self {
        Self { app: Arc::clone(app), check: SharedCheck::new(PROBE_EVERY, app.sources.clock.clone()) }
    }

    pub(super) async fn get(&self) -> ProbeOutcome {
        let outcome = self.check.get(|| {
            let app = Arc::clone(&self.app);
            async move {
                let now = app.sources.clock.now();
                let (read, write) =
                    tokio::join!(within(app.sources.store.probe_read()), within(app.sources.store.probe_write(now)));
                ProbeOutcome { read, write, problem: problem(&app) }
            }
        });
        let crashed = || Err("the probe crashed".to_owned());
        outcome.await.unwrap_or_else(|| ProbeOutcome { read: crashed(), write: crashed(), problem: None })
    }
}

/// A stable name for a problem with the store that goes beyond one failure.
fn problem(app: &App) -> Option<&'static str> {
    let metrics = app.sources.store.metrics();
    match (metrics.damaged.get(), metrics.file_lost.get()) {
        (1.., _) => Some("store_damaged"),
        (_, 1..) => Some("store_file_lost"),
        _ => None,
    }
}

async fn within(probe: impl Future<Output = Result<()>>) -> std::result::Result<(), String> {
    match timeout(PROBE_LIMIT, probe).await {
        Ok(outcome) => outcome.map_err(|error| error.to_string()),
        Err(_) => Err(format!("it did not answer within {} seconds", PROBE_LIMIT.as_secs())),
    }
}

pub(super) fn report(app: &App, probed: &ProbeOutcome) -> Value {
    json!({
        "status": if probed.is_ok() { "ok" } else { "failing" },
        "store": store(probed),
        "provider": provider(app),
        "bot": bot(app),
        "keys": app.key_ids(),
    })
}

fn store(probed: &ProbeOutcome) -> Value {
    let word = |outcome: &std::result::Result<(), String>| if outcome.is_ok() { "ok" } else { "failed" };
    let error = probed.read.as_ref().err().or(probed.write.as_ref().err());
    json!({"read": word(&probed.read), "write": word(&probed.write), "error": error, "problem": probed.problem})
}

fn provider(app: &App) -> Value {
    let state = app.sources.provider.state();
    let open: Vec<&str> = state.open_circuits.iter().map(|endpoint| endpoint.text()).collect();
    let last_call = state.last_call.map(|(endpoint, outcome, at)| {
        let ago = app.sources.clock.now().since(at).as_secs();
        json!({"call": endpoint.text(), "outcome": outcome.text(), "seconds_ago": ago})
    });
    let (status, reason) = match state.last_call {
        _ if state.credentials_refused => (
            "failing",
            Some(
                "it rejects this service's credentials, so nobody can sign in: check idp.client_id and idp.client_secret",
            ),
        ),
        _ if !open.is_empty() => {
            ("failing", Some("it failed too often, so these calls are paused: see `circuits_open`"))
        }
        _ if state.budget_remaining == 0 => {
            ("failing", Some("it refused too many calls within ten minutes, so calls are paused"))
        }
        _ if !state.can_sign_in => {
            ("failing", Some("it refused too many sign-ins within ten minutes, so nobody can sign in for now"))
        }
        None => ("unknown", Some("not called since startup")),
        Some((_, ProviderOutcome::Answered | ProviderOutcome::Abandoned, _)) => ("ok", None),
        Some(_) => ("failing", Some("the last call failed: see `last_call`")),
    };
    json!({
        "status": status,
        "reason": reason,
        "circuits_open": open,
        "failure_budget_remaining": state.budget_remaining,
        "last_call": last_call,
    })
}

fn bot(app: &App) -> Value {
    let now = app.sources.clock.now();
    let reported = app.views.status.last_known_health(Health::latest_report).flatten();
    let (status, reason) = match reported {
        None => ("unknown", Some("no heartbeat from the bot is on record")),
        Some(reported) if is_silent(reported, now) => {
            ("silent", Some("no heartbeat from the bot in the last 90 seconds"))
        }
        Some(_) => ("ok", None),
    };
    let age = reported.map(|reported| now.since(reported).as_secs());
    json!({"status": status, "reason": reason, "last_report_seconds_ago": age})
}
