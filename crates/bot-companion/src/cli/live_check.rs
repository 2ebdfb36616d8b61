//! `bot-companion check --live`: looks at what the configuration names, and changes nothing. Each line says what was found and, where
//! that is not as it should be, what to do.

mod findings;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};

use super::database;
use super::local_request::{ask, ready_url};
use crate::clock::Clock;
use crate::config::{Config, keyfile};
use crate::domain::Time;
use crate::server::{self, LoadedCertificate};
use crate::{app, store};

/// How long the store may take to answer a question.
const STORE_LIMIT: Duration = Duration::from_secs(10);
/// How long a program that has our port may take to answer.
const ASK_LIMIT: Duration = Duration::from_secs(3);

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckStatus {
    Fine,
    Warning,
    Failed,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CheckLine {
    /// What was looked at, in a word.
    name: &'static str,
    status: CheckStatus,
    /// What was found, and what to do.
    text: String,
}

impl CheckLine {
    fn fine(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, status: CheckStatus::Fine, text: text.into() }
    }

    pub(super) fn warning(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, status: CheckStatus::Warning, text: text.into() }
    }

    fn failed(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, status: CheckStatus::Failed, text: text.into() }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.status == CheckStatus::Failed
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    fn word(&self) -> &'static str {
        match self.status {
            CheckStatus::Fine => "ok",
            CheckStatus::Warning => "warning",
            CheckStatus::Failed => "failed",
        }
    }

    pub(super) fn value(&self) -> Value {
        json!({ "check": self.name, "status": self.word(), "text": self.text })
    }

    pub(super) fn cells(&self) -> Vec<String> {
        vec![self.word().to_owned(), self.name.to_owned(), self.text.clone()]
    }
}

/// All checks, one after the other.
pub(super) async fn run(config: &Config) -> Vec<CheckLine> {
    let now = Clock::system().now();
    let mut lines = vec![port("port", config.http.listen, Some(&ready_url(config, config.http.listen)), true).await];
    if let Some(listen) = config.admin.listen {
        let url = format!("http://{}/readyz", super::local_request::reachable(listen));
        lines.push(port("admin port", listen, Some(&url), config.admin.is_set).await);
    }
    lines.extend(store(config, now).await);
    lines.extend(provider(config).await);
    lines.push(certificate(config, now));
    lines
}

/// Whether this process could listen there. A service of ours that does so now is fine, too.
async fn port(name: &'static str, listen: SocketAddr, url: Option<&str>, is_needed: bool) -> CheckLine {
    let taken = match server::try_bind(listen) {
        Ok(()) => return CheckLine::fine(name, format!("{listen} is free")),
        Err(error) => error,
    };
    let answer = match url {
        Some(url) if listen.port() != 0 => ask(url, ASK_LIMIT).await.ok(),
        _ => None,
    };
    let is_ours = answer.is_some_and(|(_, answer)| {
        let ours = |status: &Value| ["ready", "draining"].iter().any(|word| status == word);
        ours(&answer["status"]) || ours(&answer["data"]["status"]) || answer["data"]["error"] == "draining"
    });
    findings::port(name, listen, &taken, is_ours, is_needed)
}

/// Store, schema, keys, bot.
async fn store(config: &Config, now: Time) -> Vec<CheckLine> {
    let location = store::location(&config.store.url);
    let look = match store::look(&config.store.url, STORE_LIMIT).await {
        Ok(Some(look)) => look,
        Ok(None) => {
            if let Err(lost) = database::refuse_lost(config) {
                return vec![CheckLine::failed("store", lost.to_string())];
            }
            let text = format!("there is no database at {location} yet; the first start makes it");
            return vec![CheckLine::warning("store", text)];
        }
        Err(error) => return vec![CheckLine::failed("store", error.to_string())],
    };
    let mut lines = vec![
        CheckLine::fine("store", format!("{} answers: {location}", store::kind(&config.store.url))),
        findings::schema(look.schema, look.newest),
    ];
    if let Some(file) = look.file {
        lines.extend(findings::file(&file, &location));
    }
    if let Some(content) = look.content {
        lines.push(keys(config, &content.grants_by_key));
        let reported = content.health.instances.values().map(|instance| instance.reported).max();
        lines.push(findings::bot(reported, now));
    }
    lines
}

/// Whether all grants can be read with the keys that are configured.
fn keys(config: &Config, grants_by_key: &[(String, u64)]) -> CheckLine {
    let configured: Vec<String> = config.secrets.iter().map(|key| key.id.clone()).collect();
    let file = store::local_file(&config.store.url).filter(|_| configured.is_empty());
    let Some(path) = file.map(|database| keyfile::beside(&database)) else {
        return findings::keys(&configured, None, grants_by_key);
    };
    match keyfile::load(&path) {
        Ok(Some(key)) => findings::keys(&[key.id], None, grants_by_key),
        Ok(None) => findings::keys(&[], Some(&path), grants_by_key),
        Err(error) => CheckLine::failed("keys", error.to_string()),
    }
}

/// The same for a plain `check`, where the store is a file: to look at it costs nothing. Says only what is wrong.
pub(super) async fn unreadable_grants(config: &Config) -> Option<String> {
    store::local_file(&config.store.url)?;
    let content = store::look(&config.store.url, STORE_LIMIT).await.ok()??.content?;
    let line = keys(config, &content.grants_by_key);
    line.has_failed().then_some(line.text)
}

/// Provider, credentials, clock.
async fn provider(config: &Config) -> Vec<CheckLine> {
    let clock = Clock::system();
    let client = match app::provider(config, &clock) {
        Ok(client) => client,
        Err(error) => return vec![CheckLine::failed("provider", error.to_string())],
    };
    let redirect_uri = config.idp.redirect_uri.first().map_or("", String::as_str);
    let began = clock.now();
    let (date, probed) = client.probe(redirect_uri).await;
    let mut lines = findings::provider(&config.idp.base_url, redirect_uri, &probed);
    // The answer was written between the two, and the header has whole seconds.
    lines.extend(date.map(|date| findings::clock(date, began, clock.now())));
    lines
}

fn certificate(config: &Config, now: Time) -> CheckLine {
    let Some(tls) = &config.tls else {
        return CheckLine::fine(
            "certificate",
            "none: plain HTTP, so TLS is the business of a proxy before the service",
        );
    };
    match LoadedCertificate::load(tls) {
        Ok(loaded) => findings::certificate(&tls.cert, loaded.facts().as_ref(), now),
        Err(error) => CheckLine::failed("certificate", error.to_string()),
    }
}
