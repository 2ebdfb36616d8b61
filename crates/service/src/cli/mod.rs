//! The commands, each in its own file unless it is one line.

mod announce;
mod audit;
mod backup;
mod backup_folder;
mod cautions;
mod check;
mod check_line;
mod config;
mod database;
mod dev;
mod documents;
pub mod exit;
mod feedback;
mod healthcheck;
mod init;
mod key;
mod live_check;
mod local_request;
mod log_lines;
mod logging;
mod output;
mod person;
mod secrets;
mod serve;
mod start_checks;
mod stats;
mod team;
mod users;
mod vacuum;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use telemetry::Version;

use crate::config::{Config, ListenAddress};
pub use log_lines::fatal_line;
use output::OutputForm;

/// The backend for your bot's dashboard and website.
///
/// Start with `bot-companion dev`: it runs the whole service with a sandbox sign-in and demo data, without any configuration.
#[derive(Debug, Parser)]
#[command(name = "bot-companion", version = Version::NAME, max_term_width = 100, after_help = exit::HELP)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service.
    Serve {
        #[command(flatten)]
        config: ConfigFile,
        /// Listen here instead of on http.listen: ADDRESS:PORT or unix:PATH. Port 0 picks a free port.
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<ListenAddress>,
        /// Start with an empty database even though the key file of an earlier one exists.
        #[arg(long)]
        new_database: bool,
    },
    /// Try it out: run everything on this machine, with a sandbox sign-in, demo guilds and a demo bot.
    Dev(dev::DevOptions),
    /// Create a configuration file, asking for the required values.
    ///
    /// Without a terminal, or with --yes, it doesn't ask: pass the values as options.
    #[command(after_help = "\
Examples:
  bot-companion init
  bot-companion init /etc/bot-companion/companion.toml --public-url https://bot.example")]
    Init(init::Init),
    /// Check the configuration for mistakes.
    Check {
        /// Also check ports, store, keys, provider, clock, certificate and bot. Changes nothing; the provider is sent one
        /// made-up code.
        #[arg(long)]
        live: bool,
        #[command(flatten)]
        options: CommandOptions,
    },
    /// Print the default configuration with every option explained, or the configuration in use.
    Config {
        /// Print the value of each option and where it comes from: the defaults, a line in the file or a variable. Secrets are
        /// hidden.
        #[arg(long)]
        effective: bool,
        #[command(flatten)]
        options: CommandOptions,
    },
    /// Exit with 0 if the service on this machine accepts requests. For a container's HEALTHCHECK.
    Healthcheck {
        /// Where the service listens, if it was started with --listen and without admin.listen.
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<ListenAddress>,
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Print the API's OpenAPI document.
    Openapi,
    /// Print completions for a shell.
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print a command's manual page, or write all of them to a folder.
    Man {
        /// The command, like `key create`. Without one, the main page.
        #[arg(value_name = "COMMAND")]
        words: Vec<String>,
        /// Write the pages of all commands to this folder.
        #[arg(long, value_name = "FOLDER", conflicts_with = "words")]
        to: Option<PathBuf>,
    },
    /// Manage the keys that bots use to send their data.
    #[command(subcommand)]
    Key(key::Key),
    /// Post and manage announcements, maintenance and updates on the status page.
    ///
    /// An announcement appears at once. When it is over, it moves to the page's history, until you remove it.
    #[command(after_help = "\
Examples:
  bot-companion announce \"Search is slow\" --text \"We are looking into it.\"
  bot-companion announce update 3 identified --text \"A full disk.\"
  bot-companion announce maintenance \"Upgrade\" --begins 2026-11-20T20:00Z --ends 2026-11-20T20:30Z
  bot-companion announce list
  bot-companion announce end 3")]
    Announce(announce::Announce),
    /// Import or export the team.
    #[command(subcommand)]
    Team(team::Team),
    /// Import feedback.
    #[command(subcommand)]
    Feedback(feedback::FeedbackCommand),
    /// Block users, show what is stored about them, or forget them.
    #[command(subcommand)]
    Users(users::Users),
    /// Manage the keys that encrypt the provider's tokens.
    #[command(subcommand)]
    Secrets(secrets::Secrets),
    /// Show the audit log: sign-ins, refusals, blocks, uses of bot keys, and commands that changed something.
    #[command(after_help = "\
Examples:
  bot-companion audit --since 1h
  bot-companion audit --user 123456789012345678 --kind sign_in_refused")]
    Audit(audit::AuditCommand),
    /// Show what the store contains.
    Stats(CommandOptions),
    /// Back up everything to a file, while the service runs.
    ///
    /// The backup is a consistent snapshot, is verified after it is written, and only its owner can read it. It can be restored
    /// into SQLite and PostgreSQL. The provider's tokens in it are encrypted; the key is not included.
    #[command(after_help = "\
Examples:
  bot-companion backup companion.backup
  bot-companion backup --to /var/backups/bot-companion --keep 7
  bot-companion backup - | ssh backup.example 'cat > companion.backup'")]
    Backup(backup::Backup),
    /// Restore a backup, while the service is stopped.
    ///
    /// The whole file is checked first, and then restored completely or not at all. All sessions end, because users may have
    /// signed out since the backup.
    #[command(after_help = "\
Examples:
  bot-companion restore companion.backup
  bot-companion restore companion.backup --replace")]
    Restore(backup::Restore),
    /// Vacuum the database file.
    #[command(subcommand)]
    Store(vacuum::StoreCommand),
}

// Not documentation: that would replace the commands' own.
// The options of each command that has a result.
#[derive(Clone, Debug, clap::Args)]
struct CommandOptions {
    #[command(flatten)]
    form: OutputForm,
    #[command(flatten)]
    config: ConfigFile,
}

#[derive(Clone, Debug, clap::Args)]
struct ConfigFile {
    /// The configuration file (TOML). You can also use environment variables: see `bot-companion config`.
    #[arg(id = "config", long, value_name = "FILE", env = "COMPANION_CONFIG")]
    file: Option<PathBuf>,
}

impl ConfigFile {
    fn load(&self) -> anyhow::Result<Config> {
        log_lines::note_environment();
        let config = Config::load(self.file.as_deref(), std::env::vars_os())?;
        log_lines::note_format(config.log.format);
        Ok(config)
    }
}

pub fn run(cli: Cli, version: Version) -> anyhow::Result<()> {
    match cli.command {
        Command::Serve { config, listen, new_database } => serve::run(&config, listen, new_database, version),
        Command::Dev(options) => dev::run(&options, version),
        Command::Init(init) => init::run(init),
        Command::Check { live, options } => check::run(live, &options),
        Command::Healthcheck { listen, config } => healthcheck::run(&config, listen.as_ref()),
        Command::Completions { shell } => documents::completions(shell),
        Command::Man { words, to } => documents::man(&words, to.as_deref()),
        Command::Config { effective, options } => config::run(effective, &options),
        Command::Openapi => print(&crate::http::document()),
        Command::Key(key) => key::run(key),
        Command::Announce(announce) => announce::run(announce),
        Command::Team(team) => team::run(team),
        Command::Feedback(feedback) => feedback::run(feedback),
        Command::Users(users) => users::run(&users),
        Command::Secrets(secrets) => secrets::run(&secrets),
        Command::Audit(audit) => audit::run(&audit),
        Command::Stats(stats) => stats::run(&stats),
        Command::Backup(backup) => backup::run_backup(backup),
        Command::Restore(restore) => backup::run_restore(restore),
        Command::Store(store) => vacuum::run(store),
    }
}

/// Writes to standard output. It is not an error if the reader has gone.
fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// The runtime for background work; connections have their own.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Commands that change nothing and have their own output format, or that run until they are stopped.
    const WITHOUT_JSON: [&str; 6] = ["serve", "healthcheck", "openapi", "completions", "man", "team export"];

    /// Every command that does something by itself.
    fn commands(command: &clap::Command, words: &str, found: &mut Vec<(String, bool)>) {
        let below: Vec<_> = command.get_subcommands().filter(|below| below.get_name() != "help").collect();
        let does_something = below.is_empty() || command.get_positionals().next().is_some();
        if does_something {
            found.push((words.to_owned(), command.get_arguments().any(|argument| argument.get_long() == Some("json"))));
        }
        for below in below {
            commands(below, format!("{words} {}", below.get_name()).trim(), found);
        }
    }

    #[test]
    fn every_command_that_changes_something_has_json() {
        let mut found = Vec::new();
        commands(&Cli::command(), "", &mut found);
        assert!(found.len() > 25 && found.iter().any(|(words, _)| words == "announce"), "{found:?}");
        for (words, has_json) in found {
            assert_eq!(has_json, !WITHOUT_JSON.contains(&words.as_str()), "{words}");
        }
    }
}
