//! The exact bodies, byte for byte. What differs from run to run is in angle brackets.

use std::time::Duration;

use domain::health::{Heartbeat, ShardHeartbeat};
use domain::{Change, Guild, Permission};
use provider::idp::Endpoint;
use reqwest::Method;
use sandbox::Fault;
use sandbox::people::{MEMBER, OWNER};

use crate::harness::{
    Answer, START, TestApp, Wire, feedback, grants, guild, id, instance, listed, request, staff, subscription, team,
    team_member,
};

/// The text with each of these values replaced with its name.
fn fixed(text: &str, values: &[(&str, &str)]) -> String {
    values.iter().fold(text.to_owned(), |text, (value, name)| {
        assert!(text.contains(value), "{name} is not in {text}");
        text.replace(value, name)
    })
}

#[tokio::test]
async fn the_session() {
    let app = TestApp::start().await;
    let answer = app.sign_in(&app.sandbox.issue_code("manager")).await;
    let token = answer.data()["token"].as_str().unwrap().to_owned();
    insta::assert_snapshot!("session", fixed(&answer.text(), &[(&token, "<token>")]));
}

#[tokio::test]
async fn the_sessions() {
    let app = TestApp::start().await;
    let sign_in = async |agent: &str| {
        let code = app.sandbox.issue_code("member");
        let answer = app.anon().post("/auth").header("Idp-Code", code).header("User-Agent", agent).send().await;
        app.anon().with_token(answer.data()["token"].as_str().unwrap())
    };
    let first = sign_in("Browser \"one\"").await;
    app.clock.advance(Duration::from_secs(100));
    sign_in("Browser two").await;
    let answer = first.get("/sessions").await;
    let data = answer.data();
    let ids: Vec<_> = (0..2).map(|index| data[index]["id"].as_str().unwrap()).collect();
    insta::assert_snapshot!("sessions", fixed(&answer.text(), &[(ids[0], "<second>"), (ids[1], "<first>")]));
    insta::assert_snapshot!("signed_out", first.delete("/sessions").send().await.text());
}

#[tokio::test]
async fn the_guilds() {
    let app = TestApp::start().await;
    let moderated = Guild {
        icon: Some("0a1b2c".to_owned()),
        members: 4711,
        setup: true,
        linked: true,
        grants: Some(grants(&[(500, &[Permission::Mod])])),
        staff: Some(staff(&[(MEMBER, &[500])])),
        ..guild(902_557_118_203_744_311, "\"Night Shift\" 🌙 & friends", OWNER)
    };
    app.sandbox.edit("member", |person| {
        person.guilds = vec![listed(902_557_118_203_744_311, 0), listed(7, 0), listed(8, 0)];
    });
    app.bot_says([
        Change::Guild(moderated),
        Change::Guild(guild(7, "مجتمع الواحة", MEMBER)),
        Change::Guild(guild(8, "plain", OWNER)),
        Change::Subscription(subscription(OWNER, &[8, 902_557_118_203_744_311], Some(START))),
        Change::Subscription(subscription(MEMBER, &[7], None)),
        team(vec![team_member(MEMBER, "Pip", "support", 1, &[Permission::Support])]),
    ])
    .await;
    insta::assert_snapshot!("guilds", app.user("member").await.get("/guilds").await.text());
    insta::assert_snapshot!("no_guilds", app.user("newcomer").await.get("/guilds").await.text());
}

#[tokio::test]
async fn the_feedback() {
    let app = TestApp::start().await;
    insta::assert_snapshot!("no_feedback", app.anon().get("/feedback").await.text());
    app.bot_says([Change::Feedback(feedback("a \"word\" 🎉", 5))]).await;
    insta::assert_snapshot!("feedback", app.anon().get("/feedback").await.text());
}

#[tokio::test]
async fn the_totals() {
    let app = TestApp::start().await;
    insta::assert_snapshot!("no_stats", app.anon().get("/stats").await.text());
    let rated = [("a", 5), ("b", 5), ("c", 4)].map(|(name, stars)| Change::Feedback(feedback(name, stars)));
    app.bot_says(rated.into_iter().chain([Change::Guild(guild(7, "one", OWNER))])).await;
    insta::assert_snapshot!("stats", app.anon().get("/stats").await.text());
}

#[tokio::test]
async fn the_team() {
    let app = TestApp::start().await;
    let members = vec![
        team_member(2, "Zoe", "support", 2, &[]),
        team_member(1, "Ann", "direction", 1, &[Permission::Founder]),
        team_member(9_007_199_254_740_993, "Bob 🎩", "support", 1, &[]),
    ];
    app.bot_says([team(members)]).await;
    insta::assert_snapshot!("team", app.anon().get("/team").await.text());
}

#[tokio::test]
async fn the_status() {
    let app = TestApp::start().await;
    let status = async || {
        let answer = app.anon().call(Method::GET, "/").header("Sent-Epoch", "1799999999.75").send().await;
        let version = answer.data()["version"].clone();
        let pair = |name: &str, value: &serde_json::Value| format!("\"{name}\":{value}");
        let commit = &version["commit"];
        fixed(
            &answer.text(),
            &[
                (&pair("name", &version["name"]), "\"name\":<name>"),
                (&pair("branch", &version["branch"]), "\"branch\":<branch>"),
                (&pair("sha", &commit["sha"]), "\"sha\":<sha>"),
                (&pair("message", &commit["message"]), "\"message\":<message>"),
                (&pair("author", &commit["author"]), "\"author\":<author>"),
                (&pair("timestamp", &commit["timestamp"]), "\"timestamp\":<timestamp>"),
            ],
        )
    };
    insta::assert_snapshot!("status_offline", status().await);
    let shard = |id, sent, latency| ShardHeartbeat { id, sent, acknowledged: sent, latency };
    let heartbeat = Heartbeat {
        instance: instance("a"),
        started_at: START.before(Duration::from_hours(76)),
        memory: 123_456_789,
        shard_count: 11,
        shards: vec![
            shard(0, Some(START), Some(41.5)),
            shard(2, None, None),
            shard(10, Some(START.before(Duration::from_millis(1250))), Some(38.0)),
        ],
        leaving: false,
    };
    app.app.sources.store.record_heartbeat(heartbeat, START).await.unwrap();
    insta::assert_snapshot!("status", status().await);
}

/// An error with its headers.
fn line(answer: &Answer) -> String {
    let code = answer.error();
    let headers: Vec<_> = ["retry-after", "www-authenticate", "allow"]
        .into_iter()
        .filter(|name| answer.has(name))
        .map(|name| format!("{name}: {}\n", answer.header(name)))
        .collect();
    let body = fixed(&answer.text(), &[(answer.header("x-request-id"), "<request id>")]);
    format!("# {code}\n{}{body}\n", headers.concat())
}

#[tokio::test]
async fn every_error_of_a_sign_in() {
    let app = TestApp::start().await;
    let post = || app.anon().post("/auth");
    let code = || post().header("Idp-Code", "a-code");
    let mut seen = vec![
        post().send().await,
        post().header("Idp-Code", "two words").send().await,
        code().header("Idp-Code-Verifier", "two words").send().await,
        post().header("Idp-Code", "unknown").send().await,
    ];
    let narrow = r#"{"access_token": "a", "token_type": "Bearer", "expires_in": 604800, "refresh_token": "r", "scope": "identify"}"#;
    for (number, fault) in (0..).zip([
        Fault::Status { code: 200, body: narrow.to_owned(), headers: Vec::new() },
        Fault::InvalidClient,
        Fault::Nonsense,
        Fault::RateLimited { retry_after: Some(3.2), json: true, global: false },
    ]) {
        app.sandbox.fail_times(Endpoint::Token, fault, 1);
        seen.push(post().header("Idp-Code", format!("code-{number}")).send().await);
    }
    app.clock.advance(Duration::from_mins(1));
    app.app.accounts.block(id(MEMBER), "test".to_owned()).await.unwrap();
    seen.push(app.sign_in(&app.sandbox.issue_code("member")).await);
    let impatient = TestApp::builder().set("[idp]\nsign_in_timeout = \"20ms\"").start().await;
    impatient.sandbox.fail(Endpoint::Token, Fault::Hang);
    seen.push(impatient.sign_in("a-code").await);
    insta::assert_snapshot!("errors_sign_in", seen.iter().map(line).collect::<Vec<_>>().join("\n"));
}

#[tokio::test]
async fn every_other_error() {
    let app = TestApp::builder()
        .set("[limits]\nconcurrent_requests = 1\nrequests_per_second = 1\nrequests_burst = 9")
        .start()
        .await;
    let member = app.user("member").await;
    let mut seen = vec![
        app.anon().get("/guilds").await,
        app.anon().with_token("nonsense").get("/guilds").await,
        member.delete("/sessions/unknown").send().await,
        app.anon().get("/none").await,
        app.anon().call(Method::PUT, "/team").send().await,
        app.anon().call(Method::GET, "/team").header("X", "x".repeat(20_000)).send().await,
    ];
    let place = app.app.request_permits.acquire().await.unwrap();
    seen.push(member.get("/sessions").await);
    drop(place);
    app.folder.sql("DROP TABLE sessions").await;
    seen.push(member.get("/sessions").await);
    seen.push(member.get("/sessions").await);
    let impatient = TestApp::builder().set("[limits]\nrequest_timeout = \"20ms\"").start().await;
    let _hold = impatient.sandbox.hold(Endpoint::Token);
    seen.push(impatient.sign_in("a-code").await);
    let closed = TestApp::start().await;
    let member = closed.user("member").await;
    closed.app.sources.store.close().await;
    seen.push(member.get("/sessions").await);
    insta::assert_snapshot!("errors", seen.iter().map(line).collect::<Vec<_>>().join("\n"));
}

#[tokio::test]
async fn a_body_that_is_too_large() {
    let app = TestApp::start().await;
    let mut wire = Wire::open(app.address).await;
    wire.send(request("POST", "/auth", "Content-Length: 70000\r\n")).await;
    let answer = wire.answer().await.unwrap();
    let request_id = answer.header("x-request-id");
    insta::assert_snapshot!("error_body_too_large", fixed(&answer.text(), &[(request_id, "<request id>")]));
}
