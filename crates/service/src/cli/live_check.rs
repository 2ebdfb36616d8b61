//! `bot-companion check --live`: checks what the configuration refers to, and changes nothing. Each line says what was found
//! and, if something is wrong, what to do.

mod findings;
#[cfg(test)]
mod tests;

use std::time::Duration;

use domain::Time;
use runtime::clock::Clock;

use super::check_line::CheckLine;
use super::database;
use super::local_request::{Answer, LocalQuestion, admin_of};
use crate::app;
use crate::config::{Config, keyfile};
use crate::server::{self, LoadedCertificate};

use findings::CheckedPort;
pub(super) use findings::connections;

/// How long the store may take to answer a question.
const STORE_LIMIT: Duration = Duration::from_secs(10);
/// How long a program on our port may take to answer.
const ASK_LIMIT: Duration = Duration::from_secs(3);

/// All checks except those of startup (`start_checks.rs`), one after the other.
pub(super) async fn run(config: &Config) -> Vec<CheckLine> {
    let now = Clock::system().now();
    let mut lines = vec![port(config).await];
    lines.extend(admin_port(config).await);
    lines.extend(store(config, now).await);
    lines.extend(provider(config).await);
    lines.extend(certificate(config, now));
    lines
}

/// Whether this process could listen for requests. A running service of ours is fine, too.
async fn port(config: &Config) -> CheckLine {
    let listen = &config.http.listen;
    let Err(error) = server::try_bind(listen) else { return CheckLine::fine("port", format!("{listen} is free")) };
    findings::port(CheckedPort::Service, listen, &error, service_runs(config).await)
}

/// Whether our service answers at the address in this configuration.
async fn service_runs(config: &Config) -> bool {
    let listen = &config.http.listen;
    let is_any_port = listen.tcp().is_some_and(|address| address.port() == 0);
    let answer = if is_any_port { None } else { LocalQuestion::of_service(config, listen).ask(ASK_LIMIT).await.ok() };
    answer.is_some_and(|(_, answer)| Answer::of_service(&answer).is_some())
}

/// The same for the admin listener.
async fn admin_port(config: &Config) -> Option<CheckLine> {
    let listen = config.admin.listen?;
    let Err(error) = server::try_bind(&listen.into()) else {
        return Some(CheckLine::fine("admin port", format!("{listen} is free")));
    };
    let is_ours = listen.port() != 0 && admin_of(config, ASK_LIMIT).await.is_some();
    let port = if config.admin.is_set { CheckedPort::Admin } else { CheckedPort::DefaultAdmin };
    Some(findings::port(port, &listen.into(), &error, is_ours))
}

/// Store, server limits, schema, keys, bot.
async fn store(config: &Config, now: Time) -> Vec<CheckLine> {
    let location = store::location(&config.store.url);
    let look = match store::look(&config.store.url, STORE_LIMIT).await {
        Ok(Some(look)) => look,
        Ok(None) => {
            // The startup checks have reported that.
            if database::refuse_lost(config).is_err() {
                return Vec::new();
            }
            let text = format!("there is no database at {location} yet; the first start creates it");
            return vec![CheckLine::warning("store", text)];
        }
        Err(error) => return vec![CheckLine::failed("store", error.to_string())],
    };
    let mut lines = vec![
        CheckLine::fine("store", format!("{} answers: {location}", store::kind(&config.store.url))),
        findings::schema(look.schema, look.newest),
    ];
    if let Some(server) = &look.server {
        lines.push(findings::role(server));
        lines.push(findings::connections(server, config.store.connections));
    }
    lines.extend(look.integrity.map(|integrity| findings::file(&integrity, &location)));
    if let Some(content) = look.content {
        lines.push(keys(config, &content.grants_by_key));
        let reported = content.health.instances.values().map(|instance| instance.reported).max();
        lines.push(findings::bot(reported, now));
    }
    lines
}

/// Whether the configured keys can decrypt all grants.
fn keys(config: &Config, grants_by_key: &[(String, u64)]) -> CheckLine {
    let Some(path) = config.key_file() else {
        let configured: Vec<String> = config.secrets.iter().map(|key| key.id.clone()).collect();
        return findings::keys(&configured, None, grants_by_key);
    };
    match keyfile::load(&path) {
        Ok(Some(key)) => findings::keys(&[key.id], None, grants_by_key),
        Ok(None) => findings::keys(&[], Some(&path), grants_by_key),
        Err(error) => CheckLine::wrong("keys", error.to_string()),
    }
}

/// The same for a plain `check` if the store is a file, where checking just the grants is cheap. Only reports problems.
pub(super) async fn unreadable_grants(config: &Config) -> Option<String> {
    let grants_by_key = store::grants_in_file(&config.store.url).await.ok()??;
    let line = keys(config, &grants_by_key);
    line.has_failed().then_some(line.text)
}

/// Provider, credentials, clock.
async fn provider(config: &Config) -> Vec<CheckLine> {
    let clock = Clock::system();
    // Problems with it prevent startup too, which has its own line.
    let Ok(client) = app::provider(config, &clock) else { return Vec::new() };
    let redirect_uri = config.idp.redirect_uri.first().map_or("", String::as_str);
    let began = clock.now();
    let (date, probed) = client.probe(redirect_uri).await;
    let mut lines = findings::provider(&config.idp.base_url, redirect_uri, &probed);
    // The response was written between the two times, and the header has whole seconds.
    lines.extend(date.map(|date| findings::clock(date, began, clock.now())));
    lines
}

/// What the certificate says. Whether it can be used at all is a startup check.
fn certificate(config: &Config, now: Time) -> Option<CheckLine> {
    let Some(tls) = &config.tls else {
        let text = "none: plain HTTP, so a proxy in front of the service has to handle TLS";
        return Some(CheckLine::fine("certificate", text));
    };
    let loaded = LoadedCertificate::load(tls).ok()?;
    Some(findings::certificate(&tls.cert, loaded.facts().as_ref(), now))
}
