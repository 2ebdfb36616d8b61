//! A store opened for reading.

use super::fixture::Location;
use super::*;
use crate::{BlockedUser, StoreError, StoreOptions, open_read_only};

on_each_store! {
    a_store_opened_for_reading_reads_beside_the_service_and_refuses_every_write,
    a_store_of_another_release_is_not_opened_for_reading,
}

fn options(fixture: &Fixture) -> StoreOptions {
    match &fixture.location {
        Location::File(folder) => StoreOptions {
            url: format!("sqlite:{}", folder.path(FILE).display()).into(),
            wait: Duration::from_mins(1),
            connections: 2,
            start_wait: Duration::ZERO,
        },
        Location::Server(database) => database.options(),
    }
}

async fn a_store_opened_for_reading_reads_beside_the_service_and_refuses_every_write(fixture: Fixture) {
    fixture.sign_in(1, 1).await;
    let before = fixture.everything().await;
    let reading = open_read_only(options(&fixture), new_freshness()).await.unwrap();
    assert_eq!(reading.keys().await.unwrap().len(), 1);
    assert_eq!(reading.sessions_of(id(1)).await.unwrap().len(), 1);
    assert_eq!(reading.holdings().await.unwrap().sessions, 1);
    let blocked = BlockedUser { user: id(1), reason: String::new(), since: NOW };
    let refused = reading.block(blocked).await.unwrap_err();
    assert!(matches!(refused, StoreError::Failed(_) | StoreError::Unavailable(_)), "{refused}");
    assert!(reading.end_sessions(id(1), NOW).await.is_err());
    assert!(reading.forget(id(1), NOW).await.is_err());
    reading.close().await;
    assert_eq!(fixture.everything().await, before);
    // What the service writes in the meantime is visible to the next reader.
    fixture.sign_in(2, 2).await;
    let reading = open_read_only(options(&fixture), new_freshness()).await.unwrap();
    assert_eq!(reading.sessions_of(id(2)).await.unwrap().len(), 1);
    reading.close().await;
}

async fn a_store_of_another_release_is_not_opened_for_reading(fixture: Fixture) {
    for (version, said) in [(1, "made by an unreleased version"), (99, "written by a newer release")] {
        let sql = match fixture.location {
            Location::File(_) => format!("PRAGMA user_version = {version}"),
            Location::Server(_) => format!("UPDATE schema_version SET version = {version}"),
        };
        fixture.sql(&sql).await;
        let refused = open_read_only(options(&fixture), new_freshness()).await.err().unwrap().to_string();
        assert!(refused.contains(&format!("schema version {version}")) && refused.contains(said), "{refused}");
    }
}
