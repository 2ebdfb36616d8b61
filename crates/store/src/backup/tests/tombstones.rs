//! Restoring a backup must not bring back anyone who was forgotten.

use super::*;

#[test]
fn a_restore_over_a_tombstone_finds_the_person_wherever_they_stand() {
    use domain::audit::{AuditEntry, AuditKind};
    use domain::{Change, Guild};

    use crate::tests::{code, guild, person};
    const IN_AUDIT: u64 = 777_000_001;
    const OWNER: u64 = 777_000_002;
    const CLAIMED: u64 = 777_000_003;
    for on in destinations() {
        let mut home = Home::new();
        let url = home.store(on, "store.db");
        let user = |number| Snowflake::new(number).unwrap();
        let all = [IN_AUDIT, OWNER, CLAIMED].map(user);
        run(async {
            let store = open(&url).await.unwrap();
            let entry = AuditEntry { person: Some(IN_AUDIT.to_string()), ..AuditEntry::new(NOW, AuditKind::SignIn) };
            store.write_audit(vec![entry], None).await.unwrap();
            store.apply(vec![Change::Guild(Guild { owner: user(OWNER), ..guild(1) })]).await.unwrap();
            let until = NOW.after(Duration::from_mins(2));
            store.claim_code(code(1), NOW, until).await.unwrap();
            store.settle_code(code(1), Some(person(CLAIMED)), until).await.unwrap();
            store.close().await;
        });
        backed_up(&home, &url, "backup").unwrap();
        run(async {
            let store = open(&url).await.unwrap();
            for user in all {
                store.forget(user, NOW).await.unwrap();
            }
            store.close().await;
        });
        let report = restored(&RestoreOptions { replace: true, ..options(&home, &url, "backup") }).unwrap();
        assert_eq!(report.forget_again, all, "{on:?}");
        let named = |when: &str| contents(&url).into_iter().filter(|row| row.contains(when)).count();
        assert!(named("777000") >= 3, "the backup has brought them back");
        run(async {
            let store = open(&url).await.unwrap();
            for user in report.forget_again {
                store.forget(user, NOW).await.unwrap();
            }
            store.close().await;
        });
        assert_eq!(named("777000"), 0, "{on:?}");
    }
}

#[test]
fn a_restore_over_a_newer_tombstone_finds_what_the_bot_sent_again() {
    use domain::{Change, Guild};

    use crate::tests::guild;
    for on in destinations() {
        let mut home = Home::new();
        let url = home.store(on, "store.db");
        let user = |number| Snowflake::new(number).unwrap();
        let (twice, once) = (user(777_000_001), user(777_000_002));
        let owned = |number, owner| Change::Guild(Guild { owner, ..guild(number) });
        run(async {
            let store = open(&url).await.unwrap();
            for user in [twice, once] {
                store.forget(user, NOW).await.unwrap();
            }
            store.apply(vec![owned(1, twice), owned(2, once)]).await.unwrap();
            store.close().await;
        });
        backed_up(&home, &url, "backup").unwrap();
        let later = NOW.after(Duration::from_secs(1));
        run(async {
            let store = open(&url).await.unwrap();
            store.forget(twice, later).await.unwrap();
            assert_eq!(store.traces(twice).await.unwrap().forgotten, Some(later));
            store.close().await;
        });
        let latest = later.after(Duration::from_secs(1));
        let what = RestoreOptions { replace: true, now: latest, ..options(&home, &url, "backup") };
        assert_eq!(restored(&what).unwrap().forget_again, [twice], "{on:?}");
        // Nobody has forgotten them again, and the store still knows that it has to be done.
        assert_eq!(restored(&what).unwrap().forget_again, [twice], "{on:?}");
    }
}
