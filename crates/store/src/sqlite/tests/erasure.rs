//! Deleted data is gone from the file, too.

use domain::feedback::{Feedback, FeedbackEntry};
use domain::team::RosterEntry;
use domain::{Change, PermissionSet, Roster, TeamMember, User};
use rusqlite::Connection;

use super::*;
use crate::StoreError;
use crate::sqlite::{vacuum, vacuum_needs};

const NAME: &str = "Marlow Unmistakable";

fn marlow() -> User {
    User { name: NAME.to_owned(), ..person(7) }
}

fn roster(users: &[User]) -> Change {
    let entry = |user: &User| RosterEntry {
        member: TeamMember {
            username: user.username.clone(),
            name: user.name.clone(),
            avatar: user.avatar.clone(),
            discord_id: user.id,
            role: String::new(),
            color: "#000000".to_owned(),
            category: "x".to_owned(),
            position: 0,
        },
        permissions: PermissionSet::default(),
    };
    Change::Team(Roster(users.iter().map(entry).collect()))
}

/// How often the name appears in the database and its log.
fn hits(fixture: &Fixture) -> usize {
    let found = ["db", "db-wal"].map(|extension| std::fs::read(fixture.file().with_extension(extension)));
    let bytes = found.into_iter().flat_map(Result::unwrap_or_default).collect::<Vec<u8>>();
    bytes.windows(NAME.len()).filter(|window| *window == NAME.as_bytes()).count()
}

#[tokio::test]
async fn a_name_that_was_deleted_is_not_left_in_the_file() {
    let fixture = sqlite().await;
    let store = &fixture.store;
    // Signed out, removed from the roster, feedback withdrawn: all without `forget`.
    store.save_grant(marlow(), grant(1), NOW, None).await.unwrap();
    store.open_session(marlow(), token(1), session(7, 1), 10).await.unwrap();
    let entry = FeedbackEntry { feedback: "good".to_owned(), rating: 5, timestamp: 1, submitter: marlow() };
    let feedback = Change::Feedback(Feedback { id: "a".to_owned(), entry });
    store.apply(vec![roster(&[person(5), marlow()]), feedback]).await.unwrap();
    fixture.outside().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    assert!(hits(&fixture) >= 3, "the scan finds what is there");
    store.end_sessions(id(7), NOW).await.unwrap();
    store.apply(vec![roster(&[person(5)]), Change::FeedbackGone("a".to_owned())]).await.unwrap();
    store.close().await;
    assert_eq!(hits(&fixture), 0);
}

#[tokio::test]
async fn a_vacuum_removes_what_is_left_in_free_pages() {
    let fixture = sqlite().await;
    fixture.store.close().await;
    left_over(&fixture.outside());
    assert!(hits(&fixture) > 0, "the name is left");
    let needs = vacuum_needs(fixture.file()).await.unwrap().unwrap();
    assert!(needs.size > 0 && needs.free.is_some(), "{needs:?}");
    let reader = fixture.outside();
    reader.execute_batch("BEGIN; SELECT count(*) FROM blocked_users").unwrap();
    assert!(matches!(vacuum(fixture.file()).await, Err(StoreError::Busy(_))), "the log cannot be emptied");
    reader.execute_batch("COMMIT").unwrap();
    vacuum(fixture.file()).await.unwrap();
    assert_eq!(hits(&fixture), 0);
    assert_eq!(vacuum_needs(fixture.file().with_extension("absent")).await.unwrap(), None);
}

/// Leaves a deleted name in the file.
fn left_over(other: &Connection) {
    let sql = format!(
        "PRAGMA secure_delete = off;
        INSERT INTO blocked_users (user_id, reason, since) VALUES (7, '{NAME}', 0);
        DELETE FROM blocked_users;
        PRAGMA wal_checkpoint(TRUNCATE)"
    );
    other.execute_batch(&sql).unwrap();
}
