//! Several processes on one store: what only one of them may do, and what each of them must see.

use std::time::Duration;

use domain::Change;
use provider::idp::Endpoint;
use sandbox::people::{HARBOUR, OWNER};
use store::Lease;

use crate::harness::{Client, TestApp, claiming, eventually, guild, id};

/// Two replicas, and one user at both.
async fn two() -> ([TestApp; 2], [Client; 2]) {
    let here = TestApp::start().await;
    let there = here.replica().await;
    here.bot_says([Change::Guild(guild(HARBOUR.id, HARBOUR.name, OWNER))]).await;
    let user = here.user("owner").await;
    assert_eq!(user.guilds().await.len(), 1);
    let same = there.anon().with_token(user.token());
    ([here, there], [user, same])
}

/// Both request the guilds at once, and the grant's refresh takes until this has happened.
async fn asked_at_once(apps: &[TestApp; 2], users: &[Client; 2], meanwhile: impl AsyncFn()) {
    let sandbox = &apps[0].sandbox;
    let refreshes = sandbox.calls(Endpoint::Token);
    let held = sandbox.hold(Endpoint::Token);
    let asking = users.clone().map(|user| tokio::spawn(async move { user.guilds().await }));
    held.arrived(1).await;
    meanwhile().await;
    held.release();
    for guilds in asking {
        assert_eq!(guilds.await.unwrap()[0]["name"], HARBOUR.name);
    }
    assert_eq!(sandbox.calls(Endpoint::Token), refreshes + 1, "a refresh token is good for one use");
    for user in users {
        assert_eq!(user.guilds().await.len(), 1, "the session goes on");
    }
}

#[tokio::test]
async fn a_grant_that_is_about_to_expire_is_refreshed_by_one_replica() {
    let (apps, users) = two().await;
    for _ in 0..7 {
        apps[0].clock.advance(Duration::from_hours(24));
        assert_eq!(users[0].get("/sessions").await.status, 200);
    }
    apps[0].app.views.sessions.flush().await.unwrap();
    let busy = |app: &TestApp| app.app.request_permits.available_permits() < app.app.config.limits.concurrent_requests;
    asked_at_once(&apps, &users, async || {
        eventually("both are at it", async || apps.iter().all(busy)).await;
    })
    .await;
}

#[tokio::test]
async fn a_grant_that_the_provider_refuses_is_refreshed_by_one_replica() {
    let (apps, users) = two().await;
    apps[0].sandbox.expire_access("owner");
    apps[0].clock.advance(Duration::from_hours(2));
    let lists = apps[0].sandbox.calls(Endpoint::Guilds);
    asked_at_once(&apps, &users, async || {
        eventually("both were refused", async || apps[0].sandbox.calls(Endpoint::Guilds) == lists + 2).await;
    })
    .await;
}

#[tokio::test]
async fn a_refresh_that_never_ended_is_taken_over_when_its_time_is_over() {
    let (apps, users) = two().await;
    let account = apps[0].app.sources.store.account(id(OWNER)).await.unwrap().unwrap();
    apps[0].sandbox.expire_access("owner");
    apps[0].clock.advance(Duration::from_hours(2));
    // Someone claimed the refresh and was killed.
    let now = apps[0].clock.now();
    let lease = apps[0].app.sources.store.lease_grant(
        id(OWNER),
        account.grant_version,
        now,
        now.after(Duration::from_secs(14)),
    );
    assert_eq!(lease.await.unwrap(), Lease::Mine);
    let (refreshes, lists) = (apps[0].sandbox.calls(Endpoint::Token), apps[0].sandbox.calls(Endpoint::Guilds));
    let asking = tokio::spawn({
        let user = users[1].clone();
        async move { user.guilds().await.len() }
    });
    eventually("it needs a refresh", async || apps[0].sandbox.calls(Endpoint::Guilds) == lists + 1).await;
    assert_eq!(apps[0].sandbox.calls(Endpoint::Token), refreshes);
    apps[0].clock.advance(Duration::from_secs(14));
    assert_eq!(asking.await.unwrap(), 1);
    assert_eq!(apps[0].sandbox.calls(Endpoint::Token), refreshes + 1);
}

#[tokio::test]
async fn a_code_that_two_replicas_get_at_once_is_exchanged_once() {
    let apps = {
        let here = TestApp::start().await;
        [here.replica().await, here]
    };
    let held = apps[0].sandbox.hold(Endpoint::Token);
    let code = apps[0].sandbox.issue_code("owner");
    let ask = |app: &TestApp| tokio::spawn(app.anon().post("/auth").header("Idp-Code", &code).send());
    let first = ask(&apps[0]);
    held.arrived(1).await;
    let asking = [first, claiming(&apps[1], || ask(&apps[1])).await];
    held.release();
    for (index, answer) in asking.into_iter().enumerate() {
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        let token = answer.data()["token"].as_str().unwrap().to_owned();
        assert_eq!(
            apps[1 - index].anon().with_token(token).get("/sessions").await.status,
            200,
            "good at the other one"
        );
    }
    assert_eq!(apps[0].sandbox.calls(Endpoint::Token), 1);
}

#[tokio::test]
async fn a_list_that_another_replica_fetched_shows_with_the_next_request_that_asks_for_it() {
    let (apps, users) = two().await;
    assert_eq!(users[1].guilds().await.len(), 1);
    apps[0].clock.advance(Duration::from_mins(2));
    apps[0].sandbox.edit("owner", |owner| owner.guilds.clear());
    let fresh = users[0].call(reqwest::Method::GET, "/guilds").header("Cache-Control", "no-cache").send().await;
    assert_eq!(fresh.data().as_array().unwrap().len(), 0);
    // The other replica's answer is too old to be shown without checking the stored list, which is the new one.
    assert_eq!(users[1].guilds().await.len(), 0);
}
