//! What is refused, and that asking does no harm.

use super::*;

fn refusal(outcome: std::result::Result<CopyReport, CopyError>) -> String {
    let said = outcome.unwrap_err().to_string();
    assert!(!said.contains("secret"), "{said}");
    said
}

#[test]
fn a_destination_with_data_of_its_own_is_left_alone() {
    for to in destinations() {
        let mut home = Home::new();
        let (source, destination) = (home.small(), home.store(to, "other.db"));
        run(async {
            let store = open(&destination).await.unwrap();
            let blocked = crate::BlockedUser {
                user: domain::Snowflake::new(5).unwrap(),
                reason: String::new(),
                since: domain::Time::from_seconds(1),
            };
            store.block(blocked).await.unwrap();
            store.close().await;
        });
        let said = refusal(run(copied(&source, &destination)));
        assert!(said.contains("already has data") && said.contains("`blocked_users`"), "{said}");
        assert!(said.contains("point --to at an empty database"), "{said}");
        run(async {
            let store = open(&destination).await.unwrap();
            assert_eq!(store.blocked().await.unwrap().len(), 1);
            store.close().await;
        });
    }
}

#[test]
fn a_destination_that_a_service_has_only_started_on_is_empty() {
    for to in destinations() {
        let mut home = Home::new();
        let (source, destination) = (home.small(), home.store(to, "other.db"));
        run(async { open(&destination).await.unwrap().close().await });
        run(copied(&source, &destination)).unwrap();
    }
}

#[test]
fn a_finished_copy_is_not_copied_over() {
    for to in destinations() {
        let mut home = Home::new();
        let (source, destination) = (home.small(), home.store(to, "copy.db"));
        run(copied(&source, &destination)).unwrap();
        assert!(refusal(run(copied(&source, &destination))).contains("already has data"));
    }
}

#[test]
fn a_source_in_use_is_refused_and_makes_no_destination() {
    for from in destinations() {
        let mut home = Home::new();
        let (source, destination) = (home.filled(from, 3), home.store(On::File, "copy.db"));
        run(async {
            let service = open(&source).await.unwrap();
            let said = refusal(copied(&source, &destination).await);
            assert!(said.contains("the store is in use") && said.contains("stop the service"), "{said}");
            service.team().await.unwrap();
            service.close().await;
        });
        assert!(!home.file("copy.db").exists());
        run(copied(&source, &destination)).unwrap();
    }
}

#[test]
fn nobody_writes_to_a_file_while_it_is_copied() {
    let mut home = Home::new();
    let (source, destination) = (home.full(On::File), home.store(On::File, "copy.db"));
    let file = home.file("full.db");
    let mut refused = 0;
    let what = what(&source, &destination);
    let mut watch = |progress: Progress<'_>| {
        if progress.table == "guilds" && refused == 0 || progress.rows == progress.of {
            let other = Connection::open(&file).unwrap();
            other.busy_timeout(Duration::ZERO).unwrap();
            let error = other.execute_batch("UPDATE counter SET value = value + 1").unwrap_err();
            assert!(error.to_string().contains("locked"), "{error}");
            refused += 1;
        }
    };
    run(copy(&what, &mut watch)).unwrap();
    assert_eq!(refused, 3, "in the middle, and with the last row of either stage");
    assert!(contents(&source) == contents(&destination));
}

#[test]
fn a_database_that_changes_meanwhile_makes_no_copy() {
    if !has_server() {
        return;
    }
    let mut home = Home::new();
    let (source, destination) = (home.full(On::Server), home.store(On::File, "copy.db"));
    let mut changed = false;
    let what = what(&source, &destination);
    let mut watch = |progress: Progress<'_>| {
        use secrecy::ExposeSecret as _;
        if progress.table == "guilds" && !changed {
            ask(source.expose_secret(), "UPDATE instances SET reported = reported + 1; DELETE FROM guilds");
            changed = true;
        }
    };
    let said = refusal(run(copy(&what, &mut watch)));
    assert!(said.contains("guilds has 10505 rows, but 0 in the source"), "{said}");
    assert!(said.contains("instances has different contents") && said.contains("nothing was copied"), "{said}");
    run(async {
        let store = open(&destination).await.unwrap();
        assert!(store.keys().await.unwrap().is_empty());
        store.close().await;
    });
}

#[test]
fn a_database_that_changes_while_the_copy_is_compared_makes_none() {
    use secrecy::ExposeSecret as _;
    if !has_server() {
        return;
    }
    let mut home = Home::new();
    let (source, destination) = (home.filled(On::Server, 3), home.store(On::File, "copy.db"));
    let what = what(&source, &destination);
    let mut watch = |progress: Progress<'_>| {
        if progress.stage == Stage::Comparing && progress.rows == progress.of {
            ask(source.expose_secret(), "UPDATE instances SET reported = reported + 1");
        }
    };
    let said = refusal(run(copy(&what, &mut watch)));
    assert!(said.contains("instances has different contents") && said.contains("nothing was copied"), "{said}");
}

#[test]
fn a_copy_that_an_earlier_release_has_not_finished_is_no_store_until_it_is_replaced() {
    for on in destinations() {
        let mut home = Home::new();
        let (whole, half) = (home.small(), home.store(on, "half.db"));
        run(copied(&whole, &half)).unwrap();
        let begun = "CREATE TABLE store_copy (position TEXT)";
        match on {
            On::File => Connection::open(home.file("half.db")).unwrap().execute_batch(begun).unwrap(),
            On::Server => {
                use secrecy::ExposeSecret as _;
                ask(half.expose_secret(), begun);
            }
        }
        let options = || StoreOptions {
            url: half.clone(),
            wait: Duration::from_mins(1),
            connections: 2,
            start_wait: Duration::from_mins(5),
        };
        let said = [
            run(async { open(&half).await.err().unwrap().to_string() }),
            run(async { crate::open_read_only(options(), new_freshness()).await.err().unwrap().to_string() }),
            run(crate::look(&half, Duration::from_mins(1))).err().unwrap().to_string(),
            refusal(run(copied(&half, &home.store(On::File, "other.db")))),
        ];
        for said in said {
            assert!(said.contains("a copy into this database was not finished"), "{on:?}: {said}");
        }
        let what = BackupOptions { url: whole.clone(), start_wait: Duration::from_mins(5), now: NOW };
        run(back_up(&what, &home.file("backup"), &mut unseen)).unwrap();
        let what = RestoreOptions {
            url: half.clone(),
            start_wait: Duration::from_mins(5),
            file: home.file("backup"),
            replace: true,
            keep_sessions: true,
            now: NOW,
        };
        run(restore(&what, &mut unseen)).unwrap();
        assert!(contents(&half) == contents(&whole), "{on:?}");
    }
}

#[test]
fn what_is_not_a_source_is_not_made_one() {
    let mut home = Home::new();
    let destination = home.store(On::File, "copy.db");
    let absent = home.store(On::File, "absent.db");
    let said = refusal(run(copied(&absent, &destination)));
    assert!(said.contains("there is no database at") && said.contains("absent.db"), "{said}");
    std::fs::write(home.file("empty.db"), "").unwrap();
    std::fs::write(home.file("text.db"), "not a database, but long enough to look at it as if it were one".repeat(50))
        .unwrap();
    for (name, word) in [("empty.db", "failed"), ("text.db", "is damaged")] {
        let source = home.store(On::File, name);
        let said = refusal(run(copied(&source, &destination)));
        assert!(said.starts_with(&format!("the source {word}: ")) && said.contains("not a"), "{said}");
    }
    assert!(!home.file("absent.db").exists() && !home.file("copy.db").exists());
    assert_eq!(std::fs::metadata(home.file("empty.db")).unwrap().len(), 0);
    if has_server() {
        let said = refusal(run(copied(&home.store(On::Server, "new"), &destination)));
        assert_eq!(said, "the source failed: it is not a store of this service");
        assert!(!home.file("copy.db").exists());
    }
}

#[test]
fn a_store_is_not_copied_onto_itself() {
    let mut home = Home::new();
    let source = home.small();
    std::os::unix::fs::symlink(home.file("full.db"), home.file("link.db")).unwrap();
    for destination in [source.clone(), home.store(On::File, "link.db")] {
        let said = refusal(run(copied(&source, &destination)));
        assert!(said.contains("name the same store"), "{said}");
    }
    if has_server() {
        let mut home = Home::new();
        let source = home.filled(On::Server, 3);
        let said = refusal(run(copied(&source, &source)));
        assert!(said.contains("name the same store"), "{said}");
        run(async { open(&source).await.unwrap().close().await });
    }
}

#[test]
fn a_schema_of_another_release_is_refused_on_either_side() {
    for to in destinations() {
        let mut home = Home::new();
        let (source, destination) = (home.small(), home.store(to, "copy.db"));
        run(async { open(&destination).await.unwrap().close().await });
        let set = |home: &Home, url: &SecretString, on, name, version: i64| match on {
            On::File => {
                Connection::open(home.file(name)).unwrap().pragma_update(None, "user_version", version).unwrap();
            }
            On::Server => {
                use secrecy::ExposeSecret as _;
                ask(url.expose_secret(), &format!("UPDATE schema_version SET version = {version}"));
            }
        };
        set(&home, &destination, to, "copy.db", 99);
        let said = refusal(run(copied(&source, &destination)));
        assert!(said.starts_with("the destination failed: "), "{said}");
        assert!(said.contains(": it has the schema of another release (version 99"), "{said}");
        set(&home, &source, On::File, "full.db", 98);
        let said = refusal(run(copied(&source, &destination)));
        assert!(said.starts_with("the source failed: "), "{said}");
        assert!(said.contains(": it has the schema of another release (version 98"), "{said}");
    }
}

#[test]
fn a_wrong_url_is_named_by_its_option_and_never_shown() {
    let file = SecretString::from("sqlite:/absent/x.db");
    let wrong = SecretString::from("postgres://me:secret@");
    assert!(refusal(run(copied(&wrong, &file))).starts_with("--from: "));
    assert!(refusal(run(copied(&file, &"mysql://me:secret@host/x".into()))).starts_with("--to: write `sqlite:PATH`"));
}
