//! The writer and the readers: group commits, invalidation, limits, other processes.

use std::sync::mpsc;
use std::time::Duration;

use domain::Change;
use futures_util::{FutureExt, future::join_all};
use rusqlite::Connection;

use super::*;
use crate::StoreError;
use crate::columns::Column as _;
use crate::sqlite::{READERS, writer::QUEUE};

/// Keeps the writer busy until it is released, so that what is queued in the meantime forms one group.
struct BusyWriter(mpsc::Sender<()>);

impl BusyWriter {
    fn new(fixture: &Fixture) -> Self {
        let (sender, receiver) = mpsc::channel();
        let (start, started) = mpsc::channel();
        let held = fixture.sqlite().writer.write(move |_, _| {
            start.send(()).unwrap();
            let _: Result<(), _> = receiver.recv();
            Ok(())
        });
        assert!(held.now_or_never().is_none());
        started.recv().unwrap();
        Self(sender)
    }

    fn release(self) {
        self.0.send(()).unwrap();
    }
}

fn insert(connection: &Connection, user: u64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO blocked_users (user_id, reason, since) VALUES (?1, '', 0)";
    connection.execute(sql, [id(user).stored()]).map(drop)
}

fn rows(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT count(*) FROM blocked_users", [], |row| row.get(0))
}

#[tokio::test]
async fn writes_of_a_group_share_a_commit_and_fail_alone() {
    let fixture = sqlite().await;
    let busy = BusyWriter::new(&fixture);
    let writer = &fixture.sqlite().writer;
    let path = fixture.file();
    let first = writer.write(|connection, invalidated| {
        invalidated.push(Topic::Id(id(1)));
        insert(connection, 1)
    });
    let failing = writer.write(|connection, invalidated| {
        invalidated.push(Topic::Id(id(2)));
        insert(connection, 2)?;
        Err::<(), _>(rusqlite::Error::QueryReturnedNoRows)
    });
    let panicking = writer.write(|connection, invalidated| -> rusqlite::Result<()> {
        invalidated.push(Topic::Id(id(3)));
        insert(connection, 3)?;
        panic!("as the test wants it");
    });
    let last = writer.write(move |connection, invalidated| {
        invalidated.push(Topic::Id(id(4)));
        insert(connection, 4)?;
        Ok((rows(connection)?, rows(&Connection::open(path)?)?))
    });
    let topics: Vec<_> = (1..=4).map(|number| Topic::Id(id(number))).collect();
    let all = async { tokio::join!(first, failing, panicking, last, async { busy.release() }) };
    let ((first, failing, panicking, last, ()), invalidated) = fixture.invalidated(&topics, all).await;
    first.unwrap();
    assert!(matches!(failing, Err(StoreError::Failed(_))));
    assert!(matches!(panicking, Err(StoreError::Failed(_))));
    assert_eq!(last.unwrap(), (2, 0), "the first was not yet committed when the last one ran");
    assert_eq!(invalidated, [Topic::Id(id(1)), Topic::Id(id(4))]);
    assert_eq!(fixture.count("blocked_users").await, 2);
}

#[tokio::test]
async fn a_failed_commit_fails_its_group_and_leaves_a_clean_writer() {
    let fixture = sqlite().await;
    let busy = BusyWriter::new(&fixture);
    let writer = &fixture.sqlite().writer;
    let good = writer.write(|connection, invalidated| {
        invalidated.push(Topic::Team);
        insert(connection, 1)
    });
    // A session without a user is only noticed at the commit.
    let poison = writer.write(|connection, _| {
        connection
            .execute_batch("PRAGMA defer_foreign_keys = ON; INSERT INTO sessions VALUES (x'00', 'x', 77, 0, 0, '');")
    });
    let all = async { tokio::join!(good, poison, async { busy.release() }) };
    let ((good, poison, ()), invalidated) = fixture.invalidated(&[Topic::Team], all).await;
    assert!(matches!(good, Err(StoreError::Failed(_))));
    assert!(matches!(poison, Err(StoreError::Failed(_))));
    assert!(invalidated.is_empty());
    writer.write(|connection, _| insert(connection, 2)).await.unwrap();
    assert_eq!(fixture.count("blocked_users").await, 1);
}

#[tokio::test]
async fn an_accepted_write_is_done_and_told_though_nobody_waits() {
    let fixture = sqlite().await;
    let busy = BusyWriter::new(&fixture);
    let work = async {
        let left = fixture.store.apply(vec![Change::Guild(guild(5))]);
        assert!(left.now_or_never().is_none());
        busy.release();
        // Answered after the one before it.
        fixture.store.note_seen(Vec::new()).await.unwrap();
    };
    let ((), invalidated) = fixture.invalidated(&[Topic::Id(id(5))], work).await;
    assert_eq!(invalidated, [Topic::Id(id(5))]);
    assert_eq!(fixture.count("guilds").await, 1);
}

#[tokio::test]
async fn a_full_queue_refuses_and_keeps_its_word_to_those_in_it() {
    let fixture = Fixture::of_sqlite(Duration::ZERO).await;
    let busy = BusyWriter::new(&fixture);
    let write = |user| fixture.sqlite().writer.write(move |connection, _| insert(connection, user));
    for user in 1..=QUEUE as u64 {
        assert!(write(user).now_or_never().is_none());
        // The runtime only lets a task do so much at a time.
        tokio::task::yield_now().await;
    }
    assert!(matches!(write(9999).await, Err(StoreError::Busy(_))));
    busy.release();
    fixture.store.close().await;
    assert_eq!(usize::try_from(fixture.count("blocked_users").await).unwrap(), QUEUE);
}

#[tokio::test]
async fn what_another_process_writes_is_noticed_and_own_writes_are_not_mistaken_for_it() {
    let fixture = sqlite().await;
    let unrelated = [Topic::Id(id(99))];
    let own = async {
        fixture.store.apply(vec![Change::Guild(guild(5))]).await.unwrap();
        let failing = fixture.sqlite().writer.write(|connection, _| {
            insert(connection, 1)?;
            Err::<(), _>(rusqlite::Error::QueryReturnedNoRows)
        });
        assert!(failing.await.is_err());
        fixture.store.team().await.unwrap();
        fixture.store.apply(vec![Change::GuildGone(id(5))]).await.unwrap();
    };
    assert!(fixture.invalidated(&unrelated, own).await.1.is_empty());

    let with_a_write = async {
        insert(&fixture.outside(), 1).unwrap();
        fixture.store.note_seen(Vec::new()).await.unwrap();
    };
    assert_eq!(fixture.invalidated(&unrelated, with_a_write).await.1, unrelated);

    let idle = async {
        let dependencies = unrelated.into_iter().collect();
        let before = fixture.freshness.mark(&dependencies);
        insert(&fixture.outside(), 2).unwrap();
        while fixture.freshness.mark(&dependencies) == before {
            tokio::task::yield_now().await;
        }
    };
    // The limit is only there so that a broken store fails instead of hanging.
    tokio::time::timeout(Duration::from_mins(5), idle).await.unwrap();
}

#[tokio::test]
async fn a_lock_that_another_process_keeps_makes_the_store_busy_and_no_worse() {
    let fixture = sqlite().await;
    fixture.sqlite().writer.write(|connection, _| connection.busy_timeout(Duration::ZERO)).await.unwrap();
    let outside = fixture.outside();
    outside.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = fixture.store.apply(vec![Change::Guild(guild(5))]).await;
    assert!(matches!(refused, Err(StoreError::Busy(_))), "{refused:?}");
    fixture.store.team().await.unwrap();
    outside.execute_batch("COMMIT").unwrap();
    fixture.store.apply(vec![Change::Guild(guild(5))]).await.unwrap();
}

#[tokio::test]
async fn readers_survive_panics_and_cannot_write() {
    let fixture = sqlite().await;
    for _ in 0..2 * READERS {
        let panicked =
            fixture.sqlite().readers.read(|_| -> rusqlite::Result<()> { panic!("as the test wants it") }).await;
        assert!(matches!(panicked, Err(StoreError::Failed(_))));
    }
    assert!(fixture.sqlite().readers.read(|connection| insert(connection, 1)).await.is_err());
    assert_eq!(fixture.store.blocked().await.unwrap(), []);
}

#[tokio::test]
async fn a_read_without_a_free_connection_is_refused() {
    let fixture = Fixture::of_sqlite(Duration::ZERO).await;
    let (finish, started): (Vec<_>, Vec<_>) = (0..READERS)
        .map(|_| {
            let (sender, receiver) = mpsc::channel::<()>();
            let read = fixture.sqlite().readers.read(move |_| {
                let _: Result<(), _> = receiver.recv();
                Ok(())
            });
            let mut read = Box::pin(read);
            assert!((&mut read).now_or_never().is_none());
            (sender, read)
        })
        .unzip();
    assert!(matches!(fixture.store.team().await, Err(StoreError::Busy(_))));
    drop(finish);
    for read in join_all(started).await {
        read.unwrap();
    }
    fixture.store.team().await.unwrap();
}
