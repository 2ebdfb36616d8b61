//! The file itself: created, closed, refused, locked.

use std::path::PathBuf;

use domain::Change;
use rusqlite::Connection;

use super::*;
use crate::sqlite::{Sqlite, grants_in_file, look, vacuum};
use crate::{Access, Integrity, Result, Store, StoreError};

async fn open(folder: &TestFolder) -> Result<Store> {
    open_file(folder.path(FILE)).await
}

async fn open_file(path: PathBuf) -> Result<Store> {
    Sqlite::open(path, Access::ReadWrite, Duration::from_secs(1), new_freshness()).await.map(Store::from)
}

fn write_file(folder: &TestFolder, sql: &str) {
    std::fs::create_dir_all(folder.path(FILE).parent().unwrap()).unwrap();
    Connection::open(folder.path(FILE)).unwrap().execute_batch(sql).unwrap();
}

#[tokio::test]
async fn closing_finishes_what_waits_and_refuses_the_rest() {
    use futures_util::FutureExt;
    let fixture = sqlite().await;
    for number in 1..=50 {
        drop(fixture.store.apply(vec![Change::Guild(guild(number))]).now_or_never());
        // The runtime only lets a task do so much at a time.
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
    write_file(&folder, "CREATE TABLE future (x); PRAGMA user_version = 1000;");
    let before = std::fs::read(folder.path(FILE)).unwrap();
    let Err(StoreError::Failed(message)) = open(&folder).await else { panic!("it was opened") };
    assert!(message.contains("1000") && message.contains("newer"), "{message}");
    assert_eq!(std::fs::read(folder.path(FILE)).unwrap(), before);
}

#[tokio::test]
async fn a_file_of_something_else_is_refused_untouched() {
    let folder = TestFolder::new();
    write_file(&folder, "CREATE TABLE notes (x);");
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

#[tokio::test]
async fn the_log_of_a_database_that_was_deleted_is_left_as_it_is() {
    let fixture = sqlite().await;
    fixture.store.apply(vec![Change::Guild(guild(1))]).await.unwrap();
    let log = fixture.file().with_extension("db-wal");
    let before = std::fs::read(&log).unwrap();
    assert!(!before.is_empty());
    std::fs::remove_file(fixture.file()).unwrap();
    fixture.store.close().await;
    assert!(std::fs::read(&log).unwrap() == before, "the log was changed");
}

#[tokio::test]
async fn a_write_during_which_the_database_vanishes_is_not_acknowledged() {
    let fixture = sqlite().await;
    let file = fixture.file();
    let write = fixture.sqlite().writer.write(move |connection, _| {
        std::fs::remove_file(file).unwrap();
        connection.execute("INSERT INTO blocked_users (user_id, reason, since) VALUES (7, '', 0)", [])
    });
    assert!(matches!(write.await, Err(StoreError::Unavailable(_))));
}

#[tokio::test]
async fn a_log_that_was_deleted_is_noticed_like_a_database_that_was() {
    let fixture = sqlite().await;
    let write = async |number| fixture.store.apply(vec![Change::Guild(guild(number))]).await;
    write(1).await.unwrap();
    let (log, aside) = (fixture.file().with_extension("db-wal"), fixture.file().with_extension("aside"));
    std::fs::rename(&log, &aside).unwrap();
    let refused = write(2).await.unwrap_err().to_string();
    assert!(refused.contains("-wal"), "{refused}");
    std::fs::copy(&aside, &log).unwrap();
    assert!(matches!(write(2).await, Err(StoreError::Unavailable(_))), "a copy is not it");
    std::fs::rename(&aside, &log).unwrap();
    write(2).await.unwrap();
    // When the last connection closes, SQLite itself writes its log into the database.
    std::fs::remove_file(&log).unwrap();
    write(3).await.unwrap_err();
    fixture.store.close().await;
    assert_eq!(fixture.count("guilds").await, 2);
}

#[tokio::test]
async fn what_works_beside_the_service_keeps_the_log() {
    let fixture = sqlite().await;
    let write = async |number| fixture.store.apply(vec![Change::Guild(guild(number))]).await;
    write(1).await.unwrap();
    vacuum(fixture.file()).await.unwrap();
    write(2).await.unwrap();
    fixture.outside().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    write(3).await.unwrap();
    look(fixture.file()).await.unwrap().unwrap();
    let beside = open_file(fixture.file()).await.unwrap();
    beside.apply(vec![Change::Guild(guild(4))]).await.unwrap();
    beside.close().await;
    write(5).await.unwrap();
}

#[tokio::test]
async fn an_interrupted_restore_is_not_taken_for_damage_and_undone_by_the_next_start() {
    let fixture = sqlite().await;
    fixture.store.close().await;
    let (outside, folder) = (fixture.outside(), TestFolder::new());
    outside
        .execute_batch(
            "PRAGMA journal_mode = delete; PRAGMA cache_size = 1; BEGIN;
            WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 2000)
            INSERT INTO blocked_users SELECT n, hex(zeroblob(500)), 0 FROM numbers",
        )
        .unwrap();
    std::fs::create_dir_all(folder.path(FILE).parent().unwrap()).unwrap();
    std::fs::copy(fixture.file(), folder.path(FILE)).unwrap();
    std::fs::copy(fixture.file().with_extension("db-journal"), folder.path(FILE).with_extension("db-journal")).unwrap();
    let refused = look(folder.path(FILE)).await.unwrap_err().to_string();
    assert!(refused.contains("a restore was interrupted"), "{refused}");
    let store = open(&folder).await.unwrap();
    assert!(store.blocked().await.unwrap().is_empty());
    store.close().await;
}

#[tokio::test]
async fn counting_the_grants_does_not_check_the_whole_file() {
    use std::os::unix::fs::FileExt as _;
    let fixture = sqlite().await;
    fixture.sign_in(1, 1).await;
    fixture.store.close().await;
    let sql = "SELECT (rootpage - 1) * page_size, page_size FROM sqlite_schema, pragma_page_size WHERE name = 'team'";
    let (start, size): (u32, u32) = fixture.outside().query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(fixture.file()).unwrap();
    file.write_all_at(&vec![0x55; size as usize], start.into()).unwrap();
    let found = look(fixture.file()).await.unwrap().unwrap();
    assert!(matches!(found.integrity.unwrap(), Integrity::Damaged(_)));
    let grants = grants_in_file(fixture.file()).await.unwrap().unwrap();
    assert_eq!(grants.iter().map(|(_, count)| count).sum::<u64>(), 1);
}

#[tokio::test]
async fn a_file_that_somebody_cuts_off_takes_no_more_writes() {
    for (suffix, part, refilled) in
        [("", 0, false), ("", 2, false), ("-wal", 0, false), ("-wal", 2, false), ("-wal", 0, true), ("-wal", 2, true)]
    {
        let fixture = sqlite().await;
        for number in 1..=50 {
            fixture.store.apply(vec![Change::Guild(guild(number))]).await.unwrap();
        }
        let mut path = fixture.file().into_os_string();
        path.push(suffix);
        if suffix.is_empty() {
            Connection::open(fixture.file()).unwrap().execute_batch("PRAGMA wal_checkpoint(FULL)").unwrap();
            // Its full length must have been seen.
            fixture.store.apply(vec![Change::Guild(guild(51))]).await.unwrap();
        }
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length.checked_div(part).unwrap_or(0)).unwrap();
        if refilled {
            // A write in progress makes the log long again, after a hole.
            file.set_len(length).unwrap();
        }
        let refused = fixture.store.apply(vec![Change::Guild(guild(99))]).await;
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{suffix} {part} {refilled}: {refused:?}");
        assert_eq!(fixture.sqlite().metrics.file_lost.get(), 1);
    }
}

#[tokio::test]
async fn what_sqlite_itself_shortens_is_not_cut_off() {
    let fixture = sqlite().await;
    let other = Connection::open(fixture.file()).unwrap();
    let padding =
        "CREATE TABLE padding (text); WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
        INSERT INTO padding SELECT hex(randomblob(200)) FROM n; PRAGMA wal_checkpoint(TRUNCATE);";
    for (number, sql) in
        (1..).zip([padding, "DROP TABLE padding; VACUUM;", "PRAGMA wal_checkpoint(TRUNCATE);", "PRAGMA user_version;"])
    {
        let before = std::fs::metadata(fixture.file()).unwrap().len();
        other.execute_batch(sql).unwrap();
        let after = std::fs::metadata(fixture.file()).unwrap().len();
        assert_eq!(after < before, number == 3, "{sql}: {before} {after}");
        fixture.store.apply(vec![Change::Guild(guild(number))]).await.unwrap();
    }
}

#[tokio::test]
async fn each_probe_is_written_to_the_log_even_if_no_time_has_passed() {
    let fixture = sqlite().await;
    let log = || std::fs::metadata(fixture.file().with_extension("db-wal")).unwrap().len();
    let mut before = log();
    for _ in 0..3 {
        fixture.store.probe_write(NOW).await.unwrap();
        assert!(log() > before, "nothing was written");
        before = log();
    }
}
