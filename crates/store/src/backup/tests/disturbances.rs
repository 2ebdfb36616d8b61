//! A backup during which the data changes, and a restore that is broken off.

use secrecy::ExposeSecret as _;
use tokio_util::sync::CancellationToken;

use super::*;

#[test]
fn what_changes_during_a_backup_is_not_in_it() {
    for on in destinations() {
        let mut home = Home::new();
        let (source, restored_to) = (home.full(on), home.store(On::File, "restored.db"));
        let (before, file, mut changed) = (contents(&source), home.file("full.db"), false);
        let mut missing = u64::MAX;
        let mut watch = |progress: Progress<'_>| {
            missing = progress.of - progress.rows;
            if progress.table == "guilds" && !changed {
                let sql = "UPDATE instances SET reported = reported + 1; DELETE FROM guilds; DELETE FROM team";
                match on {
                    On::File => Connection::open(&file).unwrap().execute_batch(sql).unwrap(),
                    On::Server => ask(source.expose_secret(), sql),
                }
                changed = true;
            }
        };
        run(back_up(&taking(&source), &home.file("backup"), &mut watch)).unwrap();
        assert_eq!(missing, 0, "the progress counted what the backup has");
        restored(&options(&home, &restored_to, "backup")).unwrap();
        assert!(contents(&source) != before && contents(&restored_to) == before, "{on:?}");
    }
}

#[test]
fn a_restore_that_was_broken_off_leaves_nothing_and_can_be_run_again() {
    for to in destinations() {
        let mut home = Home::new();
        let (source, destination) = (home.full(On::File), home.store(to, "restored.db"));
        backed_up(&home, &source, "backup").unwrap();
        let what = options(&home, &destination, "backup");
        let (stop, mut seen) = (CancellationToken::new(), 0);
        let outcome = run(async {
            let mut watch = |progress: Progress<'_>| {
                seen += u32::from(progress.table == "guilds");
                if seen == 2 {
                    stop.cancel();
                }
            };
            let restoring = restore(&what, &mut watch);
            tokio::select! {
                biased;
                () = stop.cancelled() => None,
                restored = restoring => Some(restored),
            }
        });
        assert!(outcome.is_none(), "it was not broken off: {outcome:?}");
        run(async {
            let store = open(&destination).await.unwrap();
            assert!(store.blocked().await.unwrap().is_empty(), "{to:?}: half a restore");
            store.close().await;
        });
        restored(&what).unwrap();
        assert!(contents(&source) == contents(&destination), "{to:?}");
    }
}
