//! The bot's history in a store.

use domain::Time;
use domain::history::announcement::{MaintenanceWindow, Notice};
use domain::history::incident::IncidentStep;
use domain::history::update::{NewUpdate, UpdateOutcome};
use domain::history::{History, Minute, Observation};

use super::postgres::Pace::Quick;
use super::sql::{announcements, history};
use super::store::{read, transact};
use super::{Result, Store};

impl Store {
    pub async fn history(&self) -> Result<History> {
        read!(self, Snapshot, (), |db| history::load(db))
    }

    /// Records the bot's health: the minute, if one is due and not yet recorded, its day, and what it means for the open
    /// incident. Also deletes what is too old, if the caller's clock can be trusted with that (`may_delete`). `unchanged` is
    /// the newest minute if the caller has seen it stay the same for a while; without it, a caller whose clock is far from the
    /// newest minute is refused (`domain/history/recording.rs`).
    pub async fn record(
        &self,
        seen: Observation,
        minute: Option<Minute>,
        unchanged: Option<Time>,
        may_delete: bool,
    ) -> Result<Recorded> {
        transact!(self, Quick, (seen, minute, unchanged, may_delete), |db, topics| {
            history::record(db, topics, seen, minute.as_ref(), *unchanged, *may_delete)
        })
    }

    /// Posts an announcement and returns its number. If that makes too many, the oldest are removed.
    pub async fn announce(&self, notice: Notice, now: Time) -> Result<u64> {
        transact!(self, Quick, (notice, now), |db, topics| announcements::announce(db, topics, notice, *now))
    }

    /// Marks an announcement as over; `false` if there is no active one with this number.
    pub async fn end_announcement(&self, id: u64, now: Time) -> Result<bool> {
        transact!(self, Quick, (id, now), |db, topics| announcements::end(db, topics, *id, *now))
    }

    /// Reschedules maintenance; `false` if there is none with this number, or it is marked as over.
    pub async fn reschedule_announcement(&self, id: u64, window: MaintenanceWindow, now: Time) -> Result<bool> {
        transact!(self, Quick, (id, window, now), |db, topics| {
            announcements::reschedule(db, topics, *id, *window, *now)
        })
    }

    /// Posts an update to an incident or an announcement. `Resolved` also marks an announcement as over.
    pub async fn update_happening(&self, update: NewUpdate, now: Time) -> Result<UpdateOutcome> {
        transact!(self, Quick, (update, now), |db, topics| announcements::update(db, topics, update, *now))
    }

    /// Replaces the whole history. The demo bot uses this.
    pub async fn replace_history(&self, history: History) -> Result<()> {
        transact!(self, Quick, (history), |db, topics| history::replace(db, topics, history))
    }

    /// Removes an announcement and its updates; `false` if there is none with this number.
    pub async fn remove_announcement(&self, id: u64) -> Result<bool> {
        transact!(self, Quick, (id), |db, topics| announcements::remove(db, topics, *id))
    }
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
