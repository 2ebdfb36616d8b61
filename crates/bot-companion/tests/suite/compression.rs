//! Compressed answers: which ones, for whom, and with which `ETag`.

use domain::{Change, Permission};
use reqwest::Method;
use sandbox::people::MEMBER;

use crate::harness::{Answer, Client, ORIGIN, TestApp, feedback, guild, listed, subscription, team, team_member};

/// A service whose answers, except the totals, are all over 1 KB, and a session that sees all of them.
async fn start() -> (TestApp, Client) {
    let app = TestApp::start().await;
    app.sandbox.edit("member", |person| person.guilds = (1..=4).map(|number| listed(number, 8)).collect());
    let guilds = (1..=4).map(|number| Change::Guild(guild(number, &format!("{number}{}", "y".repeat(99)), MEMBER)));
    let entries = (0..5).map(|number| {
        let mut entry = feedback(&format!("entry-{number}"), 5);
        entry.entry.feedback = "good ".repeat(100);
        Change::Feedback(entry)
    });
    let members = (1..=9).map(|position| team_member(MEMBER, "Pip", "support", position, &[Permission::Support]));
    // It makes even the answer about one guild long.
    let premium = Change::Subscription(subscription(MEMBER, &(1..=99).collect::<Vec<_>>(), None));
    app.bot_says(guilds.chain(entries).chain([premium, team(members.collect())])).await;
    let member = app.user("member").await;
    (app, member)
}

async fn get(client: &Client, path: &str, accepted: &str, known: &str) -> Answer {
    client.call(Method::GET, path).header("Accept-Encoding", accepted).header("If-None-Match", known).send().await
}

#[tokio::test]
async fn long_answers_that_are_cached_are_compressed_for_who_accepts_it() {
    let (_app, member) = start().await;
    for path in ["/team", "/guilds", "/guilds/invitable", "/guilds/1", "/openapi.json", "/stats"] {
        let plain = member.get(path).await;
        assert_eq!(plain.status, 200, "{path}");
        assert!(!plain.has("content-encoding"), "{path}");
        let vary = if path.starts_with("/guilds") { "origin, accept-encoding" } else { "accept-encoding" };
        assert_eq!(plain.header("vary"), vary, "{path}");
        // The first is compressed for this request, the second is cached.
        for _ in 0..2 {
            let answer = get(&member, path, "gzip, br", "").await;
            assert_eq!((answer.status, answer.header("vary")), (200, vary), "{path}");
            assert_eq!(answer.header("content-type"), "application/json");
            if plain.body.len() > 1024 {
                assert_eq!(answer.decompressed(), plain.text(), "{path}");
                assert_eq!(answer.header("content-length"), answer.body.len().to_string());
                let head = member.call(Method::HEAD, path).header("Accept-Encoding", "gzip").send().await;
                assert_eq!(head.header("content-encoding"), "gzip", "{path}");
                assert_eq!(head.header("content-length"), answer.header("content-length"), "{path}");
            } else {
                assert!(matches!(path, "/stats" | "/guilds/invitable"), "{path} is long enough");
                assert!(!answer.has("content-encoding"), "{path}");
                assert_eq!(answer.body, plain.body);
            }
        }
        assert!(!get(&member, path, "br, gzip;q=0", "").await.has("content-encoding"), "{path}");
    }
}

#[tokio::test]
async fn what_is_made_for_one_request_is_never_compressed() {
    let (app, member) = start().await;
    assert!(app.anon().get("/feedback").await.body.len() > 1024);
    for path in ["/", "/feedback", "/auth", "/me", "/sessions"] {
        let answer = get(&member, path, "gzip", "").await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(!answer.has("content-encoding"), "{path}");
    }
    let refused = app.anon().call(Method::GET, "/guilds").header("Accept-Encoding", "gzip").send().await;
    assert!(!refused.refused(401, "token_missing").has("content-encoding"));
}

#[tokio::test]
async fn each_encoding_has_an_etag_of_its_own() {
    let (app, member) = start().await;
    let plain = get(&member, "/team", "identity", "").await.header("etag").to_owned();
    let gzip = get(&member, "/team", "gzip", "").await.header("etag").to_owned();
    assert_ne!(plain, gzip);
    for (accepted, known, status) in [
        ("gzip", &gzip, 304),
        ("identity", &plain, 304),
        ("gzip", &plain, 200),
        ("identity", &gzip, 200),
        ("gzip", &format!("{plain}, W/{gzip}"), 304),
    ] {
        let answer = get(&member, "/team", accepted, known).await;
        assert_eq!(answer.status, status, "{accepted} {known}");
        assert_eq!(answer.header("vary"), "accept-encoding");
        assert_eq!(answer.header("etag"), if accepted == "gzip" { &gzip } else { &plain });
        if status == 304 {
            assert!(answer.body.is_empty() && !answer.has("content-encoding"), "{:?}", answer.headers);
        }
    }
    app.bot_says([team(vec![team_member(MEMBER, "Pip", "support", 1, &[])])]).await;
    let changed = get(&member, "/team", "gzip", &gzip).await;
    assert_eq!((changed.status, changed.data().as_array().unwrap().len()), (200, 1), "it is short now");
    assert_ne!(changed.header("etag"), gzip);
}

#[tokio::test]
async fn a_change_shows_in_the_next_compressed_response() {
    let (app, member) = start().await;
    let ask = || member.call(Method::GET, "/guilds").header("Accept-Encoding", "gzip").header("Origin", ORIGIN).send();
    let before = ask().await;
    app.bot_says([Change::Guild(guild(2, "Renamed", MEMBER))]).await;
    let after = ask().await;
    for response in [&before, &after] {
        assert_eq!(response.header("content-encoding"), "gzip");
        assert_eq!(response.header("access-control-allow-origin"), ORIGIN);
    }
    assert!(!before.decompressed().contains("Renamed") && after.decompressed().contains("Renamed"));
}
