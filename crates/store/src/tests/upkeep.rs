//! The store's operator side.

use domain::audit::{AuditEntry, AuditKind};
use domain::feedback::{Feedback, FeedbackEntry};
use domain::team::RosterEntry;
use domain::{Change, RevocationEnd, Roster, Subscription, TeamMember};

use super::*;
use crate::person_places::PLACES;
use crate::{AuditBounds, AuditFilter, Erased, GrantKind, HeldGrant, Resealed};

on_each_store! {
    grants_are_counted_by_the_key_that_sealed_them,
    a_grant_is_resealed_only_if_it_is_still_the_same,
    a_forgotten_user_is_in_no_table_and_the_feed_does_not_bring_the_name_back,
    the_holdings_are_counted,
    the_audit_is_bounded_and_forgets_who_is_forgotten,
    a_flood_of_one_kind_removes_no_row_of_another,
}

/// A grant as a vault encrypts it, as far as the store looks at it.
fn sealed_with(key: &str, rest: u8) -> SealedGrant {
    let mut bytes = vec![u8::try_from(key.len()).unwrap()];
    bytes.extend_from_slice(key.as_bytes());
    bytes.extend_from_slice(&[rest; 20]);
    SealedGrant(bytes)
}

async fn grants_are_counted_by_the_key_that_sealed_them(fixture: Fixture) {
    let store = &fixture.store;
    assert_eq!(store.grants_by_key().await.unwrap(), []);
    let damaged = [vec![], vec![0], vec![33; 40], vec![255; 40]].map(SealedGrant);
    let grants = [sealed_with("old", 1), sealed_with("new-key", 2), sealed_with("old", 255)];
    for (number, grant) in (1..).zip(grants.into_iter().chain(damaged)) {
        let user = person(number);
        store.save_grant(user.clone(), grant, NOW, None).await.unwrap();
        let device = u8::try_from(number).unwrap();
        store.open_session(user, token(device), session(number, device), 10).await.unwrap();
    }
    let counted = |of: &[(&str, u64)]| -> Vec<(String, u64)> {
        of.iter().map(|(key, count)| ((*key).to_owned(), *count)).collect()
    };
    assert_eq!(store.grants_by_key().await.unwrap(), counted(&[("", 4), ("new-key", 1), ("old", 2)]));
    // One that is waiting to be revoked counts until that was sent.
    store.end_sessions(id(1), NOW).await.unwrap();
    assert_eq!(store.grants_by_key().await.unwrap(), counted(&[("", 4), ("new-key", 1), ("old", 2)]));
    let account = store.account(id(2)).await.unwrap().unwrap();
    store.replace_grant(id(2), account.grant_version, sealed_with("old", 9)).await.unwrap();
    assert_eq!(store.grants_by_key().await.unwrap(), counted(&[("", 4), ("old", 3)]));
}

async fn a_grant_is_resealed_only_if_it_is_still_the_same(fixture: Fixture) {
    let store = &fixture.store;
    for user in 1..=5_u8 {
        let person = person(user.into());
        store.save_grant(person.clone(), sealed_with("old", user), NOW, None).await.unwrap();
        store.open_session(person, token(user), session(user.into(), user), 10).await.unwrap();
    }
    store.end_sessions(id(4), NOW).await.unwrap();
    let held = |user: u64, rest: u8| HeldGrant { user: id(user), sealed: sealed_with("old", rest) };
    let first = store.sealed_grants(GrantKind::InUse, None, 2).await.unwrap();
    assert_eq!(first, [held(1, 1), held(2, 2)]);
    let rest = store.sealed_grants(GrantKind::InUse, Some(id(2)), 10).await.unwrap();
    assert_eq!(rest, [held(3, 3), held(5, 5)]);
    assert_eq!(store.sealed_grants(GrantKind::InUse, Some(id(5)), 10).await.unwrap(), []);
    let to_revoke = store.sealed_grants(GrantKind::ToRevoke, None, 10).await.unwrap();
    assert_eq!(to_revoke, [held(4, 4)]);

    // The second is refreshed in the meantime, and the third one's sessions end.
    let version = store.account(id(2)).await.unwrap().unwrap().grant_version;
    store.replace_grant(id(2), version, sealed_with("old", 99)).await.unwrap();
    store.end_sessions(id(3), NOW).await.unwrap();
    let before = store.account(id(1)).await.unwrap().unwrap();
    let resealed = |grants: Vec<HeldGrant>| -> Vec<_> {
        grants.into_iter().map(|old| Resealed { sealed: sealed_with("new", 7), old }).collect()
    };
    let all = resealed([first, rest].concat());
    assert_eq!(store.replace_sealed(GrantKind::InUse, all).await.unwrap(), 2);
    let after = store.account(id(1)).await.unwrap().unwrap();
    assert_eq!(after.grant, Some(sealed_with("new", 7)));
    assert_eq!(after.grant_version, before.grant_version, "it is the same grant: whoever uses it may go on");
    assert_eq!(store.account(id(2)).await.unwrap().unwrap().grant, Some(sealed_with("old", 99)));
    assert_eq!(store.replace_sealed(GrantKind::ToRevoke, resealed(to_revoke)).await.unwrap(), 1);
    let counted = store.grants_by_key().await.unwrap();
    assert_eq!(counted, [("new".to_owned(), 3), ("old".to_owned(), 2)]);
}

/// Someone whose ID and name appear nowhere by chance.
const FORGETTABLE: u64 = 777_123_456_789;

fn forgettable() -> User {
    User { username: "marlow.777".to_owned(), name: "Marlow Unmistakable".to_owned(), ..person(FORGETTABLE) }
}

fn roster_of(users: &[User]) -> Change {
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

fn feedback_of(id: &str, user: &User) -> Change {
    let entry = FeedbackEntry { feedback: "good".to_owned(), rating: 5, timestamp: 1, submitter: user.clone() };
    Change::Feedback(Feedback { id: id.to_owned(), entry })
}

async fn a_forgotten_user_is_in_no_table_and_the_feed_does_not_bring_the_name_back(fixture: Fixture) {
    let (store, user) = (&fixture.store, forgettable());
    let other = person(5);
    store.claim_code(code(9), NOW, NOW.after(Duration::from_mins(1))).await.unwrap();
    store.settle_code(code(9), Some(user.clone()), NOW.after(Duration::from_mins(2))).await.unwrap();
    store.save_grant(user.clone(), grant(1), NOW, None).await.unwrap();
    store.open_session(user.clone(), token(1), session(FORGETTABLE, 1), 10).await.unwrap();
    let version = store.account(user.id).await.unwrap().unwrap().list_version;
    store.save_list(user.id, version, list(&[1, 2])).await.unwrap();
    let subscription = Subscription { userid: user.id, slots: 1, guilds: vec![placed(1)], active_until: None };
    let staffed = Guild { id: placed(1), owner: user.id, staff: Some([(user.id, vec![id(70)])].into()), ..guild(1) };
    let says = [
        Change::Guild(staffed),
        Change::Subscription(subscription),
        roster_of(&[other.clone(), user.clone()]),
        feedback_of("a", &user),
        feedback_of("b", &other),
    ];
    store.apply(says.into()).await.unwrap();
    let staged = "INSERT INTO staged_subscriptions (snapshot, userid, slots, active_until, guilds) VALUES (1, {}, 1, NULL, '[]')";
    fixture.sql(&staged.replace("{}", &FORGETTABLE.to_string())).await;
    let happened = AuditEntry { person: Some(FORGETTABLE.to_string()), ..AuditEntry::new(NOW, AuditKind::SignIn) };
    store
        .write_audit(vec![happened], Some(AuditBounds { rows: 1_000, before: Time::default(), now: NOW }))
        .await
        .unwrap();
    // They are in every place there is, except those that come with their end; `users show` finds all of it.
    let shown: Vec<_> = store.traces(user.id).await.unwrap().tables.into_iter().map(|(table, _)| table).collect();
    let ends = ["revocations", "blocked_users", "forgotten_users"];
    let places: Vec<_> = PLACES.iter().map(|place| place.table).filter(|table| !ends.contains(table)).collect();
    assert_eq!(shown, places);
    let before = fixture.everything().await;
    assert!(before.contains(&FORGETTABLE.to_string()) && before.contains("Marlow"), "the scan finds what is there");

    let erased = store.forget(user.id, NOW).await.unwrap();
    let expected = Erased {
        sessions: 1,
        roster: 1,
        feedback: 1,
        owned_guilds: 1,
        staff_guilds: erased.staff_guilds,
        subscriptions: 1,
        audit: 1,
    };
    assert_eq!(erased, expected);
    assert_eq!(store.session(token(1)).await.unwrap(), None);
    // The provider is told, and then nothing is left of that either.
    let later = NOW.after(Duration::from_hours(1));
    let revocation = store.take_revocation(later, later.after(Duration::from_mins(1))).await.unwrap().unwrap();
    assert_eq!((revocation.user, revocation.grant), (user.id, grant(1)));
    store.finish_revocation(user.id, revocation.until, RevocationEnd::Over { until: later }).await.unwrap();
    store.sweep(NOW.after(Duration::from_hours(48)), Time::default(), Time::default(), 100).await.unwrap();
    let nowhere = async |when: &str| {
        let left = fixture.everything().await;
        for trace in [FORGETTABLE.to_string().as_str(), "marlow.777", "Marlow Unmistakable"] {
            assert!(!left.contains(trace), "{when}: {trace} is left in {left}");
        }
    };
    nowhere("forgotten").await;
    assert_eq!(store.team().await.unwrap().0.len(), 1);
    assert_eq!(store.sample_feedback(1).await.unwrap().count, 2, "what was said stays");
    assert_eq!(store.forget(user.id, NOW).await.unwrap(), Erased::default(), "once more changes nothing");

    // The bot does not know, and sends everything again.
    let says = [
        roster_of(&[user.clone(), other.clone()]),
        feedback_of("a", &user),
        feedback_of("c", &user),
        Change::User(user.clone()),
    ];
    store.apply(says.into()).await.unwrap();
    nowhere("sent again").await;
    assert_eq!(store.team().await.unwrap().0.len(), 1);
    assert!(store.traces(user.id).await.unwrap().forgotten.is_some());

    // A user who signs in again wants to be known again.
    store.save_grant(user.clone(), grant(2), later, None).await.unwrap();
    assert!(store.traces(user.id).await.unwrap().forgotten.is_none());
    store.apply(vec![roster_of(std::slice::from_ref(&user)), feedback_of("a", &user)]).await.unwrap();
    let traces = store.traces(user.id).await.unwrap();
    assert_eq!((traces.roster, traces.feedback), (1, 1));
}

async fn the_holdings_are_counted(fixture: Fixture) {
    let store = &fixture.store;
    let empty = store.holdings().await.unwrap();
    assert!(empty.schema > 4 && empty.size > 1000, "{empty:?}");
    fixture.sign_in(1, 1).await;
    fixture.sign_in(1, 2).await;
    fixture.sign_in(2, 3).await;
    store.end_sessions(id(2), NOW).await.unwrap();
    store.forget(id(9), NOW).await.unwrap();
    store.apply(vec![feedback_of("a", &person(5))]).await.unwrap();
    let found = store.holdings().await.unwrap();
    assert_eq!((found.users, found.sessions, found.to_revoke, found.forgotten), (1, 2, 1, 1));
    assert_eq!(
        (found.oldest_session, found.newest_session),
        (Some(session(1, 1).created), Some(session(1, 2).created))
    );
    assert_eq!((found.good_keys, found.revoked_keys, found.blocked), (1, 0, 0));
    assert_eq!(found.newest_feedback, Some(Time::from_seconds(1)));
}

async fn the_audit_is_bounded_and_forgets_who_is_forgotten(fixture: Fixture) {
    let store = &fixture.store;
    let at = |second: u64| NOW.after(Duration::from_secs(second));
    let entry = |second: u64, kind, user: Option<u64>| AuditEntry {
        person: user.map(|user| user.to_string()),
        network: Some("192.0.2.0/24".to_owned()),
        request: Some("r".to_owned()),
        detail: second.to_string(),
        ..AuditEntry::new(at(second), kind)
    };
    let wide = Some(AuditBounds { rows: 1_000, before: Time::default(), now: NOW });
    let first = [
        entry(1, AuditKind::SignIn, Some(FORGETTABLE)),
        entry(2, AuditKind::SignInRefused, None),
        AuditEntry { key: Some("k".to_owned()), count: 7, ..entry(3, AuditKind::KeyUsed, None) },
        entry(4, AuditKind::SignIn, Some(5)),
    ];
    store.write_audit(first.to_vec(), wide).await.unwrap();
    let all = AuditFilter { limit: 100, ..AuditFilter::default() };
    assert_eq!(store.audit(all.clone()).await.unwrap(), first);
    assert_eq!(store.audit(AuditFilter { limit: 2, ..all.clone() }).await.unwrap(), first[2..], "the latest");
    assert_eq!(store.audit(AuditFilter { since: at(4), ..all.clone() }).await.unwrap(), first[3..]);
    let kind = Some(AuditKind::KeyUsed);
    assert_eq!(store.audit(AuditFilter { kind, ..all.clone() }).await.unwrap(), first[2..3]);
    let persons = Some(vec!["5".to_owned(), "6".to_owned()]);
    assert_eq!(store.audit(AuditFilter { persons, ..all.clone() }).await.unwrap(), first[3..]);

    // Late rows about someone who has been forgotten do not name them either.
    assert_eq!(store.forget(id(FORGETTABLE), NOW).await.unwrap().audit, 1);
    store.write_audit(vec![entry(5, AuditKind::SignedOut, Some(FORGETTABLE))], wide).await.unwrap();
    assert!(!fixture.everything().await.contains(&FORGETTABLE.to_string()));
    let hash = domain::forgotten::UserHash::of(id(FORGETTABLE)).in_audit();
    let persons = Some(vec![hash]);
    assert_eq!(store.audit(AuditFilter { persons, ..all.clone() }).await.unwrap().len(), 2);

    store.write_audit(Vec::new(), Some(AuditBounds { rows: 1_000, before: at(3), now: NOW })).await.unwrap();
    assert_eq!(fixture.count("audit").await, 3, "those before are gone");
    let many: Vec<_> = (10..20).map(|second| entry(second, AuditKind::SignIn, Some(5))).collect();
    store.write_audit(many, None).await.unwrap();
    assert_eq!(fixture.count("audit").await, 13, "without bounds nothing is deleted");
    store.write_audit(Vec::new(), Some(AuditBounds { rows: 16, before: Time::default(), now: NOW })).await.unwrap();
    let left: Vec<_> = store.audit(all).await.unwrap().into_iter().map(|entry| entry.detail).collect();
    assert_eq!(left, ["3", "5", "16", "17", "18", "19"], "of each kind the latest stay");
}

async fn a_flood_of_one_kind_removes_no_row_of_another(fixture: Fixture) {
    let store = &fixture.store;
    let bounds = Some(AuditBounds { rows: 40, before: Time::default(), now: NOW });
    let left = async || {
        let all = AuditFilter { limit: 1_000, ..AuditFilter::default() };
        let rows = store.audit(all).await.unwrap();
        AuditKind::ALL.map(|kind| {
            let details = rows.iter().filter(|row| row.kind == kind).map(|row| row.detail.clone());
            (kind, details.collect::<Vec<_>>())
        })
    };
    let row = |kind, detail: &str| AuditEntry { detail: detail.to_owned(), ..AuditEntry::new(NOW, kind) };
    store.write_audit(AuditKind::ALL.map(|kind| row(kind, "first")).to_vec(), bounds).await.unwrap();
    // The kinds for strangers and users; the operator's come last, and are still there then.
    let mut kinds = AuditKind::ALL;
    kinds.sort_by_key(|kind| {
        matches!(kind, AuditKind::Blocked | AuditKind::Unblocked | AuditKind::Command | AuditKind::Lost)
    });
    for flood in kinds {
        let before = left().await;
        for _ in 0..3 {
            store.write_audit(vec![row(flood, "more"); 50], bounds).await.unwrap();
        }
        for ((kind, was), (_, is)) in before.into_iter().zip(left().await) {
            if kind == flood {
                assert_eq!(is, vec!["more"; usize::try_from(flood.quota(40)).unwrap()], "{flood:?}");
            } else {
                assert_eq!(is, was, "a flood of {flood:?} removes rows of {kind:?}");
            }
        }
    }
    assert_eq!(fixture.count("audit").await, 40);
}
