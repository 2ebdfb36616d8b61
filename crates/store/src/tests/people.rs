//! Sign-in, sessions, grants and lists.

use domain::{Change, RevocationEnd};

use super::*;
use crate::{Admission, BlockedUser, Claim, GrantSaved, Lease, Swept, Topic};

on_each_store! {
    a_code_is_exchanged_once,
    sweeping_forgets_claims_that_ended_long_ago,
    a_sweep_says_whether_there_is_more_to_do,
    the_grant_is_to_be_revoked_with_the_last_session,
    a_revocation_waits_and_a_sign_in_cancels_it,
    a_sign_in_waits_for_a_revocation_that_is_being_sent_and_verifies_its_grant,
    a_session_that_comes_late_takes_its_grant_back,
    a_user_without_a_grant_leaves_nothing_to_revoke,
    a_new_grant_outlives_the_last_old_session,
    a_new_session_ends_those_least_recently_used,
    a_grant_whose_session_never_comes_is_swept,
    sweeping_ends_idle_and_old_sessions_in_batches,
    the_later_time_seen_wins,
    a_blocked_user_is_out_and_stays_out,
    only_the_present_grant_can_be_replaced_or_blamed,
    one_at_a_time_refreshes_a_grant,
    a_list_fetched_before_a_departure_is_not_stored_after_it,
    a_login_keeps_the_list_and_a_second_session_keeps_the_grant,
}

fn later(seconds: u64) -> Time {
    NOW.after(Duration::from_secs(seconds))
}

fn blocked(user: u64) -> BlockedUser {
    BlockedUser { user: id(user), reason: "spam".to_owned(), since: NOW }
}

async fn versions(fixture: &Fixture, user: u64) -> (u64, u64) {
    let account = fixture.store.account(id(user)).await.unwrap().unwrap();
    (account.grant_version, account.list_version)
}

async fn a_code_is_exchanged_once(fixture: Fixture) {
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

async fn sweeping_forgets_claims_that_ended_long_ago(fixture: Fixture) {
    for (number, until) in [(1, 10), (2, 5000)] {
        fixture.store.claim_code(code(number), NOW, later(until)).await.unwrap();
    }
    fixture.store.sweep(later(20), Time::default(), Time::default(), 100).await.unwrap();
    assert_eq!(fixture.count("code_claims").await, 2);
    fixture.store.sweep(later(5000), Time::default(), Time::default(), 100).await.unwrap();
    assert_eq!(fixture.count("code_claims").await, 1);
}

async fn a_sweep_says_whether_there_is_more_to_do(fixture: Fixture) {
    for number in 0..7 {
        fixture.store.claim_code(code(number), NOW, later(10)).await.unwrap();
    }
    let sweep = || fixture.store.sweep(later(5000), Time::default(), Time::default(), 3);
    for (left, more) in [(4, true), (1, true), (0, false), (0, false)] {
        assert_eq!(sweep().await.unwrap(), Swept { sessions: 0, more });
        assert_eq!(fixture.count("code_claims").await, left);
    }
}

async fn the_grant_is_to_be_revoked_with_the_last_session(fixture: Fixture) {
    let store = &fixture.store;
    fixture.sign_in(1, 1).await;
    fixture.sign_in(1, 2).await;
    fixture.sign_in(2, 3).await;
    assert_eq!(store.sessions_of(id(1)).await.unwrap(), [session(1, 2), session(1, 1)], "newest first");
    assert!(!store.end_session(id(2), session_id(1), NOW).await.unwrap(), "not theirs");

    let topics = [Topic::SessionsOf(id(1)), Topic::Id(id(1)), Topic::SessionsOf(id(2))];
    let (ended, invalidated) = fixture.invalidated(&topics, store.end_session(id(1), session_id(1), NOW)).await;
    assert!(ended.unwrap());
    assert_eq!(invalidated, topics[..2]);
    assert_eq!(store.session(token(1)).await.unwrap(), None);
    assert_eq!(fixture.to_revoke().await, []);
    assert!(store.end_session(id(1), session_id(2), NOW).await.unwrap());
    assert_eq!(fixture.to_revoke().await, [(1, 2)]);
    assert_eq!(store.account(id(1)).await.unwrap(), None);
    assert!(!store.end_session(id(1), session_id(2), NOW).await.unwrap());

    assert_eq!(store.end_sessions(id(2), NOW).await.unwrap(), 1);
    assert_eq!(fixture.to_revoke().await, [(1, 2), (2, 3)]);
    assert_eq!(store.end_sessions(id(2), NOW).await.unwrap(), 0);
}

async fn a_revocation_waits_and_a_sign_in_cancels_it(fixture: Fixture) {
    let store = &fixture.store;
    let take = async |at| store.take_revocation(later(at), later(at + 20)).await.unwrap();
    fixture.sign_in(1, 1).await;
    fixture.sign_in(2, 2).await;
    for user in [1, 2] {
        store.end_sessions(id(user), NOW).await.unwrap();
    }
    assert_eq!(take(29).await, None, "not yet");
    fixture.sign_in(1, 3).await;
    let taken = take(30).await.unwrap();
    assert_eq!((taken.user, &taken.grant, taken.tries), (id(2), &grant(2), 1));
    assert_eq!(take(49).await, None, "it is being sent, and the other one was cancelled");
    assert_eq!(take(50).await.map(|taken| (taken.user, taken.tries)), Some((id(2), 2)), "whoever sent it is gone");
    store.finish_revocation(id(2), taken.until, RevocationEnd::over(NOW)).await.unwrap();
    assert_eq!(fixture.to_revoke().await, [(2, 2)], "a sender that comes too late changes nothing");
    store.finish_revocation(id(2), later(70), RevocationEnd::Retry { at: later(130) }).await.unwrap();
    assert_eq!(take(129).await, None);
    assert_eq!(take(130).await.unwrap().tries, 3);
    store.finish_revocation(id(2), later(150), RevocationEnd::Unsent { at: later(160) }).await.unwrap();
    assert_eq!(take(160).await.unwrap().tries, 3, "what was not sent does not count");
    store.finish_revocation(id(2), later(180), RevocationEnd::Over { until: later(300) }).await.unwrap();
    assert_eq!(take(1000).await, None);
    assert_eq!(fixture.to_revoke().await, [], "the grant is forgotten at once");
    for (at, left) in [(299, 1), (300, 0)] {
        store.sweep(later(at), Time::default(), Time::default(), 10).await.unwrap();
        assert_eq!(fixture.count("revocations").await, left);
    }
}

async fn a_sign_in_waits_for_a_revocation_that_is_being_sent_and_verifies_its_grant(fixture: Fixture) {
    let store = &fixture.store;
    let save = async |at, verified| store.save_grant(person(1), grant(2), later(at), verified).await.unwrap();
    fixture.sign_in(1, 1).await;
    store.end_sessions(id(1), NOW).await.unwrap();
    store.take_revocation(later(30), later(50)).await.unwrap().unwrap();
    for verified in [None, Some(1)] {
        assert_eq!(save(31, verified).await, GrantSaved::RevocationRunning);
    }
    assert_eq!(store.account(id(1)).await.unwrap(), None, "nothing is stored");
    let sent = |tries| GrantSaved::RevocationSent { tries };
    assert_eq!(save(50, None).await, sent(1), "whoever sent it is gone, and nobody knows");
    store.finish_revocation(id(1), later(50), RevocationEnd::Retry { at: later(60) }).await.unwrap();
    store.take_revocation(later(60), later(80)).await.unwrap().unwrap();
    store.finish_revocation(id(1), later(80), RevocationEnd::Over { until: later(170) }).await.unwrap();
    assert_eq!(save(81, Some(1)).await, sent(2), "it was seen to work before another try");
    assert_eq!(save(82, Some(2)).await, GrantSaved::Saved);
    assert_eq!(fixture.count("revocations").await, 0);
}

async fn a_session_that_comes_late_takes_its_grant_back(fixture: Fixture) {
    let store = &fixture.store;
    // Two sessions of one sign-in; the first ends before the second is opened.
    fixture.save_grant(1, 1).await;
    fixture.open_session(1, 1).await;
    assert!(store.end_session(id(1), session_id(1), NOW).await.unwrap());
    assert_eq!(fixture.to_revoke().await, [(1, 1)]);
    fixture.open_session(1, 2).await;
    assert_eq!(fixture.to_revoke().await, []);
    assert_eq!(store.account(id(1)).await.unwrap().unwrap().grant, Some(grant(1)));
    // Not from a revocation that may have been sent.
    store.end_sessions(id(1), NOW).await.unwrap();
    store.take_revocation(later(30), later(50)).await.unwrap().unwrap();
    fixture.open_session(1, 3).await;
    assert_eq!(store.account(id(1)).await.unwrap().unwrap().grant, None);
}

async fn a_user_without_a_grant_leaves_nothing_to_revoke(fixture: Fixture) {
    fixture.open_session(1, 1).await;
    assert_eq!(fixture.store.account(id(1)).await.unwrap().unwrap().grant, None);
    assert_eq!(fixture.store.end_sessions(id(1), NOW).await.unwrap(), 1);
    assert_eq!(fixture.to_revoke().await, []);
}

async fn a_new_grant_outlives_the_last_old_session(fixture: Fixture) {
    let store = &fixture.store;
    fixture.sign_in(1, 1).await;
    fixture.save_grant(1, 2).await;
    assert_eq!(store.end_sessions(id(1), NOW).await.unwrap(), 1);
    assert_eq!(fixture.to_revoke().await, []);
    fixture.open_session(1, 2).await;
    assert_eq!(store.account(id(1)).await.unwrap().unwrap().grant, Some(grant(2)));
    store.end_sessions(id(1), NOW).await.unwrap();
    assert_eq!(fixture.to_revoke().await, [(1, 2)]);
}

async fn a_new_session_ends_those_least_recently_used(fixture: Fixture) {
    let store = &fixture.store;
    let topics = [Topic::SessionsOf(id(1)), Topic::SessionsOf(id(2))];
    for (user, device) in [(1, 1), (1, 2), (1, 3), (2, 9)] {
        fixture.sign_in(user, device).await;
    }
    store.note_seen(vec![(session_id(1), later(100))]).await.unwrap();
    let open = |device, most| store.open_session(person(1), token(device), session(1, device), most);
    let (opened, invalidated) = fixture.invalidated(&topics, open(4, 4)).await;
    let heard = vec![topics[0]];
    assert_eq!((opened.unwrap(), invalidated), (Admission::Admitted, heard), "live streams hear of a new session, too");
    assert_eq!(store.sessions_of(id(1)).await.unwrap().len(), 4, "there was room");
    let (opened, invalidated) = fixture.invalidated(&topics, open(5, 4)).await;
    assert_eq!((opened.unwrap(), invalidated), (Admission::Admitted, vec![topics[0]]));
    let left = async || store.sessions_of(id(1)).await.unwrap().into_iter().map(|it| it.id).collect::<Vec<_>>();
    assert_eq!(left().await, [5, 4, 3, 1].map(session_id), "the second was used least recently");
    open(6, 2).await.unwrap();
    assert_eq!(left().await, [6, 1].map(session_id), "the limit may have been lowered");
    open(7, 1).await.unwrap();
    assert_eq!(left().await, [7].map(session_id), "the new one always stays");
    assert_eq!(store.sessions_of(id(2)).await.unwrap().len(), 1);
}

async fn a_grant_whose_session_never_comes_is_swept(fixture: Fixture) {
    let sweep = |at| fixture.store.sweep(later(at), Time::default(), Time::default(), 100);
    fixture.save_grant(1, 1).await;
    fixture.sign_in(2, 2).await;
    fixture.save_grant(2, 3).await;
    for at in [0, 600] {
        assert_eq!(sweep(at).await.unwrap(), Swept::default());
        assert_eq!(fixture.to_revoke().await, []);
    }
    sweep(601).await.unwrap();
    assert_eq!(fixture.to_revoke().await, [(1, 1)]);
    assert_eq!(sweep(2000).await.unwrap(), Swept::default());
    fixture.store.end_sessions(id(2), NOW).await.unwrap();
    assert_eq!(fixture.to_revoke().await, [(1, 1), (2, 3)]);
}

async fn sweeping_ends_idle_and_old_sessions_in_batches(fixture: Fixture) {
    let store = &fixture.store;
    for (user, device) in [(1, 1), (1, 2), (2, 3), (3, 4), (4, 5)] {
        fixture.sign_in(user, device).await;
    }
    // Devices 1 to 3 are idle, 4 is old but in use, 5 is neither.
    store.note_seen(vec![(session_id(4), later(100)), (session_id(5), later(100))]).await.unwrap();
    let sweep = |batch| store.sweep(later(100), later(4), later(5), batch);
    let topics: Vec<_> = (1..=4).map(|user| Topic::SessionsOf(id(user))).collect();
    let (ended, invalidated) = fixture.invalidated(&topics, sweep(1)).await;
    assert_eq!(ended.unwrap(), Swept { sessions: 1, more: true });
    assert_eq!(invalidated, [topics[0]]);
    assert_eq!(fixture.to_revoke().await, [], "the user's other session still needs the grant");
    let (ended, invalidated) = fixture.invalidated(&topics, sweep(10)).await;
    assert_eq!(ended.unwrap(), Swept { sessions: 3, more: false });
    assert_eq!(fixture.to_revoke().await, [(1, 2), (2, 3), (3, 4)]);
    assert_eq!(invalidated, topics[..3]);
    assert_eq!(sweep(10).await.unwrap(), Swept::default());
    assert_eq!(sweep(0).await.unwrap(), Swept::default());
    assert!(store.session(token(5)).await.unwrap().is_some());
}

async fn the_later_time_seen_wins(fixture: Fixture) {
    fixture.sign_in(1, 1).await;
    let seen = [50, 20, 40].map(|at| (session_id(1), later(at)));
    fixture.store.note_seen(seen.to_vec()).await.unwrap();
    fixture.store.note_seen(vec![(session_id(9), later(9))]).await.unwrap();
    assert_eq!(fixture.store.session(token(1)).await.unwrap().unwrap().last_seen, later(50));
}

async fn a_blocked_user_is_out_and_stays_out(fixture: Fixture) {
    let store = &fixture.store;
    fixture.sign_in(1, 1).await;
    fixture.save_grant(1, 2).await;
    let topics = [Topic::SessionsOf(id(1)), Topic::Id(id(1))];
    let (ended, invalidated) = fixture.invalidated(&topics, store.block(blocked(1))).await;
    assert_eq!(ended.unwrap(), 1);
    assert_eq!(invalidated, topics);
    assert_eq!(fixture.to_revoke().await, [(1, 2)]);
    assert_eq!(fixture.save_grant(1, 3).await, GrantSaved::Blocked);
    assert_eq!(fixture.to_revoke().await, [(1, 3)], "what was granted to somebody who is blocked is given back");
    assert_eq!(fixture.open_session(1, 3).await, Admission::Blocked);
    assert_eq!(store.account(id(1)).await.unwrap(), None);
    assert_eq!(store.session(token(3)).await.unwrap(), None);
    assert_eq!(store.blocked().await.unwrap(), [blocked(1)]);
    assert!(store.unblock(id(1)).await.unwrap());
    assert!(!store.unblock(id(1)).await.unwrap());
    assert_eq!(fixture.save_grant(1, 3).await, GrantSaved::Saved);
}

async fn only_the_present_grant_can_be_replaced_or_blamed(fixture: Fixture) {
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
    let (ended, invalidated) = fixture.invalidated(&topics, store.end_sessions_of_grant(id(1), third)).await;
    assert!(ended.unwrap());
    assert_eq!(invalidated, topics);
    assert_eq!(store.sessions_of(id(1)).await.unwrap(), []);

    fixture.sign_in(1, 5).await;
    let (fourth, _) = versions(&fixture, 1).await;
    assert!(fourth > third, "versions do not come back with a new row");
    assert!(!store.end_sessions_of_grant(id(1), third).await.unwrap());
}

async fn one_at_a_time_refreshes_a_grant(fixture: Fixture) {
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
    fixture.save_grant(1, 3).await;
    let (third, _) = versions(&fixture, 1).await;
    assert_eq!(lease(third, 22, 32).await, Lease::Mine, "nor is that of a new sign-in");
    store.end_sessions(id(1), NOW).await.unwrap();
    assert_eq!(store.lease_grant(id(2), third, at(1), at(2)).await.unwrap(), Lease::Replaced, "there is no such user");
}

async fn a_list_fetched_before_a_departure_is_not_stored_after_it(fixture: Fixture) {
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
    let (saved, invalidated) = fixture.invalidated(&topics, store.save_list(id(1), version, list(&[5, 6]))).await;
    assert!(saved.unwrap());
    assert_eq!(invalidated, topics);
    assert!(!store.save_list(id(1), version, list(&[5])).await.unwrap(), "the slower of two fetches is thrown away");
    let (_, version) = versions(&fixture, 1).await;
    assert!(store.save_list(id(1), version, list(&[5, 6, 7])).await.unwrap());
    let (_, version) = versions(&fixture, 1).await;
    let (outcome, invalidated) = fixture.invalidated(&topics, gone()).await;
    outcome.unwrap();
    assert_eq!(invalidated, topics);
    assert_eq!(store.account(id(1)).await.unwrap().unwrap().list, Some(list(&[6, 7])));
    assert!(!store.save_list(id(1), version, list(&[5, 6])).await.unwrap());

    // A new row is not fooled by a fetch that began under the old one.
    let (_, version) = versions(&fixture, 1).await;
    store.end_sessions(id(1), NOW).await.unwrap();
    assert!(!store.save_list(id(1), version, list(&[5])).await.unwrap());
    fixture.sign_in(1, 2).await;
    assert!(!store.save_list(id(1), version, list(&[5])).await.unwrap());
    assert_eq!(store.account(id(1)).await.unwrap().unwrap().list, None);
}

async fn a_login_keeps_the_list_and_a_second_session_keeps_the_grant(fixture: Fixture) {
    let store = &fixture.store;
    fixture.sign_in(1, 1).await;
    let (_, version) = versions(&fixture, 1).await;
    store.save_list(id(1), version, list(&[5])).await.unwrap();
    let before = store.account(id(1)).await.unwrap();
    fixture.open_session(1, 2).await;
    assert_eq!(store.account(id(1)).await.unwrap(), before);
    fixture.save_grant(1, 3).await;
    assert_eq!(store.account(id(1)).await.unwrap().unwrap().list, Some(list(&[5])));
}
