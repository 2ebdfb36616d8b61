//! Backups of real stores, restored into others.

use std::os::unix::fs::PermissionsExt as _;

use domain::forgotten::UserHash;
use secrecy::ExposeSecret as _;

use super::*;
use crate::{BlockedUser, BotKey};

fn refusal(what: &RestoreOptions) -> String {
    restored(what).unwrap_err().to_string()
}

#[test]
fn a_backup_of_either_store_restores_into_either() {
    for (from, to) in ways() {
        let mut home = Home::new();
        let (source, destination) = (home.full(from), home.store(to, "restored.db"));
        let header = backed_up(&home, &source, "backup").unwrap();
        assert_eq!(header.tables.iter().find(|table| table.name == "guilds").unwrap().rows, data::GUILDS as u64 + 5);
        assert_eq!(header.taken, NOW.millis());
        let mode = std::fs::metadata(home.file("backup")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let folder: Vec<_> = std::fs::read_dir(home.file(".")).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert!(!folder.iter().any(|name| name.to_string_lossy().ends_with(".part")), "{folder:?}");
        let report = restored(&options(&home, &destination, "backup")).unwrap();
        assert_eq!(report.header, header);
        assert!(contents(&source) == contents(&destination), "{from:?} to {to:?}: the stores differ");
        run(async {
            let store = open(&destination).await.unwrap();
            // In the order in which they were created.
            let keys: Vec<_> = store.keys().await.unwrap().into_iter().map(|key| key.id).collect();
            assert_eq!(keys, ["bb", "aa"]);
            store.close().await;
        });
        let again = backed_up(&home, &source, "backup").unwrap_err().to_string();
        assert!(again.contains("already exists; name another file"), "{again}");
    }
}

#[test]
fn what_postgresql_cannot_store_is_replaced() {
    if !has_server() {
        return;
    }
    let mut home = Home::new();
    let (source, destination) = (home.small(), home.store(On::Server, "restored"));
    let file = Connection::open(home.file("full.db")).unwrap();
    // The second changes its position among the others.
    file.execute_batch(
        "UPDATE team SET name = 'a' || char(0) || 'b' || char(0), role = char(0) WHERE ordinal = 0;
        UPDATE feedback SET id = char(0) || 'x' WHERE slot = 3",
    )
    .unwrap();
    drop(file);
    run(moved(&source, &destination)).unwrap();
    let (name, id): (String, String) = looked_at(&destination, |back| {
        let text = |sql| back.query_row(sql, [], |row| row.get(0)).unwrap();
        (text("SELECT name FROM team WHERE ordinal = 0"), text("SELECT id FROM feedback WHERE slot = 3"))
    });
    assert_eq!((name.as_str(), id.as_str()), ("a\u{fffd}b\u{fffd}", "\u{fffd}x"));
}

#[test]
fn of_two_backups_with_one_name_the_first_stays() {
    let mut home = Home::new();
    let source = home.filled(destinations()[0], 3);
    let file = home.file("backup");
    let mut watch = |_: Progress<'_>| std::fs::write(&file, "another one").unwrap();
    let refused = run(back_up(&taking(&source), &file, &mut watch)).unwrap_err().to_string();
    assert!(refused.contains("already exists"), "{refused}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "another one");
    let folder: Vec<_> = std::fs::read_dir(home.file(".")).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(!folder.iter().any(|name| name.to_string_lossy().ends_with(".part")), "{folder:?}");
}

#[test]
fn a_backup_is_taken_beside_the_running_service_and_a_restore_is_refused_there() {
    for on in destinations() {
        let mut home = Home::new();
        let source = home.filled(on, 3);
        let before = contents(&source);
        let what = RestoreOptions { replace: true, ..options(&home, &source, "backup") };
        run(async {
            let service = open(&source).await.unwrap();
            back_up(&taking(&source), &home.file("backup"), &mut unseen).await.unwrap();
            let refused = restore(&what, &mut unseen).await.unwrap_err().to_string();
            assert!(refused.contains("the store is in use") && refused.contains("stop the service"), "{refused}");
            service.team().await.unwrap();
            service.close().await;
        });
        assert!(contents(&source) == before);
        restored(&what).unwrap();
        assert!(contents(&source) == before, "{on:?}");
    }
}

#[test]
fn what_is_not_a_whole_backup_is_refused_before_anything_is_written() {
    for on in destinations() {
        let mut home = Home::new();
        let source = home.small();
        assert_eq!(backed_up(&home, &source, "backup").unwrap().store, "SQLite");
        let whole = std::fs::read(home.file("backup")).unwrap();
        // A different store from the backup's, so that a restore would show.
        Connection::open(home.file("full.db")).unwrap().execute_batch("DELETE FROM team").unwrap();
        let destination = if on == On::File { source.clone() } else { home.store(on, "other") };
        if on == On::Server {
            run(moved(&source, &destination)).unwrap();
        }
        let before = contents(&destination);
        let what = RestoreOptions { replace: true, ..options(&home, &destination, "wrong") };
        let says = |bytes: &[u8], word: &str| {
            std::fs::write(home.file("wrong"), bytes).unwrap();
            let refused = refusal(&what);
            assert!(refused.contains(word), "{word}: {refused}");
        };
        for end in [whole.len() - 1, whole.len() - 40, whole.len() / 2] {
            says(&whole[..end], "it ends too early");
        }
        says(&[&whole[..], b"x"].concat(), "there is data after its end");
        for place in (0..40).map(|part| whole.len() * part / 40) {
            let mut changed = whole.clone();
            changed[place] ^= 0x20;
            says(&changed, "backup");
        }
        let text = |from: &str, to: &str| {
            let place = whole.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
            [&whole[..place], to.as_bytes(), &whole[place + from.len()..]].concat()
        };
        says(&text("backup 2\n", "backup 3\n"), "written by a newer release");
        says(&text("backup 2\n", "backup 1\n"), "made by an unreleased version");
        says(&text("\"schema\":", "\"schema\":9"), "restore it with that release or a newer one");
        for (from, to) in [
            ("\"team\"", "\"probe\""),
            ("\"team\"", "\"counter\""),
            ("\"team\"", "\"guilds\""),
            ("\"team\"", "\"sqlite_schema\""),
            ("\"avatar\"", "\"avatar\\\") SELECT 1\""),
            // Names that SQLite knows for a row's number, a duplicate column, one too few, and one that is not backed up.
            ("\"signing_in\"", "\"rowid\""),
            ("\"signing_in\"", "\"_rowid_\""),
            ("\"signing_in\"", "\"oid\""),
            ("\"signing_in\"", "\"list_fetched\""),
            ("\"signing_in\"", "\"refresh_until\""),
            ("\"tries\",\"sending_until\"", "\"tries\""),
            ("\"user_id\",\"reason\"", "\"rowid\",\"reason\""),
        ] {
            says(&tampered(&whole, from, to), "its tables are not those of its schema");
        }
        says(b"SQLite format 3", "is not a backup of this service");
        says(b"", "is not a backup of this service");
        assert!(contents(&destination) == before, "{on:?}: something was changed");
    }
}

#[test]
fn a_store_with_data_is_replaced_only_if_told_and_sessions_end_unless_told() {
    for on in destinations() {
        let mut home = Home::new();
        let source = home.small();
        backed_up(&home, &source, "backup").unwrap();
        let destination = home.store(on, "restored.db");
        let what = RestoreOptions { keep_sessions: false, ..options(&home, &destination, "backup") };
        assert_eq!(restored(&what).unwrap().sessions_ended, 50);
        let found = contents(&destination);
        let rows = |table: &str| found.iter().filter(|row| row.starts_with(&format!("{table}: "))).count();
        assert_eq!((rows("sessions"), rows("users"), rows("team")), (0, 0, 2));
        run(async {
            let store = open(&destination).await.unwrap();
            let due = NOW.after(Duration::from_mins(1));
            let revocation = store.take_revocation(due, due.after(Duration::from_mins(1))).await.unwrap().unwrap();
            assert_eq!(revocation.user.get(), 1, "the one user with a grant");
            store.close().await;
        });
        let refused = refusal(&what);
        assert!(refused.contains("the store is not empty") && refused.contains("--replace"), "{refused}");
        restored(&RestoreOptions { replace: true, keep_sessions: true, ..what }).unwrap();
        assert!(contents(&destination) == contents(&source));
    }
}

#[test]
fn keys_blocks_and_forgotten_users_that_differ_are_listed() {
    for on in destinations() {
        let mut home = Home::new();
        let url = home.store(on, "store.db");
        let user = |number| Snowflake::new(number).unwrap();
        let key = |id: &str| BotKey { id: id.to_owned(), label: "x".to_owned(), created: NOW, revoked: None };
        let hash = |number| domain::TokenHash([number; 32]);
        let block = |number| BlockedUser { user: user(number), reason: String::new(), since: NOW };
        let person = |number| crate::tests::person(number);
        run(async {
            let store = open(&url).await.unwrap();
            store.add_key(key("stays"), hash(1)).await.unwrap();
            store.add_key(key("revoked"), hash(2)).await.unwrap();
            store.block(block(100)).await.unwrap();
            for number in [300, 301] {
                store.save_grant(person(number), crate::tests::grant(1), NOW, None).await.unwrap();
            }
            store.close().await;
        });
        backed_up(&home, &url, "backup").unwrap();
        run(async {
            let store = open(&url).await.unwrap();
            store.revoke_key("revoked".to_owned(), NOW).await.unwrap();
            store.add_key(key("new"), hash(3)).await.unwrap();
            store.unblock(user(100)).await.unwrap();
            store.block(block(200)).await.unwrap();
            store.forget(user(300), NOW).await.unwrap();
            store.close().await;
        });
        let report = restored(&RestoreOptions { replace: true, ..options(&home, &url, "backup") }).unwrap();
        let ids = |keys: &[BotKey]| keys.iter().map(|key| (key.id.clone(), key.revoked)).collect::<Vec<_>>();
        assert_eq!(ids(&report.keys_back), [("revoked".to_owned(), Some(NOW))]);
        assert_eq!(ids(&report.keys_gone), [("new".to_owned(), None)]);
        assert_eq!((report.blocks_gone, report.blocks_back), (vec![user(200)], vec![user(100)]));
        assert_eq!(report.forget_again, [user(300)]);
        run(async {
            let store = open(&url).await.unwrap();
            assert!(store.traces(user(300)).await.unwrap().forgotten.is_some(), "and that is known again");
            assert_ne!(UserHash::of(user(300)), UserHash::of(user(301)));
            assert!(store.traces(user(301)).await.unwrap().forgotten.is_none());
            store.close().await;
        });
    }
}

/// The backup with a different header and the matching checksum, which anyone who can write the file can produce.
fn tampered(whole: &[u8], from: &str, to: &str) -> Vec<u8> {
    let place = whole.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
    let body = [&whole[..place], to.as_bytes(), &whole[place + from.len()..whole.len() - 32]].concat();
    let checksum = digest::digest(&digest::SHA256, &body);
    [&body, checksum.as_ref()].concat()
}

#[test]
fn a_tampered_header_is_refused_and_shown_to_no_terminal() {
    let mut home = Home::new();
    let source = home.small();
    backed_up(&home, &source, "backup").unwrap();
    let whole = std::fs::read(home.file("backup")).unwrap();
    let release = format!("\"release\":\"{}\"", telemetry::Version::NAME);
    let taken = format!("\"taken\":{}", NOW.millis());
    let (counter, large) = ("\"counter\":123456789", "x".repeat(65));
    let before = contents(&source);
    let what = RestoreOptions { replace: true, ..options(&home, &source, "wrong") };
    let cases = [
        (release.as_str(), "\"release\":\"\\u001b[2J\"".to_owned(), "names no release"),
        (&release, "\"release\":\"1\u{9b}2J\"".to_owned(), "names no release"),
        (&release, "\"release\":\"\"".to_owned(), "names no release"),
        (&release, format!("\"release\":\"{large}\""), "names no release"),
        ("\"store\":\"SQLite\"", "\"store\":\"\\u001b[2J\"".to_owned(), "names no kind of store"),
        (&taken, format!("\"taken\":{}", u64::MAX), "after the year 9999"),
        (counter, format!("\"counter\":{}", i64::MAX), "an impossible counter"),
        (counter, format!("\"counter\":{}", (1_i64 << 53) + 1), "an impossible counter"),
        (counter, "\"counter\":-1".to_owned(), "an impossible counter"),
    ];
    for (from, to, word) in cases {
        std::fs::write(home.file("wrong"), tampered(&whole, from, &to)).unwrap();
        let refused = refusal(&what);
        assert!(refused.contains(word) && refused.contains("Nothing was changed"), "{word}: {refused}");
        assert!(!refused.contains(char::is_control), "{refused:?}");
    }
    assert!(contents(&source) == before, "something was changed");
    // The tampering itself is correct: with the same header it is a valid backup.
    std::fs::write(home.file("wrong"), tampered(&whole, counter, counter)).unwrap();
    restored(&what).unwrap();
}

#[test]
fn a_row_with_a_number_that_no_store_reaches_is_refused() {
    let mut home = Home::new();
    let source = home.small();
    let file = Connection::open(home.file("full.db")).unwrap();
    file.execute_batch("UPDATE users SET grant_version = 9223372036854775807 WHERE id = 1").unwrap();
    drop(file);
    // A backup is read back after it was written, the way a restore reads it.
    let refused = backed_up(&home, &source, "backup").unwrap_err().to_string();
    assert!(
        refused.contains("`users`") && refused.contains("an impossible number in the column `grant_version`"),
        "{refused}"
    );
    assert!(!home.file("backup").exists());
}

#[test]
fn a_good_backup_heals_an_absurd_counter_and_never_turns_a_good_one_back() {
    for on in destinations() {
        let mut home = Home::new();
        let source = home.filled(on, 3);
        let good = backed_up(&home, &source, "good").unwrap();
        let set = |home: &Home, number: i64| match on {
            On::File => {
                let file = Connection::open(home.file("full.db")).unwrap();
                file.execute("UPDATE counter SET value = ?1", [number]).unwrap();
            }
            On::Server => {
                ask(source.expose_secret(), &format!("SELECT setval('versions', {number})"));
            }
        };
        let what = RestoreOptions { replace: true, ..options(&home, &source, "good") };
        for (number, expected) in [(i64::MAX, good.counter), (good.counter + 7, good.counter + 7)] {
            set(&home, number);
            if number == i64::MAX {
                let refused = backed_up(&home, &source, "absurd").unwrap_err().to_string();
                assert!(refused.contains("no store reaches on its own") && refused.contains("to fix it"), "{refused}");
            }
            restored(&what).unwrap();
            let name = format!("after {number}");
            assert_eq!(backed_up(&home, &source, &name).unwrap().counter, expected, "{on:?}");
        }
        run(async {
            let store = open(&source).await.unwrap();
            let (user, grant) = (crate::tests::person(300), crate::tests::grant(1));
            store.save_grant(user, grant, NOW, None).await.expect("there is a next number");
            store.close().await;
        });
    }
}

#[test]
fn a_restore_that_fails_at_its_end_has_drawn_no_numbers() {
    if !has_server() {
        return;
    }
    let mut home = Home::new();
    let url = home.filled(On::Server, 3);
    backed_up(&home, &url, "backup").unwrap();
    ask(
        url.expose_secret(),
        "SELECT setval('versions', 5), setval(pg_get_serial_sequence('audit', 'id'), 5);
        CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'too late'; END $$;
        CREATE CONSTRAINT TRIGGER fails AFTER INSERT ON team DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION fail()",
    );
    let refused = refusal(&RestoreOptions { replace: true, ..options(&home, &url, "backup") });
    assert!(refused.contains("too late"), "{refused}");
    let drawn = run(async {
        let sql = "SELECT nextval('versions'), nextval(pg_get_serial_sequence('audit', 'id'))";
        let row = connect(url.expose_secret()).await.query_one(sql, &[]).await.unwrap();
        (row.get::<_, i64>(0), row.get::<_, i64>(1))
    });
    assert_eq!(drawn, (6, 6));
}

#[test]
fn what_fails_after_the_commit_is_no_failure() {
    if !has_server() {
        return;
    }
    let mut home = Home::new();
    let url = home.filled(On::Server, 3);
    backed_up(&home, &url, "backup").unwrap();
    ask(
        url.expose_secret(),
        "CREATE FUNCTION fail(BIGINT) RETURNS BIGINT LANGUAGE plpgsql IMMUTABLE AS
            $$ BEGIN IF current_query() LIKE 'ANALYZE%' THEN RAISE 'not now'; END IF; RETURN $1; END $$;
        CREATE INDEX fails ON team (fail(ordinal))",
    );
    restored(&RestoreOptions { replace: true, ..options(&home, &url, "backup") }).unwrap();
}
