//! What a dashboard requests besides the guild list: how to sign in, who is signed in, one guild, and where the bot could be
//! added.

use std::time::Duration;

use domain::{Change, Permission};
use provider::idp::Endpoint;
use sandbox::PersonGuild;
use sandbox::people::{HARBOUR, MEMBER, OWNER};
use serde_json::{Value, json};

use crate::guilds::{member_in, others};
use crate::harness::{Bot, ORIGIN, START, TestApp, guild, listed, names, team, team_member};

const MANAGE: u64 = 0x20;

async fn redirect_uri(app: &TestApp, headers: &[(&str, &str)]) -> Value {
    let call = headers
        .iter()
        .fold(app.anon().call(http::Method::GET, "/auth"), |call, (name, value)| call.header(name, value));
    let answer = call.send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.data()["redirect_uri"].clone()
}

#[tokio::test]
async fn a_page_learns_how_to_sign_in_from_its_own_address() {
    let app = TestApp::start().await;
    let answer = app.anon().get("/auth").await;
    let expected = json!({
        "authorize_url": "https://discord.com/oauth2/authorize",
        "client_id": "suite",
        "scope": "identify guilds",
        "redirect_uri": format!("{ORIGIN}/callback"),
    });
    assert_eq!((answer.status, answer.data()), (200, expected));
    assert_eq!(answer.header("cache-control"), "no-store");
    let local = "http://localhost:3000/callback";
    let table: &[(&[(&str, &str)], &str)] = &[
        (&[("Origin", ORIGIN)], &format!("{ORIGIN}/callback")),
        (&[("Origin", "http://localhost:3000")], local),
        (&[("Origin", "https://elsewhere.example")], &format!("{ORIGIN}/callback")),
        (&[("Sec-Fetch-Site", "same-origin"), ("Host", "localhost:3000")], local),
        (&[("Sec-Fetch-Site", "same-origin"), ("Host", "elsewhere.example")], &format!("{ORIGIN}/callback")),
        (&[("Sec-Fetch-Site", "cross-site"), ("Host", "localhost:3000")], &format!("{ORIGIN}/callback")),
        (
            &[("Sec-Fetch-Site", "same-origin"), ("Origin", ORIGIN), ("Host", "localhost:3000")],
            &format!("{ORIGIN}/callback"),
        ),
    ];
    for (headers, expected) in table {
        assert_eq!(redirect_uri(&app, headers).await, *expected, "{headers:?}");
    }
}

#[tokio::test]
async fn a_server_may_name_the_redirect_address_and_only_a_configured_one() {
    let app = TestApp::start().await;
    let sign_in = |headers: &'static [(&'static str, &'static str)]| {
        let call = app.anon().post("/auth").header("Idp-Code", app.sandbox.issue_code("owner"));
        headers.iter().fold(call, |call, (name, value)| call.header(name, value)).send()
    };
    assert_eq!(sign_in(&[("Idp-Redirect-Uri", "http://localhost:3000/callback")]).await.status, 200);
    for wrong in ["http://localhost:3000/callback/", "http://localhost:3000", "", "https://elsewhere.example/callback"]
    {
        let call = app.anon().post("/auth").header("Idp-Code", app.sandbox.issue_code("owner"));
        let refused = call.header("Idp-Redirect-Uri", wrong).send().await.refused(400, "redirect_uri_unknown");
        assert_eq!(refused.data()["configured"], 2, "{wrong}");
        assert!(!refused.text().contains("localhost:3000") && !refused.text().contains(ORIGIN), "{}", refused.text());
    }
    let of_page = sign_in(&[("Origin", ORIGIN), ("Idp-Redirect-Uri", "https://elsewhere.example/callback")]).await;
    assert_eq!(of_page.status, 200, "a page is known by its origin");
}

#[tokio::test]
async fn a_user_sees_who_they_are_until_when_and_what_the_team_grants_them() {
    let app = TestApp::start().await;
    let signed_in = app.sign_in(&app.sandbox.issue_code("owner")).await;
    let owner = app.anon().with_token(signed_in.data()["token"].as_str().unwrap());
    app.clock.advance(Duration::from_secs(90));
    let answer = owner.get("/me").await;
    let id = owner.get("/sessions").await.data()[0]["id"].clone();
    let start = START.seconds();
    let expected = json!({
        "user": signed_in.data()["user"],
        "session": {"id": id, "created": start, "last_seen": start + 90, "expires": start + 90 + 7 * 86_400},
        "team": [],
    });
    assert_eq!((answer.status, answer.data()), (200, expected));
    assert_eq!(answer.header("cache-control"), "no-store");

    let keys = [Permission::Executive, Permission::Support];
    app.bot_says([team(vec![team_member(OWNER, "Marlow", "staff", 1, &keys)])]).await;
    assert_eq!(owner.get("/me").await.data()["team"], json!(["EXECUTIVE", "SUPPORT", "MANAGEMENT"]));
    app.bot_says([team(vec![])]).await;
    assert_eq!(owner.get("/me").await.data()["team"], json!([]));

    // A new name is known from the next sign-in on, in all of the user's sessions.
    app.sandbox.edit("owner", |person| person.global_name = Some("New name".to_owned()));
    app.user("owner").await;
    assert_eq!(owner.get("/me").await.data()["user"]["name"], "New name");
    owner.delete("/sessions").send().await;
    owner.get("/me").await.refused(401, "token_invalid");
    app.anon().get("/me").await.refused(401, "token_missing");
}

#[tokio::test]
async fn a_session_ends_at_the_earlier_of_its_two_limits() {
    let app = TestApp::start().await;
    let owner = app.user("owner").await;
    for _ in 0..5 {
        app.clock.advance(Duration::from_hours(6 * 24));
        if owner.get("/me").await.status != 200 {
            break;
        }
        let session = owner.get("/me").await.data()["session"].clone();
        let (now, start) = (app.clock.now().seconds(), START.seconds());
        assert_eq!(session["expires"], json!((now + 7 * 86_400).min(start + 30 * 86_400)));
    }
    owner.get("/me").await.refused(401, "token_invalid");
}

#[tokio::test]
async fn one_guild_is_shown_as_on_the_list_and_no_other_is_told_apart() {
    let known = [2, 3, 4].map(|number| Change::Guild(others(number, &format!("g{number}"))));
    let (app, member) = member_in([listed(1, 0), listed(2, MANAGE), listed(3, 0)], known).await;
    let list = member.get("/guilds").await;
    for (index, number) in [(0, 2), (1, 3)] {
        let one = member.get(&format!("/guilds/{number}")).await;
        assert_eq!((one.status, one.data()), (200, list.data()[index].clone()));
        assert_eq!((one.header("age"), one.header("cache-control")), (list.header("age"), "no-store"));
    }
    // Theirs without the bot, the bot's without them, nobody's, and an invalid ID.
    let mut bodies = Vec::new();
    for id in ["1", "4", "99", "0", "none", "02", "99999999999999999999999", "%ff"] {
        let refused = member.get(&format!("/guilds/{id}")).await.refused(404, "guild_not_found");
        bodies.push(refused.envelope()["message"].clone());
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    app.anon().get("/guilds/2").await.refused(401, "token_missing");
    // A settings page that was allowed a moment ago.
    app.bot_says([Change::GuildGone(crate::harness::id(2))]).await;
    member.get("/guilds/2").await.refused(404, "guild_not_found");
}

#[tokio::test]
async fn one_guild_can_be_asked_for_past_the_cache() {
    let (app, member) = member_in([listed(2, MANAGE)], [Change::Guild(others(2, "g2"))]).await;
    assert_eq!(member.get("/guilds/2").await.status, 200);
    app.sandbox.edit("member", |person| person.guilds.clear());
    assert_eq!(member.get("/guilds/2").await.status, 200, "the list is fresh enough");
    let calls = app.sandbox.calls(Endpoint::Guilds);
    let fresh = member.call(http::Method::GET, "/guilds/2").header("Cache-Control", "no-cache").send().await;
    fresh.refused(404, "guild_not_found");
    assert_eq!(app.sandbox.calls(Endpoint::Guilds), calls + 1);
}

/// The names on `GET /guilds/invitable`.
async fn invitable(user: &crate::harness::Client) -> Vec<String> {
    let answer = user.get("/guilds/invitable").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let guilds = answer.data().as_array().unwrap().clone();
    names(&guilds).into_iter().map(str::to_owned).collect()
}

async fn covered(app: &TestApp, guilds: &[Value]) -> Bot {
    let bot = app.bot("bot-1").await;
    bot.beats(START.seconds(), 1).await;
    let answer = bot.guilds((1, 0), 1, guilds).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    bot
}

#[tokio::test]
async fn the_bot_can_be_added_where_it_is_known_to_be_missing_and_the_user_may_manage() {
    let app = TestApp::start().await;
    let place = |number, name: &str, bits| PersonGuild { name: name.to_owned(), ..listed(number, bits) };
    let icon = PersonGuild { icon: Some("abc123".to_owned()), ..place(4, "a with icon", 8) };
    let guilds = vec![place(1, "b", MANAGE), place(2, "has the bot", MANAGE), place(3, "plain", 0), icon];
    app.sandbox.edit("member", |person| person.guilds = guilds);
    let member = app.user("member").await;
    app.settled().await;
    assert_eq!(invitable(&member).await, Vec::<String>::new(), "as long as no bot has reported, nothing is known");

    let reported = json!({"id": "2", "name": "has the bot", "owner": "77", "members": 5});
    let bot = covered(&app, std::slice::from_ref(&reported)).await;
    let answer = member.get("/guilds/invitable").await;
    let address = |id| {
        format!(
            "https://discord.com/oauth2/authorize?client_id=suite&scope=bot+applications.commands&guild_id={id}&disable_guild_select=true"
        )
    };
    let expected = json!([
        {"name": "a with icon", "id": "4", "icon": "https://cdn.discordapp.com/icons/4/abc123.png", "invite": address(4)},
        {"name": "b", "id": "1", "icon": "https://cdn.discordapp.com/embed/avatars/0.png", "invite": address(1)},
    ]);
    assert_eq!(answer.data(), expected);
    assert!(answer.has("age") && answer.header("cache-control") == "no-store");
    let calls = app.sandbox.calls(Endpoint::Guilds);
    // The bot joins one, and leaves another.
    let joined = json!({"type": "guild", "id": "1", "name": "b", "owner": "77", "members": 5});
    assert_eq!(bot.events(1, &[joined]).await.status, 200);
    assert_eq!(invitable(&member).await, ["a with icon"]);
    assert_eq!(bot.events(2, &[json!({"type": "guild_gone", "id": "2"})]).await.status, 200);
    assert_eq!(invitable(&member).await, ["a with icon", "has the bot"]);
    // A snapshot that contains nothing still covers its shard.
    assert_eq!(bot.guilds((1, 0), 3, &[]).await.status, 200);
    assert_eq!(invitable(&member).await, ["a with icon", "b", "has the bot"]);
    assert_eq!(app.sandbox.calls(Endpoint::Guilds), calls, "the stored list is enough");
    app.anon().get("/guilds/invitable").await.refused(401, "token_missing");
}

#[tokio::test]
async fn a_shard_that_has_not_reported_invites_nobody() {
    let app = TestApp::start().await;
    app.sandbox.edit("member", |person| person.guilds = vec![listed(1 << 22, MANAGE), listed(2 << 22, MANAGE)]);
    let member = app.user("member").await;
    let bot = app.bot("bot-1").await;
    assert_eq!(bot.guilds((2, 0), 1, &[]).await.status, 200);
    assert_eq!(invitable(&member).await.len(), 1);
    assert_eq!(bot.guilds((2, 1), 1, &[]).await.status, 200);
    assert_eq!(invitable(&member).await.len(), 2);
}

#[tokio::test]
async fn a_list_that_an_earlier_release_stored_names_its_guilds_after_the_next_fetch() {
    let app = TestApp::start().await;
    app.sandbox.edit("member", |person| person.guilds = vec![listed(1, MANAGE)]);
    let member = app.user("member").await;
    app.settled().await;
    covered(&app, &[]).await;
    let old = format!("UPDATE users SET list = '[{{\"id\":\"1\",\"permissions\":32}}]' WHERE id = {MEMBER}");
    let app = app.restarted_after(&old, &[]).await;
    let member = app.anon().with_token(member.token());
    assert_eq!(invitable(&member).await, Vec::<String>::new());
    assert_eq!(member.guilds().await, Vec::<Value>::new(), "and nothing is broken");
    let fresh = member.call(http::Method::GET, "/guilds/invitable").header("Cache-Control", "no-cache").send().await;
    assert_eq!(fresh.data()[0]["id"], "1");
}

#[tokio::test]
async fn the_operator_decides_where_the_bot_is_added() {
    let app =
        TestApp::builder().set("idp.invite_url = \"https://bot.example/add/{guild}?from={client_id}\"").start().await;
    app.sandbox.edit("member", |person| person.guilds = vec![listed(1, MANAGE)]);
    covered(&app, &[]).await;
    let member = app.user("member").await;
    assert_eq!(member.get("/guilds/invitable").await.data()[0]["invite"], "https://bot.example/add/1?from=suite");
    app.bot_says([Change::Guild(guild(HARBOUR.id, HARBOUR.name, OWNER))]).await;
}
