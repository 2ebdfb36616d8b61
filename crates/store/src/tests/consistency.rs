//! Acknowledged writes are seen completely by every later read, and are still there when the store is reopened.

use std::sync::Arc;

use domain::{Change, Subscription};
use futures_util::future::join_all;

use super::*;
use crate::{StoreError, StoreOptions, open};

on_each_store! {
    everything_is_still_there_after_reopening,
    readers_and_writers_side_by_side_see_whole_acknowledged_states,
}

async fn everything_is_still_there_after_reopening(mut fixture: Fixture) {
    fixture.sign_in(1, 1).await;
    fixture.store.apply(vec![Change::Guild(guild(5))]).await.unwrap();
    let account = fixture.store.account(id(1)).await.unwrap();
    let facts = fixture.store.person(id(1), vec![id(5)]).await.unwrap();
    assert_eq!(facts.guilds.len(), 1);

    fixture.reopen().await;
    assert_eq!(fixture.store.session(token(1)).await.unwrap(), Some(session(1, 1)));
    assert_eq!(fixture.store.account(id(1)).await.unwrap(), account);
    assert_eq!(fixture.store.person(id(1), vec![id(5)]).await.unwrap(), facts);
}

async fn readers_and_writers_side_by_side_see_whole_acknowledged_states(fixture: Fixture) {
    // Two guilds and a subscription, which are in different tables: a read must not mix two states of them.
    let pair = |base: u64, members: u64| {
        let subscription = Subscription {
            userid: id(100 + base),
            guilds: vec![id(base)],
            slots: members.try_into().unwrap(),
            active_until: None,
        };
        vec![
            Change::Guild(Guild { members, ..guild(base) }),
            Change::Subscription(subscription),
            Change::Guild(Guild { members, ..guild(base + 1) }),
        ]
    };
    let tasks = (0..8).map(|task| {
        let store = Arc::clone(&fixture.store);
        tokio::spawn(async move {
            let base = 10 + task * 2;
            for round in 1..=25 {
                store.apply(pair(base, round)).await.unwrap();
                let all = (10..26).map(id).collect();
                let facts = store.person(id(1), all).await.unwrap().guilds;
                for two in facts.chunks(2) {
                    assert_eq!(two[0].members, two[1].members, "half of a write was seen");
                    assert_eq!(u64::from(two[0].subscriptions[0].slots), two[0].members, "half of a write was seen");
                }
                let own = facts.iter().find(|facts| facts.id == id(base)).unwrap();
                assert_eq!(own.members, round, "an acknowledged write was not seen");
            }
        })
    });
    for task in join_all(tasks).await {
        task.unwrap();
    }
}

#[tokio::test]
async fn only_known_kinds_of_store_are_opened() {
    for url in ["", "sqlite:", "sqlite", "mysql://me:secret@host/x", "/var/lib/x.db"] {
        let options =
            StoreOptions { url: url.into(), wait: Duration::ZERO, connections: 2, start_wait: Duration::ZERO };
        let Err(StoreError::Failed(message)) = open(options, new_freshness()).await else {
            panic!("`{url}` was opened")
        };
        assert!(!message.contains("secret"), "{message}");
    }
}
