//! The same history on every store: each answer, each topic that a step invalidates, and finally everything that can be read.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use domain::RevocationEnd;
use domain::feed::Lines;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tokio_postgres::Client;

use super::history::{CODES, DEVICES, KEYS, PLACES, SESSIONS, Step, USERS, VersionOf, fitting, history, sender};
use super::*;
use crate::freshness::slot;
use crate::{BlockedUser, BotKey, Freshness, Result, Revocation, SnapshotId, StoreError, Topic};

const CASES: u32 = 48;

type Checked = std::result::Result<(), TestCaseError>;

/// A store under test, with the meaning of the numbers it returned, which are its own.
struct Subject {
    fixture: Fixture,
    now: Time,
    versions: HashMap<u64, (u64, u64)>,
    staged: Vec<(SnapshotId, Scope)>,
    revocations: Vec<Revocation>,
}

/// The result of a step: its answer in words, and what it invalidated.
#[derive(Debug, PartialEq)]
struct StepOutcome(String, Vec<Topic>);

impl Subject {
    fn of(fixture: Fixture) -> Self {
        Self { fixture, now: NOW, versions: HashMap::new(), staged: Vec::new(), revocations: Vec::new() }
    }

    /// Starts over: empties every table of the server except for what a new database has.
    async fn empty(&mut self) {
        let names = "SELECT 0::bigint, string_agg(quote_ident(table_name), ', ') FROM information_schema.tables
            WHERE table_schema = 'public' AND table_name <> 'schema_version'";
        let tables = &self.fixture.select(names).await[0].1;
        let first =
            "INSERT INTO feed_shards (shard_count, shard_id, snapshot, committed, instance, snapshot_at, guilds)
            VALUES (0, 0, 0, 0, '', 0, 0);
            INSERT INTO totals (id, feedback, ratings, hidden_guilds, hidden_members) VALUES (0, 0, 0, 0, 0)";
        self.fixture.sql(&format!("TRUNCATE {tables}; {first}")).await;
        admit(&self.fixture.store).await;
        self.now = NOW;
        self.versions.clear();
        self.staged.clear();
        self.revocations.clear();
    }

    /// Takes a step, and returns the result.
    async fn take(&mut self, step: Step) -> StepOutcome {
        let replica = self.fixture.replica.clone();
        let mut topics = topics();
        // Stores may differ in how far one call gets, and in when the totals are exact again.
        if matches!(step, Step::CleanUp(_)) {
            topics.retain(|topic| *topic != Topic::Stats);
        }
        let (answer, stale) = replica.invalidated(&topics, self.answer(step)).await;
        StepOutcome(answer, stale)
    }

    #[expect(clippy::too_many_lines, reason = "one line or a few for each thing that a store can be asked to do")]
    async fn answer(&mut self, step: Step) -> String {
        let (store, now) = (Arc::clone(&self.fixture.store), self.now);
        let until = now.after(Duration::from_mins(1));
        match step {
            Step::Pass(seconds) => {
                self.now = now.after(Duration::from_secs(seconds));
                String::new()
            }
            Step::Claim(number) => said(store.claim_code(code(number), now, until).await),
            Step::Settle(number, user) => said(store.settle_code(code(number), user.map(person), until).await),
            Step::Release(number) => said(store.release_code(code(number)).await),
            Step::SaveGrant(user, number, verified) => {
                said(store.save_grant(person(user), grant(number), now, verified).await)
            }
            Step::OpenSession(user, device) => {
                let new = Session { created: now, last_seen: now, ..session(user, device) };
                said(store.open_session(person(user), token(device), new, SESSIONS).await)
            }
            Step::EndSession(user, device) => said(store.end_session(id(user), session_id(device), now).await),
            Step::EndSessions(user) => said(store.end_sessions(id(user), now).await),
            Step::TakeRevocation => {
                let taken = store.take_revocation(now, now.after(Duration::from_secs(20))).await;
                self.revocations.extend(taken.clone().unwrap());
                said(taken)
            }
            Step::FinishRevocation(which, end) => {
                // It stays in the list; later steps find that it is over.
                let Some(Revocation { user, until, .. }) =
                    (!self.revocations.is_empty()).then(|| which.get(&self.revocations).clone())
                else {
                    return String::new();
                };
                let end = match end {
                    0 => RevocationEnd::over(now),
                    7 => RevocationEnd::unsent(now, None),
                    tries => RevocationEnd::failed(now, tries, None),
                };
                said(store.finish_revocation(user, until, end).await)
            }
            Step::EndSessionsOfGrant(user, version) => {
                let (version, _) = self.version(user, version).await;
                said(store.end_sessions_of_grant(id(user), version).await)
            }
            Step::NoteSeen(devices) => {
                let seen = (0..)
                    .zip(devices)
                    .map(|(later, device)| (session_id(device), now.after(Duration::from_secs(later))));
                said(store.note_seen(seen.collect()).await)
            }
            Step::Sweep(last_seen, created) => {
                let ago = |seconds| now.before(Duration::from_secs(seconds));
                said(store.sweep(now, ago(last_seen), ago(created), 1000).await)
            }
            Step::NoteVersions(user) => {
                let versions = self.version(user, VersionOf::Current).await;
                self.versions.insert(user, versions);
                String::new()
            }
            Step::ReplaceGrant(user, number, version) => {
                let (version, _) = self.version(user, version).await;
                let replaced = store.replace_grant(id(user), version, grant(number)).await;
                said(replaced.map(|new| new.map(|new| new > version)))
            }
            Step::SaveList(user, places, version) => {
                let (grant, version) = self.version(user, version).await;
                let mut given = list(&places.iter().map(|place| place << 22).collect::<Vec<_>>());
                given.fetched = now;
                let saved = store.save_list(id(user), version, given).await;
                if matches!(saved, Ok(true)) {
                    // Stores may differ in whether a saved list outdates others that are on their way.
                    let (_, list) = self.version(user, VersionOf::Current).await;
                    self.versions.insert(user, (grant, list));
                }
                said(saved)
            }
            Step::Block(user) => {
                let blocked = BlockedUser { user: id(user), reason: format!("since {now:?}"), since: now };
                said(store.block(blocked).await)
            }
            Step::Unblock(user) => said(store.unblock(id(user)).await),
            Step::Apply(changes) => said(store.apply(changes).await),
            Step::Feed(by, at, events) => {
                let first = (self.next(by).await + at).saturating_sub(2).max(1);
                said(store.feed(sender(by), first, events, now).await)
            }
            Step::Begin(by, of, at) => {
                let scope = of.map_or(Scope::Subscriptions, |(count, number)| shard(number, count));
                let at = (self.next(by).await + at).saturating_sub(1).max(1);
                let begun = store.begin_snapshot(scope, sender(by), at, now).await;
                self.staged.extend(begun.as_ref().ok().map(|snapshot| (*snapshot, scope)));
                said(begun.map(drop))
            }
            Step::StageGuilds(which, lines) => {
                let Some((snapshot, scope)) = self.pick(which) else { return String::new() };
                said(store.stage(snapshot, fitting(scope, lines)).await)
            }
            Step::StageSubscriptions(which, lines) => match self.pick(which) {
                Some((snapshot, Scope::Subscriptions)) => {
                    said(store.stage(snapshot, Lines::Subscriptions(lines)).await)
                }
                _ => String::new(),
            },
            Step::Commit(which) => {
                // It stays in the list; later steps find that it is no longer staged.
                let Some((snapshot, _)) = self.pick(which) else { return String::new() };
                said(store.commit_snapshot(snapshot, None, now).await)
            }
            Step::Abandon(which) => {
                let Some((snapshot, _)) = self.pick(which) else { return String::new() };
                said(store.abandon_snapshot(snapshot).await)
            }
            // Stores may differ in how far one call gets.
            Step::CleanUp(batch) => said(store.clean_up(batch).await.map(drop)),
            Step::Restart => {
                self.staged.clear();
                self.fixture.reopen().await;
                String::new()
            }
            Step::AddKey(number) => {
                let label = format!("made {now:?}");
                let key = BotKey { id: format!("key{number}"), label, created: now, revoked: None };
                said(store.add_key(key, token(number)).await)
            }
            Step::RevokeKey(number) => said(store.revoke_key(format!("key{number}"), now).await),
            Step::Heartbeat(heartbeat) => said(store.record_heartbeat(heartbeat, now).await),
        }
    }

    /// The versions of a user's grant and list; 0 if there is none.
    async fn version(&self, user: u64, version: VersionOf) -> (u64, u64) {
        match version {
            VersionOf::Noted => self.versions.get(&user).copied().unwrap_or_default(),
            VersionOf::Current => {
                let account = self.fixture.store.account(id(user)).await.unwrap();
                account.map_or((0, 0), |account| (account.grant_version, account.list_version))
            }
        }
    }

    async fn next(&self, by: usize) -> u64 {
        let instances = self.fixture.store.feed_state().await.unwrap().instances;
        instances.iter().find(|it| it.instance == sender(by)).map_or(1, |it| it.next)
    }

    fn pick(&self, which: prop::sample::Index) -> Option<(SnapshotId, Scope)> {
        (!self.staged.is_empty()).then(|| *which.get(&self.staged))
    }

    /// Everything that can be read, one line each.
    async fn observed(&self) -> Vec<String> {
        let store = &self.fixture.store;
        let mut seen = Vec::new();
        let mut see = |what: String| seen.push(what);
        for number in 0..DEVICES {
            see(format!("session {number}: {}", said(store.session(token(number)).await)));
        }
        let places: Vec<Snowflake> = (1..=PLACES + 2).rev().chain([3, 5]).map(placed).collect();
        for user in 1..=USERS {
            see(format!("sessions of {user}: {}", said(store.sessions_of(id(user)).await)));
            let person = store.person(id(user), places.clone()).await.unwrap();
            see(format!("person {user}: {:?} {:?}", person.team, person.subscription));
            for guild in person.guilds {
                see(format!("{user} in {guild:?}"));
            }
        }
        for account in self.accounts().await {
            see(account);
        }
        for seed in 0..3 {
            see(format!("feedback: {}", said(store.sample_feedback(seed).await)));
        }
        for number in 0..KEYS {
            see(format!("key {number}: {}", said(store.key(token(number)).await)));
        }
        see(format!("keys: {}", said(store.keys().await)));
        see(format!("blocked: {}", said(store.blocked().await)));
        see(format!("team: {}", said(store.team().await)));
        see(format!("health: {}", said(store.health().await)));
        seen
    }

    /// What is stored about the users; for versions, whether they are the recorded ones.
    async fn accounts(&self) -> Vec<String> {
        let mut accounts = Vec::new();
        for user in 1..=USERS {
            let (grant, list) = self.versions.get(&user).copied().unwrap_or_default();
            let account = self.fixture.store.account(id(user)).await.unwrap();
            let account = account.map(|it| (it.grant, it.grant_version == grant, it.list, it.list_version == list));
            accounts.push(format!("account of {user}: {account:?}"));
        }
        accounts
    }

    /// What only shows once everything is cleaned up, or changes something when it is read.
    async fn at_the_end(&self) -> Vec<String> {
        self.fixture.clean().await;
        let mut seen = self.observed().await;
        seen.push(format!("stats: {:?}", self.fixture.store.stats().await.unwrap()));
        seen.push(format!("feed: {:#?}", self.fixture.store.feed_state().await.unwrap()));
        for number in 0..CODES {
            let claimed = self.fixture.store.claim_code(code(number), self.now, self.now).await;
            seen.push(format!("code {number}: {}", said(claimed)));
        }
        seen
    }
}

/// Everything that a step can invalidate by name.
fn topics() -> Vec<Topic> {
    let ids = (1..=USERS).map(id).chain((1..=PLACES).map(placed)).map(Topic::Id);
    let sessions = (1..=USERS).map(id).map(Topic::SessionsOf);
    ids.chain(sessions).chain([Topic::Team, Topic::Feedback, Topic::Health, Topic::Keys, Topic::Stats]).collect()
}

/// An answer in words; for an error only its kind, because stores word them differently.
fn said<T: Debug>(answer: Result<T>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(StoreError::Unavailable(_)) => "unavailable".to_owned(),
        Err(StoreError::Busy(_)) => "busy".to_owned(),
        Err(StoreError::Failed(_)) => "failed".to_owned(),
        Err(StoreError::Damaged(_)) => "damaged".to_owned(),
    }
}

async fn compare(steps: Vec<Step>, file: &mut Subject, server: &mut Subject, outside: &Client) -> Checked {
    for (number, step) in steps.into_iter().enumerate() {
        all_heard(outside, &server.fixture.freshness).await;
        let (expected, given) = (file.take(step.clone()).await, server.take(step.clone()).await);
        prop_assert_eq!(expected, given, "step {}: {:?}", number, step);
        // They come and go, and the end of the history may not show what was wrong with them.
        prop_assert_eq!(file.accounts().await, server.accounts().await, "step {}: {:?}", number, step);
    }
    same(&file.observed().await, &server.observed().await)?;
    same(&file.at_the_end().await, &server.at_the_end().await)?;
    let places = (1..=PLACES).map(placed).collect();
    let visible = file.fixture.store.person(id(1), places).await.unwrap().guilds;
    let stats = file.fixture.store.stats().await.unwrap();
    prop_assert_eq!(stats.guilds, visible.len() as u64);
    prop_assert_eq!(stats.members, visible.iter().map(|guild| guild.members).sum::<u64>());
    prop_assert_eq!(stats.ratings.count, u64::try_from(file.fixture.count("feedback").await).unwrap());
    if server.staged.is_empty() {
        for table in ["feed_sweeps", "staged_snapshots", "staged_kept", "staged_subscriptions"] {
            prop_assert_eq!(server.fixture.count(table).await, 0, "{}", table);
        }
        let visible = server.fixture.store.feed_state().await.unwrap().guilds;
        prop_assert_eq!(server.fixture.count("guilds").await, i64::try_from(visible).unwrap());
    }
    Ok(())
}

/// Waits until the store has received every invalidation so far, including its own: a late one would count for the next step.
async fn all_heard(outside: &Client, freshness: &Freshness) {
    let nobody = Topic::Id(id(u64::from(u32::MAX)));
    let before = freshness.changes_of(nobody);
    let message = format!("NOTIFY bot_companion_1, '{:020x}'", slot(nobody));
    outside.batch_execute(&message).await.unwrap();
    while freshness.changes_of(nobody) == before {
        tokio::task::yield_now().await;
    }
}

fn same(expected: &[String], given: &[String]) -> Checked {
    let differing = expected.iter().zip(given).find(|(expected, given)| expected != given);
    if let Some((expected, given)) = differing {
        prop_assert_eq!(expected, given);
    }
    prop_assert_eq!(expected.len(), given.len());
    Ok(())
}

#[test]
fn every_history_has_the_same_end_in_every_store() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let Some(server) = runtime.block_on(Fixture::on_postgres()) else { return };
    // One database for all histories, because creating one takes longer than a history.
    let server = std::cell::RefCell::new(Subject::of(server));
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) };
    let outcome = TestRunner::new(config).run(&history(), |steps| {
        let server: &mut Subject = &mut server.borrow_mut();
        runtime.block_on(async {
            server.empty().await;
            let mut file = Subject::of(Fixture::on_sqlite().await);
            let outside = server.fixture.server().outside().await;
            let checked = compare(steps, &mut file, server, &outside).await;
            file.fixture.store.close().await;
            checked
        })
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
