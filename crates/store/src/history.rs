//! The bot's history in a store.

use async_trait::async_trait;
use domain::Time;
use domain::history::announcement::{MaintenanceWindow, Notice};
use domain::history::incident::IncidentStep;
use domain::history::update::{NewUpdate, UpdateOutcome};
use domain::history::{History, Minute, Observation};

use super::Result;

/// The part of a store for the bot's history. Its methods can be called on every [`super::Store`].
#[async_trait]
pub trait HistoryStore: Send + Sync + 'static {
    async fn history(&self) -> Result<History>;
    /// Records the bot's health: the minute, if one is due and not yet recorded, its day, and what it means for the open
    /// incident. Also deletes what is too old, if the caller's clock can be trusted with that (`may_delete`). `unchanged` is
    /// the newest minute if the caller has seen it stay the same for a while; without it, a caller whose clock is far from the
    /// newest minute is refused (`domain/history/recording.rs`).
    async fn record(
        &self,
        seen: Observation,
        minute: Option<Minute>,
        unchanged: Option<Time>,
        may_delete: bool,
    ) -> Result<Recorded>;
    /// Posts an announcement and returns its number. If that makes too many, the oldest are removed.
    async fn announce(&self, notice: Notice, now: Time) -> Result<u64>;
    /// Marks an announcement as over; `false` if there is no active one with this number.
    async fn end_announcement(&self, id: u64, now: Time) -> Result<bool>;
    /// Reschedules maintenance; `false` if there is none with this number, or it is marked as over.
    async fn reschedule_announcement(&self, id: u64, window: MaintenanceWindow, now: Time) -> Result<bool>;
    /// Posts an update to an incident or an announcement. `Resolved` also marks an announcement as over.
    async fn update_happening(&self, update: NewUpdate, now: Time) -> Result<UpdateOutcome>;
    /// Replaces the whole history. The demo bot uses this.
    async fn replace_history(&self, history: History) -> Result<()>;
    /// Removes an announcement and its updates; `false` if there is none with this number.
    async fn remove_announcement(&self, id: u64) -> Result<bool>;
}

/// The result of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Whether it was accepted, because its clock is not far from the others'.
    pub is_accepted: bool,
    /// The newest recorded minute, whoever recorded it.
    pub newest: Option<Time>,
    pub incident: IncidentStep,
}

impl Recorded {
    pub(super) fn refused(newest: Option<Time>) -> Self {
        Self { is_accepted: false, newest, incident: IncidentStep::Stays }
    }
}
