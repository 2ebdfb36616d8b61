//! `bot-companion backup` and `bot-companion restore`: everything to one file and back, from and to either kind of store.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::audit::AuditKind;
use domain::{Snowflake, Time};
use indicatif::ProgressBar;
use runtime::clock::Clock;
use serde_json::{Value, json};
use store::backup::{
    BackupHeader, BackupOptions, BackupWatch, Progress, RestoreOptions, RestoreReport, back_up, back_up_to, restore,
};
use store::{self, BotKey, HeldGrant};
use telemetry::untrusted::Untrusted;
use tracing::warn;

use super::database::{self, Missing};
use super::exit::UsageError;
use super::output::{counted, progress};
use super::{CommandOptions, backup_folder, print, runtime, secrets, vacuum};
use crate::accounts::GrantReport;
use crate::app;
use crate::audit::Audit;
use crate::config::Config;
use crate::vault::Vault;

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("place").required(true).args(["file", "to"])))]
pub(super) struct Backup {
    /// The file to write, which must not exist yet; `-` for standard output.
    file: Option<PathBuf>,
    /// Write to this folder, as companion-DATE.backup. Each service needs its own folder.
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Keep this many backups in the folder, and delete older ones.
    #[arg(long, value_name = "COUNT", requires = "to", conflicts_with = "file", value_parser = backup_folder::count)]
    keep: Option<usize>,
    #[command(flatten)]
    options: CommandOptions,
}

#[derive(Debug, clap::Args)]
pub(super) struct Restore {
    /// The backup.
    file: PathBuf,
    /// Replace everything in the store with the backup.
    #[arg(long)]
    replace: bool,
    /// Keep the backup's sessions valid, including those that have ended since.
    #[arg(long)]
    keep_sessions: bool,
    #[command(flatten)]
    options: CommandOptions,
}

/// Stands for standard output.
const OUTPUT: &str = "-";

pub(super) fn run_backup(Backup { file, to, keep, options }: Backup) -> anyhow::Result<()> {
    let now = Clock::system().now();
    let file = match (file, to) {
        (Some(file), _) => file,
        (None, Some(folder)) => backup_folder::file(&folder, now)?,
        (None, None) => return Err(UsageError("name a file, or a folder with --to".to_owned()).into()),
    };
    let to_output = file.as_os_str() == OUTPUT;
    if to_output && std::io::stdout().is_terminal() {
        return Err(UsageError(
            "refusing to write a backup to the terminal: redirect the output, or give a file name".to_owned(),
        )
        .into());
    }
    let config = database::prepare(&options.config, Missing::Refuse)?;
    let what = BackupOptions { url: config.store.url.clone(), start_wait: config.store.start_wait, now };
    let mut watch = GrantWatch::new("backing up", readable_vault(&config)?);
    let written = runtime()?.block_on(async {
        if to_output {
            back_up_to(&what, std::io::stdout().lock(), &mut watch).await
        } else {
            back_up(&what, &file, &mut watch).await
        }
    });
    let (header, grants) = (written?, watch.finish());
    tell_service(&config, &header);
    let deleted = keep.map(|keep| backup_folder::delete_old(&file, keep, now)).transpose()?.unwrap_or_default();
    let size = if to_output { None } else { std::fs::metadata(&file).ok().map(|data| data.len()) };
    let value = json!({
        "file": file.display().to_string(),
        "bytes": size,
        "taken": taken(&header),
        "tables": tables(&header),
        "grants": grants_value(&grants),
        "deleted": deleted,
    });
    let said = options.form.one(&value, || {
        let file = (!to_output).then_some(file.as_path());
        let mut text = backup_text(file, size.unwrap_or(0), &header, &grants, config.key_file().as_deref());
        if !deleted.is_empty() {
            text.extend(["Deleted old backups: ", &deleted.join(", "), ".\n"]);
        }
        text
    });
    if to_output {
        // Standard output is the backup, and nothing else.
        std::io::stderr().write_all(said.as_bytes())?;
        return Ok(());
    }
    print(&said)
}

/// Records the backup in the store, for the service's metrics. The backup is good without that.
fn tell_service(config: &Config, header: &BackupHeader) {
    let taken = Time::from_millis(header.taken);
    let noted = database::on_store(config, async |store, _| Ok(store.note_backup(taken).await?));
    if let Err(error) = noted {
        warn!(%error, "the backup is good, but could not be recorded in the store: the service's metrics still show the \
        previous one");
    }
}

pub(super) fn run_restore(restoring: Restore) -> anyhow::Result<()> {
    let Restore { file, replace, keep_sessions, options } = restoring;
    if file.as_os_str() == OUTPUT {
        return Err(UsageError("a backup is read twice, so it must be a file: save it first".to_owned()).into());
    }
    let config = database::prepare(&options.config, Missing::Make)?;
    let what = RestoreOptions {
        url: config.store.url.clone(),
        start_wait: config.store.start_wait,
        file,
        replace,
        keep_sessions,
        now: Clock::system().now(),
    };
    let mut watch = GrantWatch::new("restoring", readable_vault(&config)?);
    let restored = runtime()?.block_on(restore(&what, &mut watch));
    let (report, grants) = (restored?, watch.finish());
    if let Err(error) = follow_up(&config, &report) {
        // The restore itself succeeded. The only failure worth reporting is someone in the store who must not be.
        if !report.forget_again.is_empty() {
            return Err(error.context(not_forgotten(&report.forget_again)));
        }
        warn!("the backup is restored, but that could not be recorded in the audit: {error:#}");
    }
    let key = config.key_file().filter(|path| !path.exists());
    let value = restore_value(&report, &grants);
    print(&options.form.one(&value, || restore_text(&what, &report, &grants, key.as_deref())))
}

/// Forgets users who were forgotten after the backup, and records the restore in the audit. Creates no key file, because the
/// right one may still have to be put there.
fn follow_up(config: &Config, report: &RestoreReport) -> anyhow::Result<()> {
    database::on_store(config, async |store, clock| {
        for user in &report.forget_again {
            store.forget(*user, clock.now()).await?;
        }
        if !report.forget_again.is_empty()
            && let Some(left) = vacuum::after_forgetting(&config.store.url).await
        {
            warn!("{left}");
        }
        let audit = Audit::new(Arc::clone(store), clock.clone(), config.audit);
        let detail = format!("restore of a backup as of {}", taken(&report.header));
        audit.command(AuditKind::Command, &detail, None, None);
        audit.flush(true).await;
        Ok(())
    })
}

fn not_forgotten(forget_again: &[Snowflake]) -> String {
    let commands: Vec<_> = forget_again.iter().map(|user| format!("`bot-companion users forget {user}`")).collect();
    format!(
        "the backup is restored, but it may contain users who were forgotten after it was taken; run this before you start \
         the service: {}",
        commands.join(", ")
    )
}

/// The existing keys. A key file that cannot be used must not prevent a backup.
fn readable_vault(config: &Config) -> anyhow::Result<Vault> {
    app::existing_keys(config).or_else(|error| {
        warn!("{error:#}; no grants can be decrypted");
        Ok(Vault::for_reading(&[])?)
    })
}

/// Shows progress, and tries to decrypt each grant.
struct GrantWatch {
    bar: ProgressBar,
    vault: Vault,
    grants: GrantReport,
}

impl GrantWatch {
    fn new(doing: &'static str, vault: Vault) -> Self {
        let bar = progress(0, "{msg:30} {bar:40} {human_pos} of {human_len} rows, {eta} left").with_message(doing);
        Self { bar, grants: GrantReport::new(&vault), vault }
    }

    fn finish(self) -> GrantReport {
        self.bar.finish_and_clear();
        self.grants
    }
}

impl BackupWatch for GrantWatch {
    fn progress(&mut self, progress: Progress<'_>) {
        self.bar.set_length(progress.of);
        self.bar.set_position(progress.rows);
    }

    fn grant(&mut self, grant: &HeldGrant) {
        self.grants.add(&self.vault, grant.user, &grant.sealed);
    }
}

fn grants_value(grants: &GrantReport) -> Value {
    json!({ "total": grants.total(), "readable": grants.readable(), "keys": secrets::status_value(grants) })
}

/// Which grants can be decrypted, and what to do about the others.
fn grants_text(grants: &GrantReport) -> Vec<String> {
    if grants.total() == 0 {
        return vec!["It holds no grants.".to_owned()];
    }
    let of_keys = grants.configured.iter().filter(|(_, found)| found.grants > 0);
    let of_keys: Vec<_> =
        of_keys.map(|(id, found)| format!("{} with the key {id}", found.grants - found.damaged)).collect();
    let of_keys = if of_keys.is_empty() { String::new() } else { format!(": {}", of_keys.join(", ")) };
    let (readable, total) = (grants.readable(), grants.total());
    let total = counted(total, "grant");
    let first = format!("{readable} of {total} in it can be decrypted with the keys configured here{of_keys}.");
    std::iter::once(first).chain(secrets::remedies(grants)).collect()
}

fn taken(header: &BackupHeader) -> String {
    Time::from_millis(header.taken).iso8601()
}

fn tables(header: &BackupHeader) -> Value {
    header.tables.iter().map(|table| json!({ "table": table.name, "rows": table.rows })).collect()
}

fn backup_text(
    file: Option<&Path>,
    size: u64,
    header: &BackupHeader,
    grants: &GrantReport,
    key: Option<&Path>,
) -> String {
    let key = key.map_or_else(|| "secrets.keys".to_owned(), |path| format!("the key in {}", path.display()));
    let whole = match file {
        Some(file) => format!("are in {} ({size} bytes). The file was read back and is intact.", file.display()),
        None => {
            "were written to standard output. They were not read back: `restore` verifies their checksum.".to_owned()
        }
    };
    let mut lines = vec![format!("{} rows as of {} {whole}", header.rows(), taken(header))];
    lines.push(format!(
        "The provider's tokens in it are encrypted, and the key is not included: keep {key} somewhere else."
    ));
    lines.extend(grants_text(grants));
    lines.join("\n") + "\n"
}

fn key_value(key: &BotKey) -> Value {
    json!({ "id": key.id, "label": key.label, "revoked": key.revoked.map(Time::iso8601) })
}

fn restore_value(report: &RestoreReport, grants: &GrantReport) -> Value {
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
        "grants": grants_value(grants),
    })
}

fn restore_text(
    what: &RestoreOptions,
    report: &RestoreReport,
    grants: &GrantReport,
    missing_key: Option<&Path>,
) -> String {
    let header = &report.header;
    let mut lines = vec![format!(
        "Restored {} rows as of {} into {}; release {} backed them up from {}.",
        header.rows(),
        taken(header),
        store::kind(&what.url),
        Untrusted(&header.release),
        Untrusted(&header.store),
    )];
    lines.push(if what.keep_sessions {
        "The sessions in the backup are valid again, including those that have ended since.".to_owned()
    } else {
        format!("Ended {} from the backup: users have to sign in again.", counted(report.sessions_ended, "session"))
    });
    lines.extend(grants_text(grants));
    if let Some(path) = missing_key.filter(|_| grants.total() > 0) {
        lines.push(format!(
            "There is no key file at {}: put the backup's key file there before you start the service, or it will create a \
             new one.",
            path.display()
        ));
    }
    for key in &report.keys_back {
        let (id, label) = (Untrusted(&key.id), Untrusted(&key.label));
        let before = key.revoked.map_or_else(
            || "did not exist before the restore".to_owned(),
            |at| format!("was revoked at {}", at.iso8601()),
        );
        lines.push(format!(
            "Key {id} ({label}) works now but {before}: if it shouldn't, run `bot-companion key revoke {id}`."
        ));
    }
    for key in &report.keys_gone {
        let label = Untrusted(&key.label);
        lines.push(format!(
            "Key {} ({label}) worked before the restore and no longer does: create a new one.",
            Untrusted(&key.id)
        ));
    }
    for user in &report.blocks_gone {
        lines.push(format!(
            "User {user} was blocked before the restore and no longer is: run `bot-companion users block {user}`."
        ));
    }
    for user in &report.blocks_back {
        lines.push(format!(
            "User {user} is blocked now but was not before the restore: if they shouldn't be, run `bot-companion users \
             unblock {user}`."
        ));
    }
    if !report.forget_again.is_empty() {
        let users = counted(report.forget_again.len() as u64, "user");
        lines.push(format!("Forgot {users} again: the backup was taken before they were forgotten."));
    }
    lines.push("Start the service; the bot will resend what has changed since.\n".to_owned());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_to_be_forgotten_again_is_named() {
        let users = [5, 7].map(|id| Snowflake::new(id).unwrap());
        assert!(not_forgotten(&users).ends_with("`bot-companion users forget 5`, `bot-companion users forget 7`"));
    }
}
