//! The commands; each with a file of its own unless it is one line.

mod announce;
mod audit;
mod backup;
mod backup_folder;
mod cautions;
mod check;
mod check_line;
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
mod settings;
mod start_checks;
mod stats;
mod store;
mod team;
mod users;
mod vacuum;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use domain::Version;
use secrecy::SecretString;

use crate::config::{Config, ListenAddress};

/// The backend of a chat bot's dashboard and website.
///
/// Start with `bot-companion dev`: it runs the whole service with a sandbox sign-in and demo data, and needs no configuration.
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
        /// Listen here instead of at http.listen; port 0 picks a free one, and `unix:PATH` is a unix socket.
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<ListenAddress>,
        /// Begin with an empty database although the key of an earlier one is still there.
        #[arg(long)]
        new_database: bool,
    },
    /// Run everything on this machine for trying out: sandbox sign-in, demo guilds, a demo bot.
    Dev {
        /// Listen here; loopback only. Port 0 picks a free one.
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
        listen: SocketAddr,
        /// Keep the data in this folder.
        #[arg(long, value_name = "FOLDER", default_value = ".bot-companion-dev")]
        data: PathBuf,
        /// Keep the demo data in this PostgreSQL database instead; one that holds nothing else.
        #[arg(long, value_name = "URL")]
        store: Option<SecretString>,
        /// Register this redirect address, too, and let pages of its origin call; may be given several times. It takes the
        /// place of the one that is registered for the same origin.
        #[arg(long, value_name = "URL")]
        redirect_uri: Vec<String>,
        /// Without rate limits, for tests and measurements.
        #[arg(long)]
        no_limits: bool,
        /// Print one line of JSON with the addresses and the bot key, for programs.
        #[arg(long)]
        json: bool,
    },
    /// Create a commented configuration, asking for the required values.
    ///
    /// Without a terminal, or with --yes, it doesn't ask: pass them as options.
    Init(init::Init),
    /// Check the configuration and say what is wrong with it.
    Check {
        /// Also look at what it names: ports, store, keys, provider, clock, certificate, bot. Nothing is changed, and nothing is
        /// made; the provider gets one code that it refuses.
        #[arg(long)]
        live: bool,
        #[command(flatten)]
        form: output::OutputForm,
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Print the default configuration, with every setting explained; or the one that counts.
    Config {
        /// Print each setting with the value that counts and where it came from: the default, a line of the file, a variable.
        /// Secrets are hidden.
        #[arg(long)]
        effective: bool,
        #[command(flatten)]
        form: output::OutputForm,
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Ask the service on this machine whether it takes requests: exit code 0 if it does. For the HEALTHCHECK of a container.
    Healthcheck {
        /// Where the service listens, if it was started with --listen and admin.listen is not set, or off.
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<ListenAddress>,
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Print the API's OpenAPI document.
    Openapi,
    /// Print what a shell needs to complete these commands.
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or that of a command.
    Man {
        /// The command, such as `key create`.
        #[arg(value_name = "COMMAND")]
        words: Vec<String>,
    },
    /// Make, list and revoke the keys with which bots send their data.
    #[command(subcommand)]
    Key(key::Key),
    /// Tell visitors of the status page something; list, end and remove what they are told.
    ///
    /// What is posted is shown at once, and until it is removed; one that is over is shown as a part of the past.
    Announce(announce::Announce),
    /// Write the team from a file, or into one.
    #[command(subcommand)]
    Team(team::Team),
    /// Add feedback from a file.
    #[command(subcommand)]
    Feedback(feedback::FeedbackCommand),
    /// Block users, show what is stored of them, forget them.
    #[command(subcommand)]
    Users(users::Users),
    /// Show and change the keys that encrypt the provider's tokens.
    #[command(subcommand)]
    Secrets(secrets::Secrets),
    /// Say what happened: sign-ins, refusals, blocks, uses of bot keys, commands that changed something.
    Audit(audit::AuditCommand),
    /// Say what the store holds.
    Stats(stats::StatsCommand),
    /// Write everything into a file, while the service runs.
    ///
    /// The file holds all of one moment, is read again, and can be read by its owner only. It can be restored into SQLite and into
    /// PostgreSQL alike. The provider's tokens in it are encrypted; the key is not in it.
    Backup(backup::Backup),
    /// Restore a backup, while the service is stopped.
    ///
    /// The whole file is checked first; then all of it is restored or nothing. All sessions end, because one of the backup may have
    /// been ended since.
    Restore(backup::Restore),
    /// Move the data to another store, or vacuum its file.
    #[command(subcommand)]
    Store(store::StoreCommand),
}

#[derive(Clone, Debug, clap::Args)]
struct ConfigFile {
    /// The configuration file (TOML). Every setting can also come from the environment; see `bot-companion config`.
    #[arg(id = "config", long, value_name = "FILE", env = "COMPANION_CONFIG")]
    file: Option<PathBuf>,
}

impl ConfigFile {
    fn load(&self) -> anyhow::Result<Config> {
        log_lines::note_format(self.file.as_deref());
        Ok(Config::load(self.file.as_deref(), std::env::vars_os())?)
    }
}

pub fn run(cli: Cli, version: Version) -> anyhow::Result<()> {
    match cli.command {
        Command::Serve { config, listen, new_database } => serve::run(&config, listen, new_database, version),
        Command::Dev { listen, data, store, redirect_uri, no_limits, json } => {
            dev::run(&dev::DevOptions { listen, data, store, redirect_uris: redirect_uri, no_limits, json }, version)
        }
        Command::Init(init) => init::run(init),
        Command::Check { live, form, config } => check::run(live, form, &config),
        Command::Healthcheck { listen, config } => healthcheck::run(&config, listen.as_ref()),
        Command::Completions { shell } => documents::completions(shell),
        Command::Man { words } => documents::man(&words),
        Command::Config { effective, form, config } => settings::run(effective, form, &config),
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
        Command::Store(store) => store::run(store),
    }
}

/// What a command that has failed says: a line of the log, as `log.format` has it.
pub fn last_words(error: &anyhow::Error) -> String {
    log_lines::fatal(error)
}

/// Writes to standard output; a reader that has left is no error.
fn print(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// The runtime of the background work; the connections have their own.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Commands that change nothing and whose output has a form of its own, or that run until they are stopped.
    const WITHOUT_JSON: [&str; 6] = ["serve", "healthcheck", "openapi", "completions", "man", "team export"];

    /// Every command that does something by itself, with its words.
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
