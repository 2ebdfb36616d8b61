//! Monitoring a store.

use telemetry::metrics::{HistogramSnapshot, StoreAccess, StoreOutcome};

use super::*;
use crate::StoreError;

on_each_store! {
    a_probe_reads_and_writes_and_is_counted,
    each_operation_is_timed_as_often_as_it_is_counted,
    the_backup_that_was_noted_last_is_remembered,
    a_store_tells_its_size,
    sessions_are_counted,
    a_closed_store_fails_its_probe,
}

async fn a_probe_reads_and_writes_and_is_counted(fixture: Fixture) {
    let store = &fixture.store;
    let done = |access| store.metrics().operations.get(access, StoreOutcome::Done);
    let (reads, writes) = (done(StoreAccess::Read), done(StoreAccess::Write));
    for _ in 0..3 {
        store.probe_write(NOW).await.unwrap();
        store.probe_read().await.unwrap();
    }
    assert_eq!((done(StoreAccess::Read), done(StoreAccess::Write)), (reads + 3, writes + 3));
    for access in [StoreAccess::Read, StoreAccess::Write] {
        assert!(HistogramSnapshot::of([store.metrics().waits(access)]).count() >= 3, "{access:?}");
    }
    let load = store.load();
    assert_eq!((load.in_use, load.queued_writes, load.circuit_open), (0, 0, false));
    assert!(load.idle > 0);
}

async fn each_operation_is_timed_as_often_as_it_is_counted(fixture: Fixture) {
    let store = &fixture.store;
    for _ in 0..3 {
        store.probe_write(NOW).await.unwrap();
        store.probe_read().await.unwrap();
    }
    store.close().await;
    for access in [StoreAccess::Read, StoreAccess::Write] {
        let all = [StoreOutcome::Done, StoreOutcome::Busy, StoreOutcome::Unavailable, StoreOutcome::Failed];
        let counted: u64 = all.iter().map(|outcome| store.metrics().operations.get(access, *outcome)).sum();
        assert!(counted >= 3, "{access:?}");
        assert_eq!(HistogramSnapshot::of([store.metrics().durations(access)]).count(), counted, "{access:?}");
    }
}

async fn the_backup_that_was_noted_last_is_remembered(fixture: Fixture) {
    let store = &fixture.store;
    store.probe_write(NOW).await.unwrap();
    assert_eq!(store.last_backup().await.unwrap(), None);
    // The second one by a clock that was ahead.
    for noted in [NOW, NOW.after(Duration::from_hours(240)), NOW.after(Duration::from_secs(5))] {
        store.note_backup(noted).await.unwrap();
        assert_eq!(store.last_backup().await.unwrap(), Some(noted));
    }
}

async fn a_store_tells_its_size(fixture: Fixture) {
    let store = &fixture.store;
    store.probe_write(NOW).await.unwrap();
    let bytes = store.bytes().await.unwrap();
    assert!(bytes.database > 0 && bytes.log != Some(0), "{bytes:?}");
}

async fn sessions_are_counted(fixture: Fixture) {
    let store = &fixture.store;
    assert_eq!(store.session_count().await.unwrap(), 0);
    for device in 1..=2 {
        store.open_session(person(1), token(device), session(1, device), 10).await.unwrap();
    }
    assert_eq!(store.session_count().await.unwrap(), 2);
}

async fn a_closed_store_fails_its_probe(fixture: Fixture) {
    fixture.store.close().await;
    assert!(fixture.store.probe_read().await.is_err());
    assert!(fixture.store.probe_write(NOW).await.is_err());
}

#[tokio::test]
async fn a_server_that_reports_damage_is_believed() {
    let Some(fixture) = Fixture::on_postgres().await else { return };
    let broken =
        "CREATE FUNCTION broken() RETURNS boolean LANGUAGE plpgsql STABLE AS $$ BEGIN RAISE data_corrupted; END $$;
        ALTER TABLE team RENAME TO whole; CREATE VIEW team AS SELECT * FROM whole WHERE broken()";
    fixture.sql(broken).await;
    assert_eq!(fixture.store.metrics().damaged.get(), 0);
    let Err(StoreError::Damaged(why)) = fixture.store.team().await else { panic!("it was read") };
    assert!(why.contains("CompanionStoreDamaged"), "{why}");
    assert_eq!(fixture.store.metrics().damaged.get(), 1);
    fixture.store.probe_read().await.unwrap();
    assert_eq!(fixture.store.metrics().damaged.get(), 1, "what works does not mend the rest");
}
