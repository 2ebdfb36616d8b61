//! How the bot did: a bounded history in minutes and days, incidents, and what the operator announced. [`observation`] is how the
//! bot does at a moment, [`recording`] what is written of that, [`announcement`] what an operator may write.

pub mod announcement;
pub mod observation;
pub mod recording;

use super::Time;

pub use observation::{Observation, observe};

/// All that the status page shows of the past.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The minutes of the last 24 hours that are known, oldest first. One that is missing is unknown: no replica ran.
    pub minutes: Vec<Minute>,
    /// The days (UTC) of the last 90 of which something is known, oldest first.
    pub days: Vec<Day>,
    /// Incidents of the last 90 days, newest first.
    pub incidents: Vec<Incident>,
    /// Announcements, newest first.
    pub announcements: Vec<Announcement>,
}

/// How the bot did in one minute.
#[derive(Clone, Debug, PartialEq)]
pub struct Minute {
    pub begins: Time,
    pub state: BotState,
    /// Milliseconds, averaged over the shards that are up; `None` if that is not known.
    pub latency: Option<f64>,
}

/// How the bot does; what is worse is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BotState {
    /// Every shard reports.
    Up,
    /// Some shards report, some do not.
    Partial,
    /// Nothing has reported for 90 seconds.
    Down,
}

impl BotState {
    /// As it is stored and printed.
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

/// How many minutes of a day the bot did how; the rest of the day is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Day {
    /// When it began, in UTC.
    pub begins: Time,
    /// Minutes in which every shard reported.
    pub up: u32,
    /// Minutes in which some shards reported.
    pub partial: u32,
    /// Minutes in which nothing reported.
    pub down: u32,
}

/// A time in which the bot was not up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    pub id: u64,
    /// The worst that was seen: [`BotState::Partial`] or [`BotState::Down`].
    pub worst: BotState,
    pub began: Time,
    /// When it ended; `None` while it goes on.
    pub ended: Option<Time>,
    /// How many shards were affected at the worst.
    pub shards: u32,
    pub shard_count: u32,
}

/// What the operator tells visitors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    pub id: u64,
    /// One line.
    pub title: String,
    /// More, in lines; may be empty.
    pub text: String,
    pub posted: Time,
    /// When it was marked as over; `None` while it holds.
    pub ended: Option<Time>,
}
