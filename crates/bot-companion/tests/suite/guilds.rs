//! The guild list: who is where, with which role and permissions. Premium: `guild_plus`. How fresh the provider's part of it
//! is: `guild_lists`.

use domain::{Change, Guild, Permission};
use provider::idp::Endpoint;
use sandbox::PersonGuild;
use sandbox::people::{HARBOUR, MEMBER, OWNER};
use serde_json::{Value, json};

use crate::harness::{Client, TestApp, grants, guild, listed, names, on_postgres, staff, subscription, true_keys};

/// Someone else, who owns what the member does not.
const OTHER: u64 = 77;
/// The permissions to manage a guild, in the specification's order.
const MANAGING: [&str; 7] =
    ["ERLC_STAFF", "ERLC_ADMIN", "ERLC_MANAGER", "MANAGE_SERVER", "SESSION_STARTER", "MOD", "ADMIN"];

/// A service whose `member` is in these guilds at the provider, and whose bot has sent this.
pub async fn member_in(
    guilds: impl IntoIterator<Item = PersonGuild>,
    changes: impl IntoIterator<Item = Change>,
) -> (TestApp, Client) {
    let app = TestApp::start().await;
    app.sandbox.edit("member", |person| person.guilds = guilds.into_iter().collect());
    app.bot_says(changes).await;
    let member = app.user("member").await;
    (app, member)
}

/// Someone else's guild.
pub fn others(number: u64, name: &str) -> Guild {
    guild(number, name, OTHER)
}

#[tokio::test]
async fn a_user_sees_the_guilds_that_they_share_with_the_bot() {
    let app = TestApp::start().await;
    app.bot_says([Change::Guild(guild(HARBOUR.id, HARBOUR.name, OWNER))]).await;
    let guilds = app.user("owner").await.guilds().await;
    assert_eq!(names(&guilds), [HARBOUR.name]);
    assert_eq!(guilds[0]["role"], "Owner");
    assert_eq!(guilds[0]["service"], true);
    assert_eq!(app.sandbox.calls(Endpoint::Guilds), 1, "the list that was fetched beside the login");
}

#[tokio::test]
async fn a_user_in_no_guild_gets_an_empty_list() {
    let app = TestApp::start().await;
    assert_eq!(app.user("newcomer").await.guilds().await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_user_who_shares_no_guild_with_the_bot_gets_an_empty_list() {
    let (_app, member) = member_in([listed(1, 0)], [Change::Guild(others(2, "b"))]).await;
    assert_eq!(member.guilds().await, Vec::<Value>::new());
}

#[tokio::test]
async fn only_guilds_on_the_providers_list_and_in_the_bots_data_are_shown() {
    let known = [2, 3, 4].map(|number| Change::Guild(others(number, &format!("g{number}"))));
    let (_app, member) = member_in([1, 2, 3].map(|number| listed(number, 0)), known).await;
    assert_eq!(names(&member.guilds().await), ["g2", "g3"]);
}

#[tokio::test]
async fn the_owner_is_whom_the_bot_names_and_not_whom_the_provider_flags() {
    let flagged = PersonGuild { owner: true, ..listed(1, 0) };
    let changes = [Change::Guild(others(1, "theirs")), Change::Guild(guild(2, "own", MEMBER))];
    let (_app, member) = member_in([flagged, listed(2, 0)], changes).await;
    let guilds = member.guilds().await;
    assert_eq!(names(&guilds), ["own", "theirs"]);
    assert_eq!((&guilds[0]["role"], &guilds[0]["owner"]), (&json!("Owner"), &json!(MEMBER.to_string())));
    assert_eq!(true_keys(&guilds[0]), MANAGING);
    assert_eq!((guilds[1].get("role"), &guilds[1]["owner"]), (None, &json!(OTHER.to_string())));
}

#[tokio::test]
async fn names_and_ids_come_through_as_they_are() {
    let odd = ["\"Night\" \\ Shift", "🌙 & <script>", "مجتمع الواحة", "line\nbreak\u{2028}", "\u{202e}drawkcab", ""];
    let first = 9_007_199_254_740_993_u64;
    let largest = u64::MAX >> 1;
    let numbered = || (first..).zip(odd);
    let changes = numbered()
        .map(|(number, name)| Change::Guild(others(number, name)))
        .chain([Change::Guild(guild(largest, "largest", largest))]);
    let list = numbered().map(|(number, _)| number).chain([largest]).map(|number| listed(number, 0));
    let (_app, member) = member_in(list, changes).await;
    let guilds = member.guilds().await;
    assert_eq!(guilds.len(), 7);
    for (number, name) in numbered() {
        let entry = guilds.iter().find(|entry| entry["id"] == *number.to_string()).unwrap();
        assert_eq!(entry["name"], name);
    }
    assert!(guilds.iter().any(|entry| entry["owner"] == *largest.to_string()));
}

#[tokio::test]
async fn two_hundred_guilds_come_whole() {
    let numbers = || (1..=200_u64).map(|number| number << 22);
    let changes = numbers().map(|number| Change::Guild(others(number, &format!("g{number:020}"))));
    let (_app, member) = member_in(numbers().map(|number| listed(number, 0)), changes).await;
    for _ in 0..2 {
        let guilds = member.guilds().await;
        assert_eq!(guilds.len(), 200);
        assert!(guilds.is_sorted_by_key(|entry| entry["name"].as_str().unwrap().to_owned()));
    }
}

#[tokio::test]
async fn a_broken_row_never_breaks_the_list() {
    let app = TestApp::start().await;
    app.sandbox.edit("member", |person| person.guilds = (1..=5).map(|number| listed(number, 0)).collect());
    app.bot_says((1..=5).map(|number| Change::Guild(guild(number, &format!("g{number}"), MEMBER)))).await;
    app.bot_says([Change::Subscription(subscription(MEMBER, &[5], None))]).await;
    // PostgreSQL refuses anything but text in a text column.
    let unreadable = if on_postgres() { "owner = 0" } else { "name = CAST(x'ff00fe' AS TEXT)" };
    let broken = format!(
        "UPDATE guilds SET grants = '{{\"1\": garbage' WHERE id = 1;
         UPDATE guilds SET owner = -4 WHERE id = 2;
         UPDATE guilds SET {unreadable} WHERE id = 3;
         UPDATE guilds SET members = -1 WHERE id = 4;
         UPDATE subscriptions SET slots = -1;"
    );
    app.folder.sql(&broken).await;
    let member = app.user("member").await;
    let guilds = member.guilds().await;
    assert_eq!(names(&guilds), ["g1", "g4", "g5"], "what cannot be read at all is left out");
    assert_eq!(guilds[0]["role"], "Owner", "without its grants a guild still has its owner");
    assert_eq!(guilds[1]["members"], 0);
    assert_eq!(guilds[2]["plus"]["active"], false);
    // The bot's next message fixes it.
    app.bot_says([Change::Guild(guild(2, "mended", MEMBER))]).await;
    assert_eq!(names(&member.guilds().await), ["g1", "g4", "g5", "mended"]);
}

#[tokio::test]
async fn a_guild_that_the_provider_garbles_is_left_out_and_the_rest_is_shown() {
    let app = TestApp::start().await;
    app.bot_says([Change::Guild(others(1, "a")), Change::Guild(others(2, "b"))]).await;
    let body = r#"[{"id": "1", "name": "a", "permissions": "0"}, {"id": 2}, {"id": "x"}, null, {"id": "2", "permissions": "32"}]"#;
    let garbled = sandbox::Fault::Status { code: 200, body: body.to_owned(), headers: Vec::new() };
    app.sandbox.fail(Endpoint::Guilds, garbled);
    let guilds = app.user("member").await.guilds().await;
    assert_eq!(names(&guilds), ["b", "a"]);
    assert_eq!(guilds[0]["role"], "Manager");
}

#[tokio::test]
async fn each_user_has_their_own_view_of_a_guild() {
    let app = TestApp::start().await;
    let harbour = Guild {
        grants: Some(grants(&[(500, &[Permission::Mod])])),
        staff: Some(staff(&[(sandbox::people::MODERATOR, &[500])])),
        ..guild(HARBOUR.id, HARBOUR.name, OWNER)
    };
    app.bot_says([Change::Guild(harbour)]).await;
    for (person, role) in
        [("owner", Some("Owner")), ("manager", Some("Manager")), ("moderator", Some("Moderator")), ("member", None)]
    {
        let client = app.user(person).await;
        for _ in 0..2 {
            let guilds = client.guilds().await;
            assert_eq!(guilds[0]["role"].as_str(), role, "{person}");
        }
    }
}
