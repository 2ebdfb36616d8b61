//! What is refused, and that asking does no harm.

use secrecy::ExposeSecret as _;

use super::*;

fn refusal<T: std::fmt::Debug>(outcome: std::result::Result<T, BackupError>) -> String {
    let said = outcome.unwrap_err().to_string();
    assert!(!said.contains("secret"), "{said}");
    said
}

#[test]
fn a_destination_that_a_service_has_only_started_on_is_empty() {
    for to in destinations() {
        let mut home = Home::new();
        let (source, destination) = (home.small(), home.store(to, "other.db"));
        run(async { open(&destination).await.unwrap().close().await });
        run(moved(&source, &destination)).unwrap();
        assert!(refusal(run(moved(&source, &destination))).contains("the store is not empty"));
    }
}

#[test]
fn what_is_not_a_source_is_not_made_one() {
    let mut home = Home::new();
    let absent = home.store(On::File, "absent.db");
    let said = refusal(backed_up(&home, &absent, "backup"));
    assert!(said.contains("there is no database at") && said.contains("absent.db"), "{said}");
    std::fs::write(home.file("empty.db"), "").unwrap();
    std::fs::write(home.file("text.db"), "not a database, but long enough to look at it as if it were one".repeat(50))
        .unwrap();
    for name in ["empty.db", "text.db"] {
        let source = home.store(On::File, name);
        let said = refusal(backed_up(&home, &source, "backup"));
        assert!(said.contains(name) && said.contains("not a"), "{said}");
    }
    assert!(!home.file("absent.db").exists() && !home.file("backup").exists());
    assert_eq!(std::fs::metadata(home.file("empty.db")).unwrap().len(), 0);
    if has_server() {
        let new = home.store(On::Server, "new");
        let said = refusal(backed_up(&home, &new, "backup"));
        assert!(said.ends_with("it is not a store of this service"), "{said}");
        assert!(!home.file("backup").exists());
    }
}

#[test]
fn a_schema_of_another_release_is_refused_on_either_side() {
    for on in destinations() {
        let mut home = Home::new();
        let url = home.filled(on, 3);
        backed_up(&home, &url, "backup").unwrap();
        match on {
            On::File => {
                Connection::open(home.file("full.db")).unwrap().pragma_update(None, "user_version", 99).unwrap();
            }
            On::Server => ask(url.expose_secret(), "UPDATE schema_version SET version = 99"),
        }
        let what = RestoreOptions { replace: true, ..options(&home, &url, "backup") };
        for said in [refusal(backed_up(&home, &url, "again")), refusal(restored(&what))] {
            assert!(said.contains(": it has the schema of another release (version 99"), "{said}");
        }
    }
}

#[test]
fn a_wrong_url_is_never_shown() {
    let home = Home::new();
    let wrong = SecretString::from("postgres://me:secret@");
    assert!(refusal(backed_up(&home, &wrong, "backup")).starts_with("store.url: "));
    assert!(refusal(restored(&options(&home, &wrong, "backup"))).starts_with("store.url: "));
}
