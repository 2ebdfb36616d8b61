//! The methods of a store that only run shared work. In `sqlite` and `postgres` there are three macros, which run it in a
//! transaction or on a connection: `transact!`, `read!` for one statement, and `read_snapshot!` for several that see one state.

/// Implements [`crate::HistoryStore`].
macro_rules! history_store {
    ($store:ty) => {
        #[async_trait]
        impl $crate::HistoryStore for $store {
            async fn history(&self) -> Result<History> {
                read_snapshot!(self, (), |db, ()| history::load(db))
            }

            async fn record(
                &self,
                seen: Observation,
                minute: Option<Minute>,
                unchanged: Option<Time>,
                may_delete: bool,
            ) -> Result<Recorded> {
                let arguments = (seen, minute, unchanged, may_delete);
                transact!(self, Quick, arguments, |db, topics, (seen, minute, unchanged, may_delete)| {
                    history::record(db, topics, seen, minute.as_ref(), *unchanged, *may_delete)
                })
            }

            async fn announce(&self, notice: Notice, now: Time) -> Result<u64> {
                transact!(self, Quick, (notice, now), |db, topics, (notice, now)| {
                    announcements::announce(db, topics, notice, *now)
                })
            }

            async fn end_announcement(&self, id: u64, now: Time) -> Result<bool> {
                transact!(self, Quick, (id, now), |db, topics, (id, now)| announcements::end(db, topics, *id, *now))
            }

            async fn reschedule_announcement(&self, id: u64, window: MaintenanceWindow, now: Time) -> Result<bool> {
                transact!(self, Quick, (id, window, now), |db, topics, (id, window, now)| {
                    announcements::reschedule(db, topics, *id, *window, *now)
                })
            }

            async fn update_happening(&self, update: NewUpdate, now: Time) -> Result<UpdateOutcome> {
                transact!(self, Quick, (update, now), |db, topics, (update, now)| {
                    announcements::update(db, topics, update, *now)
                })
            }

            async fn replace_history(&self, history: History) -> Result<()> {
                transact!(self, Quick, history, |db, topics, history| history::replace(db, topics, history))
            }

            async fn remove_announcement(&self, id: u64) -> Result<bool> {
                transact!(self, Quick, id, |db, topics, id| announcements::remove(db, topics, *id))
            }
        }
    };
}
pub(crate) use history_store;
