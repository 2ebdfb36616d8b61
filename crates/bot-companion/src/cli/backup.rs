//! `bot-companion backup` and `bot-companion restore`: everything into one file and back, whichever the store.

use std::path::{Path, PathBuf};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tracing::warn;

use super::database::{self, Missing};
use super::output::OutputForm;
use super::{ConfigFile, print, runtime, vacuum};
use crate::clock::Clock;
use crate::config::Config;
use crate::domain::audit::AuditKind;
use crate::domain::{Snowflake, Time};
use crate::store;
use crate::store::BotKey;
use crate::store::backup::{BackupHeader, BackupOptions, RestoreOptions, RestoreReport, back_up, restore};
use crate::untrusted::Untrusted;

#[derive(Debug, clap::Args)]
pub(super) struct Backup {
    /// The file to write; it must not be there yet.
    file: PathBuf,
    #[command(flatten)]
    form: OutputForm,
    #[command(flatten)]
    config: ConfigFile,
}

#[derive(Debug, clap::Args)]
pub(super) struct Restore {
    /// The backup.
    file: PathBuf,
    /// Put the backup in place of everything that the store holds now.
    #[arg(long)]
    replace: bool,
    /// Let the sessions of the backup go on; also those that have ended since.
    #[arg(long)]
    keep_sessions: bool,
    #[command(flatten)]
    form: OutputForm,
    #[command(flatten)]
    config: ConfigFile,
}

pub(super) fn run_backup(Backup { file, form, config }: Backup) -> anyhow::Result<()> {
    let config = database::prepare(&config, Missing::Refuse)?;
    let what = BackupOptions {
        url: config.store.url.clone(),
        start_wait: config.store.start_wait,
        file,
        now: Clock::system().now(),
    };
    let bar = progress("backing up");
    let written = runtime()?.block_on(back_up(&what, &mut |rows, of| show(&bar, rows, of)));
    bar.finish_and_clear();
    let header = written?;
    let size = std::fs::metadata(&what.file).map_or(0, |data| data.len());
    let value = json!({ "file": what.file, "bytes": size, "taken": taken(&header), "tables": tables(&header) });
    print(&form.one(&value, || backup_text(&what.file, size, &header, key_of(&config).as_deref())))
}

pub(super) fn run_restore(restoring: Restore) -> anyhow::Result<()> {
    let Restore { file, replace, keep_sessions, form, config } = restoring;
    let config = database::prepare(&config, Missing::Make)?;
    let what = RestoreOptions {
        url: config.store.url.clone(),
        start_wait: config.store.start_wait,
        file,
        replace,
        keep_sessions,
        now: Clock::system().now(),
    };
    let bar = progress("restoring");
    let restored = runtime()?.block_on(restore(&what, &mut |rows, of| show(&bar, rows, of)));
    bar.finish_and_clear();
    let report = restored?;
    follow_up(config, &report).context(
        "the backup is restored, but users who were forgotten since it was taken may be in it again; run this for each of them \
         before the service is started: `bot-companion users forget ID`",
    )?;
    print(&form.one(&restore_value(&report), || restore_text(&what, &report)))
}

/// Forgets again who was forgotten since, and notes the restoration in the audit.
fn follow_up(config: Config, report: &RestoreReport) -> anyhow::Result<()> {
    database::on(config, async |app| {
        for user in &report.forget_again {
            app.store.forget(*user, app.clock.now()).await?;
        }
        if !report.forget_again.is_empty()
            && let Some(left) = vacuum::after_forgetting(&app.config.store.url).await
        {
            warn!("{left}");
        }
        let detail = format!("restore of a backup as of {}", taken(&report.header));
        app.audit.command(AuditKind::Command, &detail, None, None);
        Ok(())
    })
}

/// Shown only where standard error is a terminal.
fn progress(doing: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(0).with_message(doing);
    if let Ok(style) = ProgressStyle::with_template("{msg} {bar:40} {human_pos} of {human_len} rows, {eta} left") {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &ProgressBar, rows: u64, of: u64) {
    bar.set_length(of);
    bar.set_position(rows);
}

/// The key that a service without `secrets.keys` has made beside its file.
fn key_of(config: &Config) -> Option<PathBuf> {
    if !config.secrets.is_empty() {
        return None;
    }
    let mut path = store::local_file(&config.store.url)?.into_os_string();
    path.push(".key");
    Some(path.into())
}

fn taken(header: &BackupHeader) -> String {
    Time::from_millis(header.taken).iso8601()
}

fn rows(header: &BackupHeader) -> u64 {
    header.tables.iter().map(|table| table.rows).sum()
}

fn tables(header: &BackupHeader) -> Value {
    header.tables.iter().map(|table| json!({ "table": table.name, "rows": table.rows })).collect()
}

fn backup_text(file: &Path, size: u64, header: &BackupHeader, key: Option<&Path>) -> String {
    let key = key.map_or_else(|| "secrets.keys".to_owned(), |path| format!("the key in {}", path.display()));
    format!(
        "{} rows as of {} are in {} ({size} bytes), which was read again and is whole.\nThe provider's tokens in it are \
         encrypted, and the key is not in it: keep {key} elsewhere.\n",
        rows(header),
        taken(header),
        file.display(),
    )
}

fn key_value(key: &BotKey) -> Value {
    json!({ "id": key.id, "label": key.label, "revoked": key.revoked.map(Time::iso8601) })
}

fn restore_value(report: &RestoreReport) -> Value {
    let users = |users: &[Snowflake]| -> Value { users.iter().map(|user| json!(user)).collect() };
    let keys = |keys: &[BotKey]| -> Value { keys.iter().map(key_value).collect() };
    json!({
        "taken": taken(&report.header),
        "release": report.header.release,
        "tables": tables(&report.header),
        "sessions_ended": report.sessions_ended,
        "keys_that_work_again": keys(&report.keys_back),
        "keys_that_are_gone": keys(&report.keys_gone),
        "no_longer_blocked": users(&report.blocks_gone),
        "blocked_again": users(&report.blocks_back),
        "forgotten_again": report.forget_again.len(),
    })
}

fn restore_text(what: &RestoreOptions, report: &RestoreReport) -> String {
    let header = &report.header;
    let mut lines = vec![format!(
        "{} rows as of {} are restored into {}; release {} took them from {}.",
        rows(header),
        taken(header),
        store::kind(&what.url),
        Untrusted(&header.release),
        Untrusted(&header.store),
    )];
    lines.push(if what.keep_sessions {
        "The sessions of the backup go on, also those that have ended since.".to_owned()
    } else {
        format!("{} session(s) of the backup have ended: users sign in again.", report.sessions_ended)
    });
    for key in &report.keys_back {
        let (id, label) = (&key.id, Untrusted(&key.label));
        let before = key
            .revoked
            .map_or_else(|| "was unknown just before".to_owned(), |at| format!("was revoked at {}", at.iso8601()));
        lines.push(format!(
            "Key {id} ({label}) works now and {before}: if it must not, `bot-companion key revoke {id}`."
        ));
    }
    for key in &report.keys_gone {
        let label = Untrusted(&key.label);
        lines.push(format!("Key {} ({label}) worked just before and does not any more: make a new one.", key.id));
    }
    for user in &report.blocks_gone {
        lines.push(format!(
            "User {user} was blocked just before and is not any more: `bot-companion users block {user}`."
        ));
    }
    for user in &report.blocks_back {
        lines.push(format!(
            "User {user} is blocked and was not just before: if they must not be, `bot-companion users unblock {user}`."
        ));
    }
    if !report.forget_again.is_empty() {
        let count = report.forget_again.len();
        lines.push(format!("{count} user(s) who were forgotten since the backup were forgotten again."));
    }
    lines.push("Start the service; the bot sends again what has changed since.\n".to_owned());
    lines.join("\n")
}
