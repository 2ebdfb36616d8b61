//! What an operator asks of the store.

use super::*;
use crate::store::{GrantKind, HeldGrant, Resealed};

on_each_store! {
    grants_are_counted_by_the_key_that_sealed_them,
    a_grant_is_resealed_only_if_it_is_still_the_same,
}

/// What a vault makes of a grant, as far as the store looks at it.
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
    // One that waits to be revoked counts until it was sent.
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

    // The second is refreshed meanwhile, and the third one's sessions end.
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
