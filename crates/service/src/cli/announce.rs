//! `bot-companion announce …`: announcements on the status page. A running service notices changes within a second.

use anyhow::{bail, ensure};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use domain::Time;
use domain::audit::AuditKind;
use domain::history::announcement::{MaintenanceWindow, Notice};
use domain::history::update::{NewUpdate, Update, UpdateOutcome, UpdatePhase, UpdateSubject};
use domain::history::{Announcement, History, Incident};
use domain::retention::MOST_UPDATES;
use runtime::clock::Clock;
use serde_json::{Value, json};
use telemetry::untrusted::Untrusted;

use super::database::{self, Missing};
use super::exit::UsageError;
use super::output::OutputForm;
use super::{ConfigFile, print};
use crate::config::any_duration;

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
    /// Announce scheduled maintenance.
    Maintenance {
        /// What visitors should know, in one line of at most 200 characters.
        title: String,
        #[command(flatten)]
        window: WindowOptions,
        /// More details, at most 4,000 characters; may have several lines.
        #[arg(long, default_value = "", hide_default_value = true)]
        text: String,
        #[command(flatten)]
        form: OutputForm,
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Change the time of scheduled maintenance.
    Reschedule {
        /// The announcement's number, from `announce list`.
        id: u64,
        #[command(flatten)]
        times: NewTimes,
        #[command(flatten)]
        form: OutputForm,
        #[command(flatten)]
        config: ConfigFile,
    },
    /// Post an update to an incident or an announcement.
    Update {
        /// An announcement's number, like 3, or an incident's, like incident-3.
        subject: UpdateSubject,
        /// Where things stand. `resolved` ends an announcement; an incident ends by itself.
        #[arg(value_parser = phase())]
        status: UpdatePhase,
        /// What visitors should know, at most 1,000 characters; may have several lines.
        #[arg(long, default_value = "", hide_default_value = true)]
        text: String,
        #[command(flatten)]
        form: OutputForm,
        #[command(flatten)]
        config: ConfigFile,
    },
    /// List the incidents, newest first.
    Incidents {
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

#[derive(Clone, Copy, Debug, Args)]
struct WindowOptions {
    /// When it begins, in UTC or with an offset: 2026-11-20T20:00Z. Or from now: +2h.
    #[arg(long, value_name = "TIME", value_parser = time)]
    begins: Time,
    /// When it ends.
    #[arg(long, value_name = "TIME", value_parser = time)]
    ends: Time,
}

#[derive(Clone, Copy, Debug, Args)]
#[group(required = true, multiple = true)]
struct NewTimes {
    /// When it begins, in UTC or with an offset: 2026-11-20T20:00Z. Or from now: +2h. Alone, it stays as long as it was.
    #[arg(long, value_name = "TIME", value_parser = time)]
    begins: Option<Time>,
    /// When it ends. Alone, the beginning stays.
    #[arg(long, value_name = "TIME", value_parser = time)]
    ends: Option<Time>,
}

impl NewTimes {
    /// Both times of maintenance that was planned like this.
    fn both(self, planned: MaintenanceWindow) -> WindowOptions {
        let begins = self.begins.unwrap_or(planned.begins);
        WindowOptions { begins, ends: self.ends.unwrap_or_else(|| begins.after(planned.ends.since(planned.begins))) }
    }
}

fn time(text: &str) -> Result<Time, String> {
    let from_now = text.strip_prefix('+').and_then(|span| any_duration(span).ok());
    from_now.map(|span| Clock::system().now().after(span)).or_else(|| Time::from_iso8601(text)).ok_or_else(|| {
        "write a date, a time and a zone, like 2026-11-20T20:00Z, or a time from now, like +2h".to_owned()
    })
}

fn phase() -> impl TypedValueParser<Value = UpdatePhase> {
    PossibleValuesParser::new(UpdatePhase::ALL.map(UpdatePhase::name))
        .try_map(|name| UpdatePhase::parse(&name).ok_or("unknown"))
}

pub(super) fn run(announce: Announce) -> anyhow::Result<()> {
    let Announce { command, title, text, form, config } = announce;
    let said = match command {
        None => {
            let title = title.unwrap_or_default();
            refuse_command_as_title(&title)?;
            post(&title, &text, None, form, &config)?
        }
        Some(AnnounceCommand::List { form, config }) => list(form, &config)?,
        Some(AnnounceCommand::Incidents { form, config }) => list_incidents(form, &config)?,
        Some(AnnounceCommand::Maintenance { title, window, text, form, config }) => {
            post(&title, &text, Some(window), form, &config)?
        }
        Some(AnnounceCommand::Reschedule { id, times, form, config }) => reschedule(id, times, form, &config)?,
        Some(AnnounceCommand::Update { subject, status, text, form, config }) => {
            update(NewUpdate::new(subject, status, &text).map_err(UsageError)?, form, &config)?
        }
        Some(AnnounceCommand::End { id, form, config }) => {
            let (ended, at) = database::with(&config, Missing::Refuse, async |app| {
                let now = app.sources.clock.now();
                let ended = app.sources.store.end_announcement(id, now).await?;
                if ended {
                    app.sources.audit.command(AuditKind::Command, &format!("announce end {id}"), None, None);
                }
                Ok((ended, now))
            })?;
            ensure!(ended, "there is no active announcement {id}; see `bot-companion announce list`");
            form.one(&json!({ "id": id, "ended": at.iso8601() }), || format!("Announcement {id} is over.\n"))
        }
        Some(AnnounceCommand::Remove { id, form, config }) => {
            let removed = database::with(&config, Missing::Refuse, async |app| {
                let removed = app.sources.store.remove_announcement(id).await?;
                if removed {
                    app.sources.audit.command(AuditKind::Command, &format!("announce remove {id}"), None, None);
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

fn post(
    title: &str,
    text: &str,
    window: Option<WindowOptions>,
    form: OutputForm,
    config: &ConfigFile,
) -> anyhow::Result<String> {
    let notice = Notice::new(title, text).map_err(UsageError)?;
    let (notice, command) = match window {
        Some(window) => (notice.during(window.checked()?), "announce maintenance"),
        None => (notice, "announce"),
    };
    let (id, at) = database::with(config, Missing::Refuse, async |app| {
        let now = app.sources.clock.now();
        let id = app.sources.store.announce(notice, now).await?;
        app.sources.audit.command(AuditKind::Command, &format!("{command} {id}"), None, None);
        Ok((id, now))
    })?;
    Ok(form.one(&json!({ "id": id, "posted": at.iso8601() }), || {
        let end = if window.is_some() { "To cancel it or end it early" } else { "When it is over" };
        format!("Announcement {id} is posted. {end}: bot-companion announce end {id}\n")
    }))
}

impl WindowOptions {
    fn checked(self) -> Result<MaintenanceWindow, UsageError> {
        MaintenanceWindow::new(self.begins, self.ends, Clock::system().now()).map_err(UsageError)
    }
}

fn reschedule(id: u64, times: NewTimes, form: OutputForm, config: &ConfigFile) -> anyhow::Result<String> {
    let moved = database::with(config, Missing::Refuse, async |app| {
        let history = app.sources.store.history().await?;
        let known = history.announcements.iter().find(|announcement| announcement.id == id);
        let Some(planned) = known.and_then(|announcement| announcement.window) else { return Ok(None) };
        let window = times.both(planned).checked()?;
        let moved = app.sources.store.reschedule_announcement(id, window, app.sources.clock.now()).await?;
        if moved {
            app.sources.audit.command(AuditKind::Command, &format!("announce reschedule {id}"), None, None);
        }
        Ok(moved.then_some(window))
    })?;
    let Some(window) = moved else { bail!("there is no active maintenance {id}; see `bot-companion announce list`") };
    let (begins, ends) = (window.begins.iso8601(), window.ends.iso8601());
    Ok(form.one(&json!({ "id": id, "begins": begins, "ends": ends }), || {
        format!("Maintenance {id} is now from {begins} to {ends}.\n")
    }))
}

fn update(update: NewUpdate, form: OutputForm, config: &ConfigFile) -> anyhow::Result<String> {
    let (subject, status) = (update.subject, update.phase.name());
    let (outcome, at) = database::with(config, Missing::Refuse, async |app| {
        let now = app.sources.clock.now();
        let outcome = app.sources.store.update_happening(update, now).await?;
        if outcome == UpdateOutcome::Posted {
            app.sources.audit.command(AuditKind::Command, &format!("announce update {subject} {status}"), None, None);
        }
        Ok((outcome, now))
    })?;
    match outcome {
        UpdateOutcome::Posted => {}
        UpdateOutcome::NoSubject => {
            bail!("there is no {subject}; see `bot-companion announce list` and `bot-companion announce incidents`")
        }
        UpdateOutcome::TooMany => bail!("{subject} has {MOST_UPDATES} updates, which is the limit"),
        UpdateOutcome::NotOver => bail!(
            "{subject} isn't over: some shards aren't reporting. It ends by itself once they do; until then, post `monitoring`"
        ),
    }
    Ok(form.one(&json!({ "subject": subject.to_string(), "status": status, "posted": at.iso8601() }), || {
        format!("The update to {subject} is posted.\n")
    }))
}

fn list(form: OutputForm, config: &ConfigFile) -> anyhow::Result<String> {
    let (history, now) =
        database::reading(config, async |reading| Ok((reading.store.history().await?, reading.clock.now())))?;
    let value = |announcement: &Announcement| {
        json!({
            "id": announcement.id,
            "title": announcement.title,
            "text": announcement.text,
            "posted": announcement.posted.iso8601(),
            "ended": announcement.over_since(now).map(Time::iso8601),
            "begins": announcement.window.map(|window| window.begins.iso8601()),
            "ends": announcement.window.map(|window| window.ends.iso8601()),
            "updates": updates(&history, UpdateSubject::Announcement(announcement.id)),
        })
    };
    let cells = |announcement: &Announcement| {
        let ended = match (announcement.over_since(now), announcement.window) {
            (Some(at), _) => format!("ended {}", at.iso8601()),
            (None, Some(window)) => format!("from {} to {}", window.begins.iso8601(), window.ends.iso8601()),
            (None, None) => String::new(),
        };
        let posted = format!("posted {}", announcement.posted.iso8601());
        vec![announcement.id.to_string(), posted, ended, Untrusted(&announcement.title).to_string()]
    };
    Ok(form.list(&history.announcements, "There are no announcements.", value, cells))
}

fn list_incidents(form: OutputForm, config: &ConfigFile) -> anyhow::Result<String> {
    let history = database::reading(config, async |reading| Ok(reading.store.history().await?))?;
    let value = |incident: &Incident| {
        json!({
            "id": incident.id,
            "worst": incident.worst.name(),
            "began": incident.began.iso8601(),
            "ended": incident.ended.map(Time::iso8601),
            "shards": incident.shards,
            "shard_count": incident.shard_count,
            "updates": updates(&history, UpdateSubject::Incident(incident.id)),
        })
    };
    let cells = |incident: &Incident| {
        let ended = incident.ended.map_or_else(|| "ongoing".to_owned(), |at| format!("ended {}", at.iso8601()));
        let shards = format!("{} of {} shards", incident.shards, incident.shard_count);
        let name = UpdateSubject::Incident(incident.id).to_string();
        vec![name, format!("began {}", incident.began.iso8601()), ended, incident.worst.name().to_owned(), shards]
    };
    Ok(form.list(&history.incidents, "There are no incidents.", value, cells))
}

fn updates(history: &History, subject: UpdateSubject) -> Vec<Value> {
    let value = |update: &Update| json!({ "status": update.phase.name(), "text": update.text, "posted": update.posted.iso8601() });
    history.updates_of(subject).map(value).collect()
}
