//! What an operator asks of the store.

use super::*;

on_each_store! {
    grants_are_counted_by_the_key_that_sealed_them,
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
