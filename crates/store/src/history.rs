//! The bot's history as a store keeps it.

use async_trait::async_trait;
use domain::Time;
use domain::history::announcement::Notice;
use domain::history::recording::IncidentStep;
use domain::history::{History, Minute, Observation};

use super::Result;

/// The part of a store that is the bot's history. Its methods can be called on every [`super::Store`].
#[async_trait]
pub trait HistoryStore: Send + Sync + 'static {
    async fn history(&self) -> Result<History>;
    /// Records how the bot does: the minute, if one is due and nobody has recorded it yet, its day with it, and what that means for the
    /// open incident; and deletes what is too old, if the caller's clock can be trusted with that (`may_delete`). `unchanged` is the
    /// newest minute if the caller has seen it stay the same for a while; without it, a caller whose clock is far from the newest minute
    /// is refused (`domain/history/recording.rs`).
    async fn record(
        &self,
        seen: Observation,
        minute: Option<Minute>,
        unchanged: Option<Time>,
        may_delete: bool,
    ) -> Result<Recorded>;
    /// Posts an announcement; gives its number. If there are too many then, the oldest go.
    async fn announce(&self, notice: Notice, now: Time) -> Result<u64>;
    /// Marks an announcement as over; `false` if there is none with this number that holds.
    async fn end_announcement(&self, id: u64, now: Time) -> Result<bool>;
    /// Removes an announcement; `false` if there is none with this number.
    async fn remove_announcement(&self, id: u64) -> Result<bool>;
}

/// What became of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Whether it was accepted: the clock by which it was made is not far from those of others.
    pub is_accepted: bool,
    /// The newest minute that is recorded now, by whomever.
    pub newest: Option<Time>,
    /// What it meant for the open incident.
    pub incident: IncidentStep,
}

impl Recorded {
    pub(super) fn refused(newest: Option<Time>) -> Self {
        Self { is_accepted: false, newest, incident: IncidentStep::Stays }
    }
}
