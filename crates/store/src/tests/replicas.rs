//! What only a store that several replicas share can get wrong.

use std::sync::Arc;

use domain::feed::Lines;
use domain::{Change, Heartbeat};
use futures_util::future::join_all;

use super::*;
use crate::freshness::Dependencies;
use crate::{Admission, BatchOutcome, Claim, Committed, Lease, StoreError, Swept, Topic};

/// Long enough for a busy machine; a test that waits this long has failed.
const BOUND: Duration = Duration::from_mins(5);

impl Replica {
    /// Whether what the work changes at another replica becomes stale here.
    async fn hears(&self, topic: Topic, work: impl Future<Output = ()>) -> bool {
        let dependencies: Dependencies = [topic].into_iter().collect();
        let wait = async |until: &dyn Fn() -> bool| {
            let waiting = async {
                while !until() {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            tokio::time::timeout(BOUND, waiting).await.is_ok()
        };
        assert!(wait(&|| !self.freshness.is_suspended()).await, "changes of other replicas are not heard");
        let mark = self.freshness.mark(&dependencies);
        work.await;
        wait(&|| !self.freshness.is_fresh(&dependencies, mark)).await
    }
}

fn named(place: u64, name: &str) -> Change {
    Change::Guild(Guild { id: placed(place), name: name.to_owned(), ..guild(1) })
}

#[tokio::test]
async fn ten_replicas_that_start_at_once_make_one_schema() {
    let Some(database) = Database::new().await else { return };
    let options = database.options();
    let open = || Replica::of_server(&options, new_freshness());
    let opened: Vec<_> = join_all((0..10).map(|_| open())).await;
    for store in opened {
        assert_eq!(store.unwrap().store.keys().await.unwrap(), []);
    }
    assert_eq!((database.rows("schema_version").await, database.rows("feed_shards").await), (1, 1));
    // A newer release was here.
    database.outside().await.batch_execute("UPDATE schema_version SET version = 1000").await.unwrap();
    let Err(StoreError::Failed(problem)) = open().await else { panic!("it was opened") };
    assert!(problem.contains("newer"), "{problem}");
}

#[tokio::test]
async fn what_one_replica_changes_becomes_stale_at_the_others() {
    let Some(database) = Database::new().await else { return };
    let (one, two) = (database.replica().await, database.replica().await);
    let apply = async |changes| one.store.apply(changes).await.unwrap();
    assert!(two.hears(Topic::Id(placed(1)), apply(vec![named(1, "x")])).await);
    assert_eq!(two.map().await, "x: [1]");
    let snapshot =
        async || assert_eq!(one.snapshot("a", shard(0, 1), 1, &[1, 2], "y").await, Committed::Replaced { next: 1 });
    assert!(two.hears(Topic::Id(placed(9)), snapshot()).await, "a snapshot is about everything");
    let started_at = Time::from_seconds(1);
    let heartbeat = Heartbeat {
        instance: instance("a"),
        started_at,
        memory: 1,
        shard_count: 1,
        shards: Vec::new(),
        leaving: false,
    };
    assert!(two.hears(Topic::Health, async { one.store.record_heartbeat(heartbeat, NOW).await.unwrap() }).await);
    let many = (1..3000).map(|place| named(place, "z")).collect();
    assert!(two.hears(Topic::Id(placed(2999)), apply(many)).await, "more than a notice can name");

    one.store.save_grant(person(1), grant(1), NOW, None).await.unwrap();
    one.store.open_session(person(1), token(1), session(1, 1), 50).await.unwrap();
    assert_eq!(two.store.session(token(1)).await.unwrap(), Some(session(1, 1)));
    let end = async || assert_eq!(one.store.end_sessions(id(1), NOW).await.unwrap(), 1);
    assert!(two.hears(Topic::SessionsOf(id(1)), end()).await);
    assert_eq!(two.store.session(token(1)).await.unwrap(), None);
}

#[tokio::test]
async fn the_numbering_holds_whichever_replica_a_batch_reaches() {
    let Some(database) = Database::new().await else { return };
    let (one, two) = (database.replica().await, database.replica().await);
    one.snapshot("a", shard(0, 1), 1, &[], "").await;
    assert_eq!(one.feed("a", 1, &[named(1, "one"), named(2, "one")]).await, applied(2, 0, 3));
    assert_eq!(two.feed("a", 4, &[named(1, "early")]).await, BatchOutcome::Resync { next: 3 });
    assert_eq!(two.feed("a", 2, &[named(2, "again"), named(3, "two")]).await, applied(1, 1, 4));
    assert_eq!(one.feed("a", 1, &[named(1, "again")]).await, applied(0, 1, 4));
    assert_eq!(one.map().await, "one: [1, 2], two: [3]");
    assert_eq!(one.store.feed_state().await.unwrap(), two.store.feed_state().await.unwrap());
}

#[tokio::test]
async fn a_batch_that_reaches_two_replicas_at_once_applies_once() {
    let Some(database) = Database::new().await else { return };
    let (one, two) = (database.replica().await, database.replica().await);
    one.snapshot("a", shard(0, 1), 1, &[], "").await;
    for round in 0..20 {
        let batch: Vec<_> = (1..=5).map(|place| named(place, &round.to_string())).collect();
        let first = 1 + round * 5;
        let fed = tokio::join!(one.feed("a", first, &batch), two.feed("a", first, &batch));
        let applied = |fed: &BatchOutcome| matches!(fed, BatchOutcome::Applied { applied: 5, ignored: 0, .. });
        let ignored = |fed: &BatchOutcome| matches!(fed, BatchOutcome::Applied { applied: 0, ignored: 5, .. });
        assert!(applied(&fed.0) && ignored(&fed.1) || ignored(&fed.0) && applied(&fed.1), "{fed:?}");
    }
    assert_eq!(one.store.feed_state().await.unwrap().guilds, 5);
}

#[tokio::test]
async fn of_many_that_claim_a_code_one_gets_it() {
    let Some(database) = Database::new().await else { return };
    let (one, two) = (database.replica().await, database.replica().await);
    for number in 0..10 {
        let until = NOW.after(Duration::from_mins(1));
        let claim = |replica: &Replica| {
            let store = Arc::clone(&replica.store);
            async move { store.claim_code(code(number), NOW, until).await.unwrap() }
        };
        let claims = join_all((0..8).map(|turn| claim(if turn % 2 == 0 { &one } else { &two }))).await;
        assert_eq!(claims.iter().filter(|claim| **claim == Claim::Mine).count(), 1, "{claims:?}");
        assert_eq!(claims.iter().filter(|claim| **claim == Claim::Running).count(), 7, "{claims:?}");
    }
}

#[tokio::test]
async fn one_replica_stages_and_another_commits_and_cleans_up() {
    let Some(database) = Database::new().await else { return };
    let (one, two) = (database.replica().await, database.replica().await);
    one.snapshot("a", shard(0, 1), 1, &[1, 2, 3], "old").await;
    let snapshot = one.store.begin_snapshot(shard(0, 1), instance("a"), 1, NOW).await.unwrap();
    let stage = async |replica: &Replica, lines: &[GuildLine]| {
        replica.store.stage(snapshot, Lines::Guilds(lines.to_vec())).await
    };
    stage(&one, &[line(1, "new", 2), line(2, "new", 2)]).await.unwrap();
    two.clean().await;
    stage(&two, &[line(2, "newer", 2), GuildLine::Unavailable(placed(3))]).await.unwrap();
    assert_eq!(two.store.commit_snapshot(snapshot, None, NOW).await.unwrap(), Committed::Replaced { next: 1 });
    assert_eq!(one.map().await, "new: [1], newer: [2], old: [3]");
    assert!(matches!(stage(&one, &[line(1, "late", 2)]).await, Err(StoreError::Unavailable(_))));
    one.clean().await;
    assert_eq!((database.rows("guilds").await, database.rows("guild_staff").await), (3, 3));
    assert_eq!(one.store.feed_state().await.unwrap().guilds, 3);
}

#[tokio::test]
async fn what_nobody_stages_any_more_is_given_up_after_a_while() {
    let Some(database) = Database::new().await else { return };
    let replica = database.replica().await;
    let begin = async || replica.store.begin_snapshot(shard(0, 1), instance("a"), 1, NOW).await.unwrap();
    let stage = async |snapshot| replica.store.stage(snapshot, Lines::Guilds(vec![line(1, "x", 2)])).await;
    let (left, living) = (begin().await, begin().await);
    stage(left).await.unwrap();
    stage(living).await.unwrap();
    let age = "UPDATE staged_snapshots SET touched = touched - interval '601 seconds'";
    database.outside().await.batch_execute(age).await.unwrap();
    stage(living).await.unwrap();
    replica.clean().await;
    assert!(matches!(stage(left).await, Err(StoreError::Unavailable(_))));
    assert_eq!((database.rows("guilds").await, database.rows("feed_sweeps").await), (1, 0));
    assert_eq!(replica.store.commit_snapshot(living, None, NOW).await.unwrap(), Committed::Replaced { next: 1 });

    // While one cleans up, another has nothing to do.
    let held = database.outside().await;
    replica.snapshot("a", shard(0, 1), 1, &[2], "y").await;
    held.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(6447877, 0)").await.unwrap();
    assert_eq!(replica.store.clean_up(10).await.unwrap(), 0);
    assert_eq!(database.rows("feed_sweeps").await, 1);
    held.batch_execute("COMMIT").await.unwrap();
    replica.clean().await;
    assert_eq!(database.rows("feed_sweeps").await, 0);
}

#[tokio::test]
async fn a_reader_beside_commits_and_clean_up_never_sees_a_mix() {
    let Some(database) = Database::new().await else { return };
    let (one, two) = (database.replica().await, database.replica().await);
    let all: Vec<u64> = (1..=12).collect();
    one.snapshot("a", shard(0, 1), 1, &all, "0").await;
    let done = std::cell::Cell::new(false);
    let write = async {
        for round in 1..=20 {
            one.snapshot("a", shard(0, 1), 1, &all, &round.to_string()).await;
            one.store.clean_up(5).await.unwrap();
        }
        done.set(true);
    };
    let read = async {
        let mut last = 0;
        while !done.get() {
            let names = two.names().await;
            assert!(names.len() == 12 && names.iter().all(|(_, name, _)| *name == names[0].1), "{names:?}");
            let round: u32 = names[0].1.parse().unwrap();
            assert!(round >= last);
            last = round;
        }
    };
    tokio::join!(write, read);
}

#[tokio::test]
async fn what_is_committed_after_a_revocation_is_refused_at_every_replica() {
    let Some(database) = Database::new().await else { return };
    let (one, two) = (database.replica().await, database.replica().await);
    one.snapshot("a", shard(0, 1), 1, &[1], "old").await;
    let snapshot = one.store.begin_snapshot(shard(0, 1), instance("a"), 1, NOW).await.unwrap();
    one.store.stage(snapshot, Lines::Guilds(vec![line(1, "new", 2)])).await.unwrap();
    assert!(two.store.revoke_key(KEY.to_owned(), NOW).await.unwrap());
    assert_eq!(one.store.commit_snapshot(snapshot, None, NOW).await.unwrap(), Committed::KeyRefused);
    assert_eq!(two.feed("a", 1, &[Change::GuildGone(placed(1))]).await, BatchOutcome::KeyRefused);
    assert_eq!(one.map().await, "old: [1]");
}

#[tokio::test]
async fn of_many_that_lease_a_grant_one_gets_it_and_the_others_wait_without_a_lock() {
    let Some(database) = Database::new().await else { return };
    let (one, two) = (database.replica().await, database.replica().await);
    for user in 1..=10 {
        one.sign_in(user.into(), user).await;
        let version = one.store.account(id(user.into())).await.unwrap().unwrap().grant_version;
        // By the second time, the first one's lease is over.
        for now in [NOW, NOW.after(Duration::from_mins(1))] {
            let lease = |replica: &Replica, version| {
                let store = Arc::clone(&replica.store);
                let until = now.after(Duration::from_mins(1));
                async move { store.lease_grant(id(user.into()), version, now, until).await.unwrap() }
            };
            let leases = join_all((0..8).map(|turn| lease(if turn % 2 == 0 { &one } else { &two }, version))).await;
            assert_eq!(leases.iter().filter(|lease| **lease == Lease::Mine).count(), 1, "{leases:?}");
            assert_eq!(leases.iter().filter(|lease| **lease == Lease::Busy).count(), 7, "{leases:?}");
            // Anyone who needs a lock would wait for this.
            let other = database.outside().await;
            other.batch_execute("BEGIN; SELECT 1 FROM users FOR UPDATE").await.unwrap();
            assert_eq!(lease(&two, version).await, Lease::Busy);
            assert_eq!(lease(&two, version + 1).await, Lease::Replaced);
            other.batch_execute("ROLLBACK").await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_session_opens_while_somebody_has_the_users_revocation() {
    let Some(database) = Database::new().await else { return };
    let (one, other) = (database.replica().await, database.outside().await);
    one.save_grant(1, 1).await;
    // The first user has a grant again; the revocation of the second user's was sent, and a sweep is removing it.
    let stored = "INSERT INTO revocations (user_id, grant_sealed, due, tries, sending_until)
        VALUES (1, '\\x00', 0, 0, NULL), (2, NULL, 0, 1, NULL)";
    other.batch_execute(stored).await.unwrap();
    other.batch_execute("BEGIN; SELECT 1 FROM revocations FOR UPDATE").await.unwrap();
    for user in [1, 2] {
        assert_eq!(one.open_session(user.into(), user).await, Admission::Admitted);
    }
    other.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(database.rows("revocations").await, 2);
}

#[tokio::test]
async fn a_grant_is_not_taken_back_once_somebody_has_begun_to_revoke_it() {
    let Some(database) = Database::new().await else { return };
    let (one, other) = (database.replica().await, database.outside().await);
    one.sign_in(1, 1).await;
    one.store.end_sessions(id(1), NOW).await.unwrap();
    other.batch_execute("BEGIN; UPDATE revocations SET tries = 1, sending_until = 1").await.unwrap();
    let opening = tokio::spawn({
        let one = one.clone();
        async move { one.open_session(1, 2).await }
    });
    one.eventually("the session waits for the revocation", async || database.waiting().await == 1).await;
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(opening.await.unwrap(), Admission::Admitted);
    assert_eq!(database.rows("revocations").await, 1);
    assert_eq!(one.store.account(id(1)).await.unwrap().unwrap().grant, None);
}

/// Takes, or releases, the lock of the user whose ID is this many times 4096.
async fn user_lock(client: &tokio_postgres::Client, function: &str, number: i32) {
    client.batch_execute(&format!("SELECT {function}(6447875, {number})")).await.unwrap();
}

#[tokio::test]
async fn a_sweep_takes_no_lock_that_it_does_not_need_and_none_of_a_row_before_that_of_a_user() {
    let Some(database) = Database::new().await else { return };
    let (one, other) = (database.replica().await, database.outside().await);
    let (first, second) = (1 << 12, 2 << 12);
    // Found first, and swept last.
    one.sign_in(second, 1).await;
    one.sign_in(first, 2).await;
    one.sign_in(first, 3).await;
    let later = NOW.after(Duration::from_mins(1));
    user_lock(&other, "pg_advisory_lock", 2).await;
    // The first user's sessions are a full batch.
    assert_eq!(one.store.sweep(later, later, later, 2).await.unwrap(), Swept { sessions: 2, more: true });

    let sent =
        "INSERT INTO revocations (user_id, grant_sealed, due, tries, sending_until) VALUES (7, NULL, 0, 1, NULL)";
    other.batch_execute(sent).await.unwrap();
    let sweeping = tokio::spawn({
        let one = one.clone();
        async move { one.store.sweep(later, later, later, 10).await.unwrap() }
    });
    one.eventually("the sweep waits for the user", async || database.waiting().await == 1).await;
    other.batch_execute("SELECT 1 FROM revocations WHERE user_id = 7 FOR UPDATE NOWAIT").await.unwrap();
    user_lock(&other, "pg_advisory_unlock", 2).await;
    assert_eq!(sweeping.await.unwrap(), Swept { sessions: 1, more: false });
    assert_eq!(database.rows("revocations WHERE user_id = 7").await, 0);
}
