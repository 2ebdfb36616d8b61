//! `bot-companion announce …`: announcements on the status page. A running service notices changes within a second.

use anyhow::{Context as _, bail, ensure};
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
use store::Store;
use telemetry::untrusted::Untrusted;

use super::database::{self, Missing};
use super::exit::UsageError;
use super::{CommandOptions, print};
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
    options: CommandOptions,
}

#[derive(Debug, Subcommand)]
enum AnnounceCommand {
    /// List the announcements, newest first.
    List(CommandOptions),
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
        options: CommandOptions,
    },
    /// Change the time of scheduled maintenance.
    Reschedule {
        /// The announcement's number, from `announce list`.
        id: u64,
        #[command(flatten)]
        times: NewTimes,
        #[command(flatten)]
        options: CommandOptions,
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
        options: CommandOptions,
    },
    /// List the incidents, newest first.
    Incidents(CommandOptions),
    /// Mark an announcement as over. It stays in the history.
    End {
        /// The announcement's number, from `announce list`.
        id: u64,
        #[command(flatten)]
        options: CommandOptions,
    },
    /// Remove an announcement, including from the history.
    Remove {
        /// The announcement's number, from `announce list`.
        id: u64,
        #[command(flatten)]
        options: CommandOptions,
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
    let Announce { command, title, text, options } = announce;
    let said = match command {
        None => {
            let title = title.unwrap_or_default();
            refuse_command_as_title(&title)?;
            post(&title, &text, None, &options)
        }
        Some(AnnounceCommand::List(options)) => list(&options),
        Some(AnnounceCommand::Incidents(options)) => list_incidents(&options),
        Some(AnnounceCommand::Maintenance { title, window, text, options }) => {
            post(&title, &text, Some(window), &options)
        }
        Some(AnnounceCommand::Reschedule { id, times, options }) => reschedule(id, times, &options),
        Some(AnnounceCommand::Update { subject, status, text, options }) => {
            update(NewUpdate::new(subject, status, &text).map_err(UsageError)?, &options)
        }
        Some(AnnounceCommand::End { id, options }) => change(&options, async |store, now| {
            let ended = store.end_announcement(id, now).await?;
            ensure!(ended, "there is no active announcement {id}; see `bot-companion announce list`");
            Ok(Changed {
                command: format!("announce end {id}"),
                value: json!({ "id": id, "ended": now.iso8601() }),
                text: format!("Announcement {id} is over.\n"),
            })
        }),
        Some(AnnounceCommand::Remove { id, options }) => change(&options, async |store, _| {
            let removed = store.remove_announcement(id).await?;
            ensure!(removed, "there is no announcement {id}; see `bot-companion announce list`");
            Ok(Changed {
                command: format!("announce remove {id}"),
                value: json!({ "id": id, "removed": true }),
                text: format!("Announcement {id} is removed.\n"),
            })
        }),
    };
    print(&said?)
}

/// What a command has changed.
struct Changed {
    /// For the audit.
    command: String,
    value: Value,
    text: String,
}

/// Changes the store, records that in the audit, and returns what to print.
fn change(
    options: &CommandOptions,
    work: impl AsyncFnOnce(&Store, Time) -> anyhow::Result<Changed>,
) -> anyhow::Result<String> {
    database::with(&options.config, Missing::Refuse, async |app| {
        let Changed { command, value, text } = work(&app.sources.store, app.sources.clock.now()).await?;
        app.sources.audit.command(AuditKind::Command, &command, None, None);
        Ok(options.form.one(&value, || text))
    })
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

fn post(title: &str, text: &str, window: Option<WindowOptions>, options: &CommandOptions) -> anyhow::Result<String> {
    let notice = Notice::new(title, text).map_err(UsageError)?;
    let (notice, command, end) = match window {
        Some(window) => (notice.during(window.checked()?), "announce maintenance", "To cancel it or end it early"),
        None => (notice, "announce", "When it is over"),
    };
    change(options, async |store, now| {
        let id = store.announce(notice, now).await?;
        Ok(Changed {
            command: format!("{command} {id}"),
            value: json!({ "id": id, "posted": now.iso8601() }),
            text: format!("Announcement {id} is posted. {end}: bot-companion announce end {id}\n"),
        })
    })
}

impl WindowOptions {
    fn checked(self) -> Result<MaintenanceWindow, UsageError> {
        MaintenanceWindow::new(self.begins, self.ends, Clock::system().now()).map_err(UsageError)
    }
}

fn reschedule(id: u64, times: NewTimes, options: &CommandOptions) -> anyhow::Result<String> {
    let none = || format!("there is no active maintenance {id}; see `bot-companion announce list`");
    change(options, async |store, now| {
        let history = store.history().await?;
        let known = history.announcements.iter().find(|announcement| announcement.id == id);
        let planned = known.and_then(|announcement| announcement.window).with_context(none)?;
        let window = times.both(planned).checked()?;
        ensure!(store.reschedule_announcement(id, window, now).await?, none());
        let (begins, ends) = (window.begins.iso8601(), window.ends.iso8601());
        Ok(Changed {
            command: format!("announce reschedule {id}"),
            value: json!({ "id": id, "begins": begins, "ends": ends }),
            text: format!("Maintenance {id} is now from {begins} to {ends}.\n"),
        })
    })
}

fn update(update: NewUpdate, options: &CommandOptions) -> anyhow::Result<String> {
    let (subject, status) = (update.subject, update.phase.name());
    change(options, async |store, now| match store.update_happening(update, now).await? {
        UpdateOutcome::Posted => Ok(Changed {
            command: format!("announce update {subject} {status}"),
            value: json!({ "subject": subject.to_string(), "status": status, "posted": now.iso8601() }),
            text: format!("The update to {subject} is posted.\n"),
        }),
        UpdateOutcome::NoSubject => {
            bail!("there is no {subject}; see `bot-companion announce list` and `bot-companion announce incidents`")
        }
        UpdateOutcome::TooMany => bail!("{subject} has {MOST_UPDATES} updates, which is the limit"),
        UpdateOutcome::NotOver => bail!(
            "{subject} isn't over: some shards aren't reporting. It ends by itself once they do; until then, post `monitoring`"
        ),
    })
}

fn list(CommandOptions { form, config }: &CommandOptions) -> anyhow::Result<String> {
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

fn list_incidents(CommandOptions { form, config }: &CommandOptions) -> anyhow::Result<String> {
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
