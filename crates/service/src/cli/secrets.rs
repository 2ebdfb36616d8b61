//! `bot-companion secrets …`: the keys that encrypt the provider's tokens, and how to change them while the service runs.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::bail;
use clap::Subcommand;
use domain::audit::AuditKind;
use serde_json::{Value, json};
use telemetry::untrusted::Untrusted;
use tracing::warn;

use super::database::{self, Missing};
use super::local_request::{LocalQuestion, admin_of};
use super::output::{columns, counted, progress};
use super::{CommandOptions, print};
use crate::accounts::{GrantReport, ResealReport};
use crate::config::Config;

/// How long the running service may take to report its keys, which includes a probe of its store.
const ASK_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, Subcommand)]
pub(super) enum Secrets {
    /// Show how many of the provider's grants are encrypted with each key, and whether they can be read.
    Status(CommandOptions),
    /// Re-encrypt all grants with the first key, while the service runs.
    ///
    /// First put the new key before the old one in every replica's configuration, and reload them: a replica without the new
    /// key cannot read what this writes. Then run this, and remove the old key. It refuses to run while the service on this
    /// machine encrypts with another key.
    Reseal(CommandOptions),
}

pub(super) fn run(secrets: &Secrets) -> anyhow::Result<()> {
    let said = match secrets {
        Secrets::Status(CommandOptions { form, config }) => {
            let report = database::reading(config, async |reading| {
                Ok(GrantReport::of(&reading.store, &reading.vault()?).await?)
            })?;
            form.one(&status_value(&report), || status_text(&report))
        }
        Secrets::Reseal(CommandOptions { form, config }) => {
            let (done, report) = database::with(config, Missing::Refuse, async |app| {
                refuse_another_key(&app.config, &app.key_ids()).await?;
                let grants = app.sources.store.grants_by_key().await?.iter().map(|(_, grants)| grants).sum();
                let bar = progress(grants, "resealing {bar:40} {human_pos} of {human_len} grants, {eta} left");
                let done = app.accounts.reseal(|report| bar.set_position(report.seen)).await;
                bar.finish_and_clear();
                app.sources.audit.command(AuditKind::Command, "secrets reseal", None, None);
                Ok((done?, app.accounts.grant_report().await?))
            })?;
            let value = json!({
                "looked_at": done.seen,
                "resealed": done.resealed,
                "changed_meanwhile": done.changed,
                "unreadable": done.unreadable,
                "removable": removable(&report),
                "keys": status_value(&report),
            });
            form.one(&value, || reseal_text(done, &report))
        }
    };
    print(&said)
}

/// A service that encrypts with another key may not be able to read what is about to be written, and keeps writing with its own.
async fn refuse_another_key(config: &Config, keys: &[String]) -> anyhow::Result<()> {
    let Some(first) = keys.first() else {
        bail!(
            "there is no key here, neither in secrets.keys nor next to the database: run this with the service's own \
             configuration. Nothing was changed"
        );
    };
    let others = "Every service that uses this store must already have the key `";
    let until = "`: one that hasn't been restarted or reloaded since you added it cannot read what this writes";
    let Some((admin, loaded)) = loaded_keys(config).await else {
        warn!("no running service could be reached at admin.listen. {others}{first}{until}");
        return Ok(());
    };
    let theirs = loaded.first().map_or("", String::as_str);
    if theirs != first {
        bail!(
            "the service running here (admin listener {admin}) encrypts with the key `{theirs}`, but this command would encrypt \
             with `{first}`: put the same keys in the same order into secrets.keys of the configuration that both read, reload \
             the service, and run this again. If that service uses another store, correct admin.listen or run this with \
             COMPANION_ADMIN_LISTEN=off. Nothing was changed"
        );
    }
    if store::needs_shared_keys(&config.store.url) {
        warn!("only the service at {admin} was asked. {others}{first}{until}");
    }
    Ok(())
}

/// The IDs of the keys that the service running here has loaded, and its admin listener. `None` if it cannot be reached.
async fn loaded_keys(config: &Config) -> Option<(SocketAddr, Vec<String>)> {
    let (admin, _) = admin_of(config, ASK_LIMIT).await?;
    let (_, health) = LocalQuestion::at(format!("http://{admin}/health")).ask(ASK_LIMIT).await.ok()?;
    let ids = health["keys"].as_array()?.iter().filter_map(|id| id.as_str().map(ToOwned::to_owned));
    Some((admin, ids.collect()))
}

pub(super) fn status_value(report: &GrantReport) -> Value {
    let configured = report.configured.iter().enumerate().map(|(place, (id, found))| {
        json!({ "id": id, "configured": true, "writes": place == 0, "grants": found.grants, "unreadable": found.damaged })
    });
    let missing = report.missing.iter().map(|(id, grants)| {
        json!({ "id": id, "configured": false, "writes": false, "grants": grants, "unreadable": grants })
    });
    Value::Array(configured.chain(missing).collect())
}

fn status_text(report: &GrantReport) -> String {
    let row = |cells: [&str; 4]| cells.map(ToOwned::to_owned).to_vec();
    let mut rows = vec![row(["key", "grants", "unreadable", ""])];
    for (place, (id, found)) in report.configured.iter().enumerate() {
        let role = if place == 0 { "configured; writes" } else { "configured; reads" };
        rows.push(row([id, &found.grants.to_string(), &found.damaged.to_string(), role]));
    }
    for (id, grants) in &report.missing {
        let (id, grants) = (if id.is_empty() { "(none)" } else { id }, grants.to_string());
        rows.push(row([&Untrusted(id).to_string(), &grants, &grants, "not configured"]));
    }
    let mut lines = columns(&rows);
    if report.configured.is_empty() {
        lines.push(
            "There is no key here: the service creates one when it starts, unless secrets.keys is set.".to_owned(),
        );
    }
    lines.extend(remedies(report));
    let waiting: u64 = report.configured.iter().skip(1).map(|(_, found)| found.grants - found.damaged).sum();
    if waiting > 0 {
        let waiting = counted(waiting, "grant");
        lines.push(format!("Not encrypted with the first key: {waiting}. Run `bot-companion secrets reseal`."));
    }
    lines.join("\n") + "\n"
}

/// What to do about grants that cannot be read.
pub(super) fn remedies(report: &GrantReport) -> Vec<String> {
    let mut lines = Vec::new();
    for (id, found) in report.configured.iter().filter(|(_, found)| found.damaged > 0) {
        lines.push(format!(
            "{} can't be read with the key {id}: either secrets.keys has a different key under that ID than before, and only the \
             right key helps, or the data is damaged, and the users have to sign in again.",
            counted(found.damaged, "grant")
        ));
    }
    for (id, grants) in &report.missing {
        let grants = counted(*grants, "grant");
        lines.push(if id.is_empty() {
            format!("{grants} without the ID of a key can't be read. The users have to sign in again.")
        } else {
            let id = Untrusted(id);
            format!(
                "{grants} can't be read without the key {id}, which is not configured: add it to secrets.keys (from its \
                 backup, or from the .key file next to the database). If it is lost, the users have to sign in again."
            )
        });
    }
    lines
}

/// The keys that nothing needs any more.
fn removable(report: &GrantReport) -> Vec<&str> {
    let idle = report.configured.iter().skip(1).filter(|(_, found)| found.grants == 0);
    idle.map(|(id, _)| id.as_str()).collect()
}

fn reseal_text(done: ResealReport, report: &GrantReport) -> String {
    let first = report.configured.first().map_or("", |(id, _)| id.as_str());
    let mut lines = vec![format!("Encrypted {} of {} with {first}.", done.resealed, counted(done.seen, "grant"))];
    if done.changed > 0 {
        lines.push(format!("Skipped {} that changed in the meantime.", counted(done.changed, "grant")));
    }
    lines.extend(remedies(report));
    for (id, found) in report.configured.iter().skip(1) {
        lines.push(if found.grants == 0 {
            format!("Nothing needs the key {id} any more: remove it from secrets.keys and reload the service.")
        } else if found.grants == found.damaged {
            format!("The grants left under the key {id} cannot be read.")
        } else {
            let left = counted(found.grants - found.damaged, "grant");
            format!(
                "The key {id} is still needed by {left}: is a replica running that doesn't have {first} first? \
                 Reload it, and run this again."
            )
        });
    }
    lines.join("\n") + "\n"
}
