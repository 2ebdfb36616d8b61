//! `bot-companion announce …`: announcements on the status page. A running service notices changes within a second.

use anyhow::ensure;
use clap::{Args, Subcommand};
use domain::Time;
use domain::audit::AuditKind;
use domain::history::Announcement;
use domain::history::announcement::Notice;
use serde_json::json;
use telemetry::untrusted::Untrusted;

use super::database::{self, Missing};
use super::exit::UsageError;
use super::output::OutputForm;
use super::{ConfigFile, print};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Announce {
    #[command(subcommand)]
    command: Option<AnnounceCommand>,
    /// What visitors should know, in one line of at most 200 characters.
    #[arg(required = true)]
    title: Option<String>,
    /// More details, at most 4,000 characters; may have several lines.
    #[arg(long, default_value = "", hide_default_value = true)]
    text: String,
    #[command(flatten)]
    form: OutputForm,
    #[command(flatten)]
    config: ConfigFile,
}

#[derive(Debug, Subcommand)]
enum AnnounceCommand {
    /// List the announcements, newest first.
    List {
        #[command(flatten)]
        form: OutputForm,
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Mark an announcement as over. It stays in the history.
    End {
        /// The announcement's number, from `announce list`.
        id: u64,
        #[command(flatten)]
        form: OutputForm,
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Remove an announcement, including from the history.
    Remove {
        /// The announcement's number, from `announce list`.
        id: u64,
        #[command(flatten)]
        form: OutputForm,
        #[command(flatten)]
        config: ConfigFile,
    },
}

pub(super) fn run(announce: Announce) -> anyhow::Result<()> {
    let Announce { command, title, text, form, config } = announce;
    let said = match command {
        None => {
            let title = title.unwrap_or_default();
            refuse_command_as_title(&title)?;
            post(&title, &text, form, &config)?
        }
        Some(AnnounceCommand::List { form, config }) => list(form, &config)?,
        Some(AnnounceCommand::End { id, form, config }) => {
            let (ended, at) = database::with(&config, Missing::Refuse, async |app| {
                let now = app.clock.now();
                let ended = app.store.end_announcement(id, now).await?;
                if ended {
                    app.audit.command(AuditKind::Command, &format!("announce end {id}"), None, None);
                }
                Ok((ended, now))
            })?;
            ensure!(ended, "there is no active announcement {id}; see `bot-companion announce list`");
            form.one(&json!({ "id": id, "ended": at.iso8601() }), || format!("Announcement {id} is over.\n"))
        }
        Some(AnnounceCommand::Remove { id, form, config }) => {
            let removed = database::with(&config, Missing::Refuse, async |app| {
                let removed = app.store.remove_announcement(id).await?;
                if removed {
                    app.audit.command(AuditKind::Command, &format!("announce remove {id}"), None, None);
                }
                Ok(removed)
            })?;
            ensure!(removed, "there is no announcement {id}; see `bot-companion announce list`");
            form.one(&json!({ "id": id, "removed": true }), || format!("Announcement {id} is removed.\n"))
        }
    };
    print(&said)
}

/// After an option, a command's name would be taken for a title and shown to visitors.
fn refuse_command_as_title(title: &str) -> Result<(), UsageError> {
    let is_command = AnnounceCommand::has_subcommand(title) || title == "help";
    if !is_command {
        return Ok(());
    }
    Err(UsageError(format!(
        "`{title}` is a command, so it can't be a title. Put options after it: `bot-companion announce {title} …`"
    )))
}

fn post(title: &str, text: &str, form: OutputForm, config: &ConfigFile) -> anyhow::Result<String> {
    let notice = Notice::new(title, text).map_err(UsageError)?;
    let (id, at) = database::with(config, Missing::Refuse, async |app| {
        let now = app.clock.now();
        let id = app.store.announce(notice, now).await?;
        app.audit.command(AuditKind::Command, &format!("announce {id}"), None, None);
        Ok((id, now))
    })?;
    Ok(form.one(&json!({ "id": id, "posted": at.iso8601() }), || {
        format!("Announcement {id} is posted. When it is over: bot-companion announce end {id}\n")
    }))
}

fn list(form: OutputForm, config: &ConfigFile) -> anyhow::Result<String> {
    let history = database::reading(config, async |reading| Ok(reading.store.history().await?))?;
    let value = |announcement: &Announcement| {
        json!({
            "id": announcement.id,
            "title": announcement.title,
            "text": announcement.text,
            "posted": announcement.posted.iso8601(),
            "ended": announcement.ended.map(Time::iso8601),
        })
    };
    let cells = |announcement: &Announcement| {
        let ended = announcement.ended.map_or_else(String::new, |at| format!("ended {}", at.iso8601()));
        let posted = format!("posted {}", announcement.posted.iso8601());
        vec![announcement.id.to_string(), posted, ended, Untrusted(&announcement.title).to_string()]
    };
    Ok(form.list(&history.announcements, "There are no announcements.", value, cells))
}
