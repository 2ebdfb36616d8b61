//! The file itself: created, closed, refused, locked.

use rusqlite::Connection;

use super::*;
use crate::domain::Change;
use crate::store::{Result, StoreError};

async fn open(folder: &TestFolder) -> Result<Sqlite> {
    Sqlite::open(folder.path(FILE), Duration::from_secs(1), new_freshness()).await
}

fn foreign(folder: &TestFolder, sql: &str) {
    std::fs::create_dir_all(folder.path(FILE).parent().unwrap()).unwrap();
    Connection::open(folder.path(FILE)).unwrap().execute_batch(sql).unwrap();
}

#[tokio::test]
async fn closing_finishes_what_waits_and_refuses_the_rest() {
    use futures_util::FutureExt;
    let fixture = sqlite().await;
    for number in 1..=50 {
        drop(fixture.store.apply(vec![Change::Guild(guild(number))]).now_or_never());
        // The runtime lets a task take only so much at once.
        tokio::task::yield_now().await;
    }
    fixture.store.close().await;
    fixture.store.close().await;
    assert!(matches!(fixture.store.team().await, Err(StoreError::Unavailable(_))));
    assert!(matches!(fixture.store.note_seen(Vec::new()).await, Err(StoreError::Unavailable(_))));
    let log = fixture.file().with_extension("db-wal");
    assert_eq!(std::fs::metadata(log).map_or(0, |log| log.len()), 0);
    assert_eq!(fixture.count("guilds").await, 50);
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_can_read_the_files() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = sqlite().await;
    fixture.sign_in(1, 1).await;
    for file in std::fs::read_dir(fixture.file().parent().unwrap()).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", file.file_name());
    }
}

#[tokio::test]
async fn a_database_of_a_newer_release_is_refused_untouched() {
    let folder = TestFolder::new();
    foreign(&folder, "CREATE TABLE future (x); PRAGMA user_version = 1000;");
    let before = std::fs::read(folder.path(FILE)).unwrap();
    let Err(StoreError::Failed(message)) = open(&folder).await else { panic!("it was opened") };
    assert!(message.contains("1000") && message.contains("newer"), "{message}");
    assert_eq!(std::fs::read(folder.path(FILE)).unwrap(), before);
}

#[tokio::test]
async fn a_file_of_something_else_is_refused_untouched() {
    let folder = TestFolder::new();
    foreign(&folder, "CREATE TABLE notes (x);");
    let before = std::fs::read(folder.path(FILE)).unwrap();
    assert!(matches!(open(&folder).await, Err(StoreError::Failed(_))));
    assert_eq!(std::fs::read(folder.path(FILE)).unwrap(), before);

    std::fs::write(folder.path(FILE), "Dear diary, this is no database at all. ".repeat(100)).unwrap();
    let Err(StoreError::Damaged(message)) = open(&folder).await else { panic!("it was opened") };
    assert!(message.contains("correct store.url"), "{message}");
}

#[tokio::test]
async fn two_can_open_a_new_file_at_once() {
    let folder = TestFolder::new();
    let (first, second) = tokio::join!(open(&folder), open(&folder));
    first.unwrap().apply(vec![Change::Guild(guild(1))]).await.unwrap();
    assert_eq!(second.unwrap().person(id(1), vec![id(1)]).await.unwrap().guilds.len(), 1);
}

#[tokio::test]
async fn a_lock_of_another_process_is_waited_for() {
    let fixture = sqlite().await;
    let outside = fixture.outside();
    outside.execute_batch("BEGIN IMMEDIATE").unwrap();
    let write = fixture.store.apply(vec![Change::Guild(guild(1))]);
    let (written, ()) = tokio::join!(write, async { outside.execute_batch("COMMIT").unwrap() });
    written.unwrap();
}
