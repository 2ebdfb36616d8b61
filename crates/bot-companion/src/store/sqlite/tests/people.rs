//! Sign-in, sessions, grants and lists.

use super::*;
use crate::domain::Change;
use crate::store::{Admission, BlockedUser, Claim, Ended, Orphan};

fn later(seconds: u64) -> Time {
    NOW.after(Duration::from_secs(seconds))
}

fn orphan(user: u64, device: u8) -> Orphan {
    Orphan { user: id(user), grant: grant(device) }
}

fn blocked(user: u64) -> BlockedUser {
    BlockedUser { user: id(user), reason: "spam".to_owned(), since: NOW }
}

async fn versions(fixture: &Fixture, user: u64) -> (u64, u64) {
    let account = fixture.store.account(id(user)).await.unwrap().unwrap();
    (account.grant_version, account.list_version)
}

#[tokio::test]
async fn a_code_is_exchanged_once() {
    let fixture = Fixture::new().await;
    let store = &fixture.store;
    let claim = |number, at| store.claim_code(code(number), later(at), later(at + 10));
    assert_eq!(claim(1, 0).await.unwrap(), Claim::Mine);
    assert_eq!(claim(1, 9).await.unwrap(), Claim::Running);
    assert_eq!(claim(1, 10).await.unwrap(), Claim::Settled(None), "whoever claimed it is gone");
    store.settle_code(code(1), Some(person(7)), later(120)).await.unwrap();
    assert_eq!(claim(1, 119).await.unwrap(), Claim::Settled(Some(person(7))));
    store.release_code(code(1)).await.unwrap();
    assert_eq!(claim(1, 119).await.unwrap(), Claim::Settled(Some(person(7))), "a settled claim cannot be released");
    assert_eq!(claim(1, 120).await.unwrap(), Claim::Mine, "forgotten");

    assert_eq!(claim(2, 0).await.unwrap(), Claim::Mine);
    store.release_code(code(2)).await.unwrap();
    assert_eq!(claim(2, 1).await.unwrap(), Claim::Mine);
    store.settle_code(code(2), None, later(120)).await.unwrap();
    assert_eq!(claim(2, 2).await.unwrap(), Claim::Settled(None));
}

#[tokio::test]
async fn sweeping_forgets_claims_that_ended_long_ago() {
    let fixture = Fixture::new().await;
    for (number, until) in [(1, 10), (2, 5000)] {
        fixture.store.claim_code(code(number), NOW, later(until)).await.unwrap();
    }
    fixture.store.sweep(later(20), Time::default(), Time::default(), 100).await.unwrap();
    assert_eq!(fixture.outside_count("code_claims"), 2);
    fixture.store.sweep(later(5000), Time::default(), Time::default(), 100).await.unwrap();
    assert_eq!(fixture.outside_count("code_claims"), 1);
}

#[tokio::test]
async fn the_grant_is_orphaned_with_the_last_session() {
    let fixture = Fixture::new().await;
    let store = &fixture.store;
    fixture.sign_in(1, 1).await;
    fixture.sign_in(1, 2).await;
    fixture.sign_in(2, 3).await;
    assert_eq!(store.sessions_of(id(1)).await.unwrap(), [session(1, 2), session(1, 1)], "newest first");
    assert_eq!(store.end_session(id(2), session_id(1)).await.unwrap(), None, "not theirs");

    let topics = [Topic::SessionsOf(id(1)), Topic::Id(id(1)), Topic::SessionsOf(id(2))];
    let (ended, touched) = fixture.touched(&topics, store.end_session(id(1), session_id(1))).await;
    assert_eq!(ended.unwrap(), Some(Ended { sessions: 1, orphans: Vec::new() }));
    assert_eq!(touched, topics[..2]);
    assert_eq!(store.session(token(1)).await.unwrap(), None);
    let ended = store.end_session(id(1), session_id(2)).await.unwrap();
    assert_eq!(ended, Some(Ended { sessions: 1, orphans: vec![orphan(1, 2)] }));
    assert_eq!(store.account(id(1)).await.unwrap(), None);
    assert_eq!(store.end_session(id(1), session_id(2)).await.unwrap(), None);

    let ended = store.end_sessions(id(2)).await.unwrap();
    assert_eq!(ended, Ended { sessions: 1, orphans: vec![orphan(2, 3)] });
    assert_eq!(store.end_sessions(id(2)).await.unwrap(), Ended::default());
}

#[tokio::test]
async fn a_user_without_a_grant_leaves_no_orphan() {
    let fixture = Fixture::new().await;
    let store = &fixture.store;
    store.open_session(person(1), token(1), session(1, 1)).await.unwrap();
    assert_eq!(store.account(id(1)).await.unwrap().unwrap().grant, None);
    assert_eq!(store.end_sessions(id(1)).await.unwrap(), Ended { sessions: 1, orphans: Vec::new() });
}

#[tokio::test]
async fn a_new_grant_outlives_the_last_old_session() {
    let fixture = Fixture::new().await;
    let store = &fixture.store;
    fixture.sign_in(1, 1).await;
    store.save_grant(person(1), grant(2)).await.unwrap();
    assert_eq!(store.end_sessions(id(1)).await.unwrap(), Ended { sessions: 1, orphans: Vec::new() });
    store.open_session(person(1), token(2), session(1, 2)).await.unwrap();
    assert_eq!(store.account(id(1)).await.unwrap().unwrap().grant, Some(grant(2)));
    assert_eq!(store.end_sessions(id(1)).await.unwrap().orphans, [orphan(1, 2)]);
}

#[tokio::test]
async fn a_grant_whose_session_never_comes_is_swept() {
    let fixture = Fixture::new().await;
    let sweep = |at| fixture.store.sweep(later(at), Time::default(), Time::default(), 100);
    fixture.store.save_grant(person(1), grant(1)).await.unwrap();
    fixture.sign_in(2, 2).await;
    fixture.store.save_grant(person(2), grant(3)).await.unwrap();
    for at in [0, 600] {
        assert_eq!(sweep(at).await.unwrap(), Ended::default());
    }
    assert_eq!(sweep(601).await.unwrap().orphans, [orphan(1, 1)]);
    assert_eq!(sweep(2000).await.unwrap(), Ended::default());
    assert_eq!(fixture.store.end_sessions(id(2)).await.unwrap().orphans, [orphan(2, 3)]);
}

#[tokio::test]
async fn sweeping_ends_idle_and_old_sessions_in_batches() {
    let fixture = Fixture::new().await;
    let store = &fixture.store;
    for (user, device) in [(1, 1), (1, 2), (2, 3), (3, 4), (4, 5)] {
        fixture.sign_in(user, device).await;
    }
    // Devices 1 to 3 are idle, 4 is old but in use, 5 is neither.
    store.note_seen(vec![(session_id(4), later(100)), (session_id(5), later(100))]).await.unwrap();
    let sweep = |batch| store.sweep(later(100), later(4), later(5), batch);
    let topics: Vec<_> = (1..=4).map(|user| Topic::SessionsOf(id(user))).collect();
    let (ended, touched) = fixture.touched(&topics, sweep(1)).await;
    assert_eq!(ended.unwrap().sessions, 1);
    assert_eq!(touched, [topics[0]]);
    let (ended, touched) = fixture.touched(&topics, sweep(10)).await;
    let ended = ended.unwrap();
    assert_eq!((ended.sessions, ended.orphans), (3, vec![orphan(1, 2), orphan(2, 3), orphan(3, 4)]));
    assert_eq!(touched, topics[..3]);
    assert_eq!(sweep(10).await.unwrap(), Ended::default());
    assert_eq!(sweep(0).await.unwrap(), Ended::default());
    assert!(store.session(token(5)).await.unwrap().is_some());
}

#[tokio::test]
async fn the_later_time_seen_wins() {
    let fixture = Fixture::new().await;
    fixture.sign_in(1, 1).await;
    let seen = [50, 20, 40].map(|at| (session_id(1), later(at)));
    fixture.store.note_seen(seen.to_vec()).await.unwrap();
    fixture.store.note_seen(vec![(session_id(9), later(9))]).await.unwrap();
    assert_eq!(fixture.store.session(token(1)).await.unwrap().unwrap().last_seen, later(50));
}

#[tokio::test]
async fn a_blocked_user_is_out_and_stays_out() {
    let fixture = Fixture::new().await;
    let store = &fixture.store;
    fixture.sign_in(1, 1).await;
    store.save_grant(person(1), grant(2)).await.unwrap();
    let topics = [Topic::SessionsOf(id(1)), Topic::Id(id(1))];
    let (ended, touched) = fixture.touched(&topics, store.block(blocked(1))).await;
    assert_eq!(ended.unwrap(), Ended { sessions: 1, orphans: vec![orphan(1, 2)] });
    assert_eq!(touched, topics);
    assert_eq!(store.save_grant(person(1), grant(3)).await.unwrap(), Admission::Blocked);
    assert_eq!(store.open_session(person(1), token(3), session(1, 3)).await.unwrap(), Admission::Blocked);
    assert_eq!(store.account(id(1)).await.unwrap(), None);
    assert_eq!(store.session(token(3)).await.unwrap(), None);
    assert_eq!(store.blocked().await.unwrap(), [blocked(1)]);
    assert!(store.unblock(id(1)).await.unwrap());
    assert!(!store.unblock(id(1)).await.unwrap());
    assert_eq!(store.save_grant(person(1), grant(3)).await.unwrap(), Admission::Admitted);
}

#[tokio::test]
async fn only_the_present_grant_can_be_replaced_or_blamed() {
    let fixture = Fixture::new().await;
    let store = &fixture.store;
    fixture.sign_in(1, 1).await;
    let (first, _) = versions(&fixture, 1).await;
    let second = store.replace_grant(id(1), first, grant(2)).await.unwrap().unwrap();
    assert_eq!(versions(&fixture, 1).await.0, second);
    assert_eq!(store.replace_grant(id(1), first, grant(3)).await.unwrap(), None);
    assert!(!store.end_sessions_of_grant(id(1), first).await.unwrap(), "the slow one must not end the session");
    assert_eq!(store.account(id(1)).await.unwrap().unwrap().grant, Some(grant(2)));

    fixture.sign_in(1, 4).await;
    assert!(!store.end_sessions_of_grant(id(1), second).await.unwrap(), "a new login brought a new grant");
    let (third, _) = versions(&fixture, 1).await;
    let topics = [Topic::SessionsOf(id(1)), Topic::Id(id(1))];
    let (ended, touched) = fixture.touched(&topics, store.end_sessions_of_grant(id(1), third)).await;
    assert!(ended.unwrap());
    assert_eq!(touched, topics);
    assert_eq!(store.sessions_of(id(1)).await.unwrap(), []);

    fixture.sign_in(1, 5).await;
    let (fourth, _) = versions(&fixture, 1).await;
    assert!(fourth > third, "versions do not come back with a new row");
    assert!(!store.end_sessions_of_grant(id(1), third).await.unwrap());
}

#[tokio::test]
async fn one_at_a_time_refreshes_a_grant() {
    let fixture = Fixture::new().await;
    let store = &fixture.store;
    fixture.sign_in(1, 1).await;
    let (first, _) = versions(&fixture, 1).await;
    let at = Time::from_seconds;
    let lease = async |version, now, until| store.lease_grant(id(1), version, at(now), at(until)).await.unwrap();
    assert_eq!(lease(first, 10, 20).await, Lease::Mine);
    assert_eq!(lease(first, 19, 29).await, Lease::Busy);
    assert_eq!(lease(first, 20, 30).await, Lease::Mine, "whoever held it let it lapse");
    assert_eq!(lease(first + 100, 20, 30).await, Lease::Replaced);
    let second = store.replace_grant(id(1), first, grant(2)).await.unwrap().unwrap();
    assert_eq!(lease(first, 21, 31).await, Lease::Replaced);
    assert_eq!(lease(second, 21, 31).await, Lease::Mine, "the new grant is nobody's");
    store.save_grant(person(1), grant(3)).await.unwrap();
    let (third, _) = versions(&fixture, 1).await;
    assert_eq!(lease(third, 22, 32).await, Lease::Mine, "nor is that of a new sign-in");
    store.end_sessions(id(1)).await.unwrap();
    assert_eq!(store.lease_grant(id(2), third, at(1), at(2)).await.unwrap(), Lease::Replaced, "there is no such user");
}

#[tokio::test]
async fn a_list_fetched_before_a_departure_is_not_stored_after_it() {
    let fixture = Fixture::new().await;
    let store = &fixture.store;
    fixture.sign_in(1, 1).await;
    let gone = || store.apply(vec![Change::MemberGone { guild: id(5), user: id(1) }]);

    // Before there is any list.
    let (_, version) = versions(&fixture, 1).await;
    gone().await.unwrap();
    assert!(!store.save_list(id(1), version, list(&[5, 6])).await.unwrap());
    assert_eq!(store.account(id(1)).await.unwrap().unwrap().list, None);

    let (_, version) = versions(&fixture, 1).await;
    let topics = [Topic::Id(id(1))];
    let (saved, touched) = fixture.touched(&topics, store.save_list(id(1), version, list(&[5, 6]))).await;
    assert!(saved.unwrap());
    assert_eq!(touched, topics);
    assert!(!store.save_list(id(1), version, list(&[5])).await.unwrap(), "the slower of two fetches is thrown away");
    let (_, version) = versions(&fixture, 1).await;
    assert!(store.save_list(id(1), version, list(&[5, 6, 7])).await.unwrap());
    let (_, version) = versions(&fixture, 1).await;
    let (outcome, touched) = fixture.touched(&topics, gone()).await;
    outcome.unwrap();
    assert_eq!(touched, topics);
    assert_eq!(store.account(id(1)).await.unwrap().unwrap().list, Some(list(&[6, 7])));
    assert!(!store.save_list(id(1), version, list(&[5, 6])).await.unwrap());

    // A new row is not fooled by a fetch that began under the old one.
    let (_, version) = versions(&fixture, 1).await;
    store.end_sessions(id(1)).await.unwrap();
    assert!(!store.save_list(id(1), version, list(&[5])).await.unwrap());
    fixture.sign_in(1, 2).await;
    assert!(!store.save_list(id(1), version, list(&[5])).await.unwrap());
    assert_eq!(store.account(id(1)).await.unwrap().unwrap().list, None);
}

#[tokio::test]
async fn a_login_keeps_the_list_and_a_second_session_keeps_the_grant() {
    let fixture = Fixture::new().await;
    let store = &fixture.store;
    fixture.sign_in(1, 1).await;
    let (_, version) = versions(&fixture, 1).await;
    store.save_list(id(1), version, list(&[5])).await.unwrap();
    let before = store.account(id(1)).await.unwrap();
    store.open_session(person(1), token(2), session(1, 2)).await.unwrap();
    assert_eq!(store.account(id(1)).await.unwrap(), before);
    store.save_grant(person(1), grant(3)).await.unwrap();
    assert_eq!(store.account(id(1)).await.unwrap().unwrap().list, Some(list(&[5])));
}
