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

/// Implements [`crate::Upkeep`].
macro_rules! upkeep_store {
    ($store:ty) => {
        #[async_trait]
        impl $crate::Upkeep for $store {
            async fn grants_by_key(&self) -> Result<Vec<(String, u64)>> {
                read!(self, (), |db, ()| upkeep::grants_by_key(db))
            }

            async fn sealed_grants(
                &self,
                kind: GrantKind,
                after: Option<Snowflake>,
                batch: usize,
            ) -> Result<Vec<HeldGrant>> {
                read!(self, (kind, after, batch), |db, (kind, after, batch)| {
                    upkeep::sealed_grants(db, *kind, *after, *batch)
                })
            }

            async fn replace_sealed(&self, kind: GrantKind, resealed: Vec<Resealed>) -> Result<usize> {
                transact!(self, Long, (kind, resealed), |db, _topics, (kind, resealed)| {
                    upkeep::replace_sealed(db, *kind, resealed)
                })
            }

            async fn holdings(&self) -> Result<Holdings> {
                read!(self, (), |db, ()| upkeep::holdings(db))
            }

            async fn traces(&self, user: Snowflake) -> Result<PersonTraces> {
                read!(self, user, |db, user| forget::traces(db, *user))
            }

            async fn forget(&self, user: Snowflake, now: Time) -> Result<Erased> {
                transact!(self, Feed, (user, now), |db, topics, (user, now)| forget::forget(db, topics, *user, *now))
            }

            async fn write_audit(&self, entries: Vec<AuditEntry>, bounds: Option<AuditBounds>) -> Result<()> {
                transact!(self, Long, (entries, bounds), |db, _topics, (entries, bounds)| {
                    audit::write(db, entries, *bounds)
                })
            }

            async fn audit(&self, filter: AuditFilter) -> Result<Vec<AuditEntry>> {
                read!(self, filter, |db, filter| audit::read(db, filter))
            }
        }
    };
}
pub(crate) use upkeep_store;

/// Implements [`crate::Store`], with the methods given for work that is not shared.
macro_rules! store {
    ($store:ty { $($apart:tt)* }) => {
        #[async_trait]
        impl $crate::Store for $store {
            $($apart)*

            async fn person(&self, user: Snowflake, guilds: Vec<Snowflake>) -> Result<PersonFacts> {
                read_snapshot!(self, (user, guilds), |db, (user, guilds)| guilds::person(db, *user, guilds))
            }

            async fn without_bot(&self, guilds: Vec<Snowflake>) -> Result<Vec<Snowflake>> {
                read!(self, guilds, |db, guilds| guilds::without_bot(db, guilds))
            }

            async fn sample_feedback(&self, seed: u64) -> Result<Sample> {
                read!(self, seed, |db, seed| feedback::sample(db, *seed))
            }

            async fn feedback_before(&self, slot: u64) -> Result<Sample> {
                read!(self, slot, |db, slot| feedback::before(db, *slot))
            }

            async fn apply(&self, changes: Vec<Change>) -> Result<()> {
                transact!(self, Feed, changes, |db, topics, changes| changes::apply(db, topics, changes))
            }

            async fn feed(
                &self,
                instance: InstanceId,
                first: u64,
                events: Vec<Event>,
                now: Time,
            ) -> Result<BatchOutcome> {
                transact!(self, Feed, (instance, first, events, now), |db, topics, (instance, first, events, now)| {
                    feed::feed(db, topics, instance, *first, events, *now)
                })
            }

            async fn claim_code(&self, code: CodeHash, now: Time, until: Time) -> Result<Claim> {
                transact!(self, Quick, (code, now, until), |db, _topics, (code, now, until)| {
                    sign_in::claim(db, *code, *now, *until)
                })
            }

            async fn settle_code(&self, code: CodeHash, user: Option<User>, until: Time) -> Result<()> {
                transact!(self, Quick, (code, user, until), |db, _topics, (code, user, until)| {
                    sign_in::settle(db, *code, user.as_ref(), *until)
                })
            }

            async fn release_code(&self, code: CodeHash) -> Result<()> {
                transact!(self, Quick, code, |db, _topics, code| sign_in::release(db, *code))
            }

            async fn save_grant(
                &self,
                user: User,
                grant: SealedGrant,
                now: Time,
                verified: Option<u32>,
            ) -> Result<GrantSaved> {
                transact!(self, Quick, (user, grant, now, verified), |db, topics, (user, grant, now, verified)| {
                    sign_in::save_grant(db, topics, user, grant, *now, *verified)
                })
            }

            async fn open_session(
                &self,
                user: User,
                token: TokenHash,
                session: Session,
                most: usize,
            ) -> Result<Admission> {
                transact!(self, Quick, (user, token, session, most), |db, topics, (user, token, session, most)| {
                    sign_in::open_session(db, topics, user, *token, session, *most)
                })
            }

            async fn session(&self, token: TokenHash) -> Result<Option<Session>> {
                read!(self, token, |db, token| sessions::session(db, *token))
            }

            async fn sessions_of(&self, user: Snowflake) -> Result<Vec<Session>> {
                read!(self, user, |db, user| sessions::sessions_of(db, *user))
            }

            async fn sessions_among(&self, sessions: Vec<SessionId>) -> Result<HashSet<SessionId>> {
                read!(self, sessions, |db, sessions| sessions::among(db, sessions))
            }

            async fn end_session(&self, user: Snowflake, session: SessionId, now: Time) -> Result<bool> {
                transact!(self, Quick, (user, session, now), |db, topics, (user, session, now)| {
                    sessions::end_one(db, topics, *user, session, *now)
                })
            }

            async fn end_sessions(&self, user: Snowflake, now: Time) -> Result<usize> {
                transact!(self, Quick, (user, now), |db, topics, (user, now)| {
                    sessions::end_all(db, topics, *user, *now)
                })
            }

            async fn end_sessions_of_grant(&self, user: Snowflake, grant_version: u64) -> Result<bool> {
                transact!(self, Quick, (user, grant_version), |db, topics, (user, grant_version)| {
                    sessions::end_all_of_grant(db, topics, *user, *grant_version)
                })
            }

            async fn note_seen(&self, seen: Vec<(SessionId, Time)>) -> Result<()> {
                transact!(self, Quick, seen, |db, _topics, seen| sessions::note_seen(db, seen))
            }

            async fn sweep(
                &self,
                now: Time,
                last_seen_before: Time,
                created_before: Time,
                batch: usize,
            ) -> Result<Swept> {
                let arguments = (now, last_seen_before, created_before, batch);
                transact!(self, Long, arguments, |db, topics, (now, last_seen_before, created_before, batch)| {
                    sessions::sweep(db, topics, *now, *last_seen_before, *created_before, *batch)
                })
            }

            async fn take_revocation(&self, now: Time, until: Time) -> Result<Option<Revocation>> {
                transact!(self, Quick, (now, until), |db, _topics, (now, until)| revocations::take(db, *now, *until))
            }

            async fn finish_revocation(&self, user: Snowflake, until: Time, end: RevocationEnd) -> Result<()> {
                transact!(self, Quick, (user, until, end), |db, _topics, (user, until, end)| {
                    revocations::finish(db, *user, *until, *end)
                })
            }

            async fn account(&self, user: Snowflake) -> Result<Option<Account>> {
                read!(self, user, |db, user| accounts::account(db, *user))
            }

            async fn lease_grant(&self, user: Snowflake, grant_version: u64, now: Time, until: Time) -> Result<Lease> {
                let arguments = (user, grant_version, now, until);
                transact!(self, Quick, arguments, |db, _topics, (user, grant_version, now, until)| {
                    accounts::lease_grant(db, *user, *grant_version, *now, *until)
                })
            }

            async fn replace_grant(
                &self,
                user: Snowflake,
                grant_version: u64,
                grant: SealedGrant,
            ) -> Result<Option<u64>> {
                transact!(self, Quick, (user, grant_version, grant), |db, _topics, (user, grant_version, grant)| {
                    accounts::replace_grant(db, *user, *grant_version, grant)
                })
            }

            async fn save_list(&self, user: Snowflake, list_version: u64, list: StoredList) -> Result<bool> {
                transact!(self, Quick, (user, list_version, list), |db, topics, (user, list_version, list)| {
                    accounts::save_list(db, topics, *user, *list_version, list)
                })
            }

            async fn block(&self, blocked: BlockedUser) -> Result<usize> {
                transact!(self, Quick, blocked, |db, topics, blocked| sessions::block(db, topics, blocked))
            }

            async fn unblock(&self, user: Snowflake) -> Result<bool> {
                transact!(self, Quick, user, |db, _topics, user| sign_in::unblock(db, *user))
            }

            async fn blocked(&self) -> Result<Vec<BlockedUser>> {
                read!(self, (), |db, ()| sign_in::blocked(db))
            }

            async fn team(&self) -> Result<Roster> {
                read!(self, (), |db, ()| team::roster(db))
            }

            async fn health(&self) -> Result<Health> {
                read_snapshot!(self, (), |db, ()| health::load(db))
            }

            async fn stats(&self) -> Result<Stats> {
                read!(self, (), |db, ()| totals::stats(db))
            }

            async fn feed_state(&self) -> Result<FeedState> {
                read_snapshot!(self, (), |db, ()| feed_state::load(db))
            }

            async fn record_heartbeat(&self, heartbeat: Heartbeat, now: Time) -> Result<()> {
                transact!(self, Quick, (heartbeat, now), |db, topics, (heartbeat, now)| {
                    health::record_heartbeat(db, topics, heartbeat, *now)
                })
            }

            async fn add_key(&self, key: BotKey, hash: TokenHash) -> Result<()> {
                transact!(self, Quick, (key, hash), |db, topics, (key, hash)| keys::add(db, topics, key, *hash))
            }

            async fn key(&self, hash: TokenHash) -> Result<Option<BotKey>> {
                read!(self, hash, |db, hash| keys::by_hash(db, *hash))
            }

            async fn keys(&self) -> Result<Vec<BotKey>> {
                read!(self, (), |db, ()| keys::all(db))
            }

            async fn good_keys(&self) -> Result<Vec<TokenHash>> {
                read!(self, (), |db, ()| keys::good(db))
            }

            async fn revoke_key(&self, id: String, now: Time) -> Result<bool> {
                transact!(self, Quick, (id, now), |db, topics, (id, now)| keys::revoke(db, topics, id, *now))
            }
        }
    };
}
pub(crate) use store;
