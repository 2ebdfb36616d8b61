//! `bot-companion store copy`, which moves the data to another store in a maintenance window, and `bot-companion store vacuum`.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use clap::Subcommand;
use indicatif::ProgressBar;
use runtime::clock::Clock;
use secrecy::SecretString;
use serde_json::{Value, json};
use store::backup::{CopyOptions, CopyReport, Progress, Stage, copy};

use super::backup::progress;
use super::output::{OutputForm, counted};
use super::{ConfigFile, logging, print, runtime, vacuum};
use crate::config::{self, AccessLog, LogConfig, LogFormat, keyfile};

#[derive(Debug, Subcommand)]
pub(super) enum StoreCommand {
    /// Copy everything from one store to another, and compare the two.
    ///
    /// Stop the service first, and start it on the destination afterwards. The destination must be empty: a new database, or a
    /// file that does not exist. The source is not changed. If the copy is interrupted, the destination is still empty, and you
    /// can run the same command again.
    ///
    /// A URL is `sqlite:PATH` or `postgres://USER:PASSWORD@HOST/DATABASE`. If it contains a password, set it through
    /// `COMPANION_COPY_FROM` or `COMPANION_COPY_TO`: everyone on the machine can see a command's arguments.
    #[command(after_help = "\
Example:
  bot-companion store copy --from sqlite:bot-companion.db --to postgres://companion@db.example/companion")]
    Copy {
        /// The store to copy from.
        #[arg(long, value_name = "URL", env = "COMPANION_COPY_FROM", hide_env_values = true, value_parser = secret)]
        from: SecretString,
        /// The store to copy to.
        #[arg(long, value_name = "URL", env = "COMPANION_COPY_TO", hide_env_values = true, value_parser = secret)]
        to: SecretString,
        #[command(flatten)]
        form: OutputForm,
        /// How long to keep trying to reach a database server, like `store.start_wait` for the service.
        #[arg(
            long,
            value_name = "DURATION",
            env = "COMPANION_STORE_START_WAIT",
            hide_env_values = true,
            default_value = config::START_WAIT,
            value_parser = config::start_wait
        )]
        start_wait: Duration,
    },
    /// Rewrite the SQLite database file, so that no deleted data is left in it.
    ///
    /// A running service's writes have to wait and may fail, so stop it before you vacuum a large file. Needs twice the file's
    /// size in free disk space.
    Vacuum {
        #[command(flatten)]
        form: OutputForm,
        #[command(flatten)]
        config: ConfigFile,
    },
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "the parser of arguments asks for it; what is wrong with a URL is said later, without it"
)]
fn secret(url: &str) -> Result<SecretString, Infallible> {
    Ok(url.into())
}

pub(super) fn run(command: StoreCommand) -> anyhow::Result<()> {
    let (from, to, form, start_wait) = match command {
        StoreCommand::Copy { from, to, form, start_wait } => (from, to, form, start_wait),
        StoreCommand::Vacuum { form, config } => return vacuum::run(form, &config),
    };
    // So that it says so if it waits for a database.
    logging::start(&LogConfig { filter: "warn".to_owned(), format: LogFormat::Text, access: AccessLog::Off })?;
    let what = CopyOptions { from, to, start_wait, now: Clock::system().now() };
    let bar = progress("copying");
    let copied = runtime()?.block_on(async {
        let mut watch = |progress: Progress<'_>| show(&bar, progress);
        tokio::select! {
            copied = copy(&what, &mut watch) => copied.map_err(anyhow::Error::from),
            Ok(()) = tokio::signal::ctrl_c() => bail!("the copy was interrupted: run the same command again"),
        }
    });
    bar.finish_and_clear();
    let report = copied?;
    print(&form.one(&value(&report), || text(&what, &report, key_beside(&what.from).as_deref())))
}

fn show(bar: &ProgressBar, progress: Progress<'_>) {
    let doing = match progress.stage {
        Stage::Moving => "copying",
        Stage::Comparing => "comparing",
    };
    let message = format!("{doing} {}", progress.table);
    if progress.rows < bar.position() {
        bar.reset();
    }
    if bar.message() != message {
        bar.set_message(message);
    }
    bar.set_length(progress.of);
    bar.set_position(progress.rows);
}

/// The key file that a service without `secrets.keys` created next to its database.
fn key_beside(url: &SecretString) -> Option<PathBuf> {
    Some(keyfile::beside(&store::local_file(url)?)).filter(|path| path.exists())
}

fn value(report: &CopyReport) -> Value {
    let table =
        |(name, rows, checksum): &(&str, u64, String)| json!({ "table": name, "rows": rows, "checksum": checksum });
    json!({
        "tables": report.tables.iter().map(table).collect::<Vec<_>>(),
        "checksum": report.checksum,
        "mended": report.mended,
    })
}

fn text(what: &CopyOptions, report: &CopyReport, key: Option<&Path>) -> String {
    let total: u64 = report.tables.iter().map(|(_, rows, _)| rows).sum();
    let mut lines = vec![format!("{:<20} {:>12}  checksum", "table", "rows")];
    for (table, rows, checksum) in &report.tables {
        let short: String = checksum.chars().take(16).collect();
        lines.push(format!("{table:<20} {rows:>12}  {short}"));
    }
    lines.push(format!("{:<20} {total:>12}\n", "all"));
    lines.push(format!("Both stores were read again and match: {}", report.checksum));
    if report.mended > 0 {
        lines.push(format!(
            "Replaced the character U+0000, which {1} cannot store, with U+FFFD in {0}.",
            counted(report.mended, "row"),
            store::kind(&what.to)
        ));
    }
    if let Some(key) = key {
        lines.push(format!(
            "The provider's tokens are encrypted with the key in {0}, unless secrets.keys is set: the service needs it from now \
             on as COMPANION_SECRETS_KEYS_FILE={0}.",
            key.display()
        ));
    }
    let (from, to) = (store::kind(&what.from), store::kind(&what.to));
    lines.push(format!("Copied from {from} to {to}. Now set store.url to the value of --to, and start the service.\n"));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_says_what_was_copied_and_what_comes_next() {
        let what = CopyOptions {
            from: "sqlite:a".into(),
            to: "postgres://me:hush@b/c".into(),
            start_wait: Duration::ZERO,
            now: domain::Time::from_seconds(1),
        };
        let report = CopyReport {
            tables: vec![("users", 2, "0123456789abcdef0123".to_owned()), ("guilds", 1_000_000, "ff".repeat(32))],
            checksum: "5e".repeat(32),
            mended: 1,
        };
        let said = text(&what, &report, Some(Path::new("a.key")));
        assert!(said.contains("users                           2  0123456789abcdef\n"), "{said}");
        assert!(said.contains("all                       1000002\n"), "{said}");
        assert!(said.contains(&format!("match: {}\n", "5e".repeat(32))), "{said}");
        assert!(said.contains("1 row."), "{said}");
        assert!(said.contains("COMPANION_SECRETS_KEYS_FILE=a.key."), "{said}");
        assert!(
            said.ends_with(
                "from SQLite to PostgreSQL. Now set store.url to the value of --to, and start the service.\n"
            )
        );
        assert_eq!(
            value(&report)["tables"][1],
            json!({ "table": "guilds", "rows": 1_000_000, "checksum": "ff".repeat(32) })
        );
        let quiet = text(&what, &CopyReport { mended: 0, ..report }, None);
        assert!(!quiet.contains("U+0000") && !quiet.contains("KEYS") && !quiet.contains("hush"), "{quiet}");
    }
}
