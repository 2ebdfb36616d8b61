//! The bot's history: minutes and days up to a limit, incidents, and the operator's announcements. [`observation`] is the bot's
//! state at a moment, [`recording`] what is written about it, [`uptime`] how long it has been up, [`announcement`] and [`update`] what
//! an operator may write.

pub mod announcement;
pub mod incident;
pub mod observation;
pub mod recording;
pub mod update;
pub mod uptime;

use super::Time;
use announcement::MaintenanceWindow;
use update::{Update, UpdateSubject};

pub use incident::Incident;
pub use observation::{Observation, observe};

/// Everything that the status page shows about the past.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The known minutes of the last 24 hours, oldest first. A missing one is unknown, because no replica ran.
    pub minutes: Vec<Minute>,
    /// The days (UTC) of the last 90 with any data, oldest first.
    pub days: Vec<Day>,
    /// Incidents of the last 90 days, newest first.
    pub incidents: Vec<Incident>,
    /// Announcements, newest first.
    pub announcements: Vec<Announcement>,
    /// Updates to these incidents and announcements, oldest first.
    pub updates: Vec<Update>,
}

impl History {
    /// The updates to an incident or an announcement, oldest first.
    pub fn updates_of(&self, subject: UpdateSubject) -> impl DoubleEndedIterator<Item = &Update> {
        self.updates.iter().filter(move |update| update.subject == subject)
    }
}

/// The bot's state in one minute.
#[derive(Clone, Debug, PartialEq)]
pub struct Minute {
    pub begins: Time,
    pub state: BotState,
    /// Milliseconds, averaged over the shards that are up; `None` if unknown.
    pub latency: Option<f64>,
}

/// The bot's state, ordered by severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BotState {
    /// All shards report.
    Up,
    /// Some shards report, some don't.
    Partial,
    /// Nothing has reported for 90 seconds.
    Down,
}

impl BotState {
    /// The name that is stored and printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Partial => "partial",
            Self::Down => "down",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        [Self::Up, Self::Partial, Self::Down].into_iter().find(|state| state.name() == name)
    }
}

/// The number of minutes in each state on a day; the rest of the day is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Day {
    /// Midnight in UTC.
    pub begins: Time,
    /// Minutes in which every shard reported.
    pub up: u32,
    /// Minutes in which some shards reported.
    pub partial: u32,
    /// Minutes in which nothing reported.
    pub down: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    pub id: u64,
    /// One line.
    pub title: String,
    /// More details, possibly in several lines; may be empty.
    pub text: String,
    pub posted: Time,
    /// When it was marked as over; `None` while it is active.
    pub ended: Option<Time>,
    /// When it happens, if it is maintenance.
    pub window: Option<MaintenanceWindow>,
    /// When the window was last changed.
    pub rescheduled: Option<Time>,
}
