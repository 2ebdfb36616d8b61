//! The guild list: who is where, with which role and permissions. Premium: `guild_plus`. How fresh the provider's part of it
//! is: `guild_lists`.

use domain::{Change, Guild, Permission};
use provider::idp::Endpoint;
use sandbox::PersonGuild;
use sandbox::people::{HARBOUR, MEMBER, OWNER};
use serde_json::{Value, json};

use crate::harness::{
    Client, TestApp, grants, guild, listed, names, on_postgres, staff, subscription, team, team_member, true_keys,
};

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
async fn the_providers_administrator_and_manage_guild_bits_manage_the_server() {
    let bits = [(1, 0x8), (2, 0x20), (3, 0x28), (4, 1 << 60 | 0x20), (5, 0x10), (6, !0x28 & (u64::MAX >> 1))];
    let changes = bits.map(|(number, _)| Change::Guild(others(number, &format!("g{number}"))));
    let (_app, member) = member_in(bits.map(|(number, bits)| listed(number, bits)), changes).await;
    let guilds = member.guilds().await;
    assert_eq!(names(&guilds), ["g1", "g2", "g3", "g4", "g5", "g6"]);
    for manager in &guilds[..4] {
        assert_eq!(manager["role"], "Manager");
        assert_eq!(true_keys(manager), MANAGING);
    }
    for plain in &guilds[4..] {
        assert_eq!(plain.get("role"), None);
        assert_eq!(true_keys(plain), Vec::<&str>::new());
    }
}

#[tokio::test]
async fn each_mapped_role_gives_its_keys_and_its_role() {
    use Permission as P;
    let cases: [(P, &[&str], Option<&str>); 6] = [
        (P::ErlcManager, &["ERLC_STAFF", "ERLC_ADMIN", "ERLC_MANAGER"], Some("Manager")),
        (P::ErlcAdmin, &["ERLC_STAFF", "ERLC_ADMIN"], Some("Administrator")),
        (P::Admin, &["MOD", "ADMIN"], Some("Administrator")),
        (P::ErlcStaff, &["ERLC_STAFF"], Some("Moderator")),
        (P::Mod, &["MOD"], Some("Moderator")),
        (P::SessionStarter, &["SESSION_STARTER"], None),
    ];
    let mapped = (1_u64..).zip(cases).map(|(number, (key, ..))| {
        Change::Guild(Guild {
            grants: Some(grants(&[(500, &[key]), (501, &[P::ErlcManager])])),
            staff: Some(staff(&[(MEMBER, &[500, 502]), (OTHER, &[501])])),
            ..others(number, &format!("g{number}"))
        })
    });
    let (_app, member) = member_in((1..=6).map(|number| listed(number, 0)), mapped).await;
    let guilds = member.guilds().await;
    assert_eq!(names(&guilds), ["g1", "g2", "g3", "g4", "g5", "g6"]);
    for (entry, (key, keys, role)) in guilds.iter().zip(cases) {
        assert_eq!(true_keys(entry), keys, "{}", key.name());
        assert_eq!(entry.get("role").and_then(Value::as_str), role, "{}", key.name());
    }
}

#[tokio::test]
async fn a_user_with_several_mapped_roles_has_the_keys_of_all() {
    let mixed = Guild {
        grants: Some(grants(&[
            (500, &[Permission::ErlcStaff]),
            (501, &[Permission::Admin, Permission::SessionStarter]),
        ])),
        staff: Some(staff(&[(MEMBER, &[500, 501])])),
        ..others(1, "mixed")
    };
    let (_app, member) = member_in([listed(1, 0)], [Change::Guild(mixed)]).await;
    let guilds = member.guilds().await;
    assert_eq!(true_keys(&guilds[0]), ["ERLC_STAFF", "SESSION_STARTER", "MOD", "ADMIN"]);
    assert_eq!(guilds[0]["role"], "Administrator");
}

#[tokio::test]
async fn the_mapped_role_with_the_guilds_own_id_is_everyones() {
    let open = Guild { grants: Some(grants(&[(1, &[Permission::Mod])])), ..others(1, "open") };
    let (_app, member) = member_in([listed(1, 0)], [Change::Guild(open)]).await;
    let guilds = member.guilds().await;
    assert_eq!((true_keys(&guilds[0]), &guilds[0]["role"]), (vec!["MOD"], &json!("Moderator")));
}

#[tokio::test]
async fn a_plain_member_is_listed_without_the_key_role() {
    let (_app, member) = member_in([listed(1, 0)], [Change::Guild(others(1, "plain"))]).await;
    let guilds = member.guilds().await;
    let keys: Vec<_> = guilds[0].as_object().unwrap().keys().map(String::as_str).collect();
    assert!(!keys.contains(&"role"), "{keys:?}");
    assert_eq!(true_keys(&guilds[0]), Vec::<&str>::new());
}

#[tokio::test]
async fn guilds_are_ordered_by_role_then_name_then_id() {
    let role = |key: Permission| (Some(grants(&[(500, &[key])])), Some(staff(&[(MEMBER, &[500])])));
    let mapped = |number, name, key| {
        let (grants, staff) = role(key);
        Change::Guild(Guild { grants, staff, ..others(number, name) })
    };
    let changes = [
        Change::Guild(others(1, "a plain")),
        Change::Guild(others(3, "same")),
        Change::Guild(others(2, "same")),
        mapped(4, "a moderated", Permission::Mod),
        mapped(5, "b administered", Permission::Admin),
        mapped(6, "a administered", Permission::ErlcAdmin),
        mapped(7, "z managed", Permission::ErlcManager),
        Change::Guild(others(8, "a managed")),
        Change::Guild(guild(9, "z owned", MEMBER)),
    ];
    let list = (1..=9).map(|number| listed(number, if number == 8 { 0x20 } else { 0 }));
    let (_app, member) = member_in(list, changes).await;
    let guilds = member.guilds().await;
    let order: Vec<_> = guilds.iter().map(|entry| entry["id"].as_str().unwrap().parse::<u64>().unwrap()).collect();
    assert_eq!(order, [9, 8, 7, 6, 5, 4, 1, 2, 3], "{:?}", names(&guilds));
}

#[tokio::test]
async fn every_key_of_an_entry_stands_in_the_specifications_order() {
    let (_app, member) = member_in([listed(1, 0)], [Change::Guild(guild(1, "mine", MEMBER))]).await;
    let text = member.get("/guilds").await.text();
    let permissions = "ERLC_STAFF SERVICE_PLUS_GUILD QUALITY_ASSURANCE ERLC_ADMIN DOCWRITER FOUNDER ERLC_MANAGER MANAGE_SERVER \
        EXECUTIVE BOT_DEVELOPER WEB_DEVELOPER SETUP SESSION_STARTER MOD SUPPORT MANAGEMENT ADMIN SERVICE_STAFF ERLC_LINKED \
        SERVICE_PLUS_MEMBER";
    let entry = "name id icon members owner role service plus plus userid guilds slots active permissions";
    let (_, mut rest) = text.split_once("\"data\":[{").unwrap();
    for key in entry.split(' ').chain(permissions.split_whitespace()) {
        let (before, after) = rest.split_once(&format!("\"{key}\":")).unwrap_or_else(|| panic!("{key} in {rest}"));
        assert!(!before.contains("\":"), "{key} comes next, not {before}");
        rest = after;
    }
    assert_eq!(rest, "false}}]}", "the last key is the last");
}

#[tokio::test]
async fn setup_and_linked_are_facts_of_the_guild() {
    let facts = [(1, false, false), (2, true, false), (3, false, true), (4, true, true)];
    let changes = facts
        .map(|(number, setup, linked)| Change::Guild(Guild { setup, linked, ..others(number, &format!("g{number}")) }));
    let (_app, member) = member_in(facts.map(|(number, ..)| listed(number, 0)), changes).await;
    let keys: Vec<_> = member.guilds().await.iter().map(|entry| true_keys(entry).join(" ")).collect();
    assert_eq!(keys, ["", "SETUP", "ERLC_LINKED", "SETUP ERLC_LINKED"]);
}

#[tokio::test]
async fn the_teams_keys_show_in_every_guild_and_never_raise_the_role() {
    use Permission as P;
    let all = [
        P::Founder,
        P::Executive,
        P::Management,
        P::ServiceStaff,
        P::Support,
        P::QualityAssurance,
        P::Docwriter,
        P::WebDeveloper,
        P::BotDeveloper,
    ];
    let changes = [Change::Guild(others(1, "a")), Change::Guild(others(2, "b"))];
    let (app, member) = member_in([listed(1, 0), listed(2, 0)], changes).await;
    for key in all {
        app.bot_says([team(vec![team_member(MEMBER, "Pip", "support", 1, &[key])])]).await;
        let guilds = member.guilds().await;
        assert_eq!(guilds.len(), 2);
        for entry in guilds {
            let expected = if key == P::Executive { vec!["EXECUTIVE", "MANAGEMENT"] } else { vec![key.name()] };
            assert_eq!(true_keys(&entry), expected);
            assert_eq!(entry.get("role"), None);
        }
    }
    app.bot_says([team(vec![team_member(OTHER, "Other", "support", 1, &all)])]).await;
    assert_eq!(true_keys(&member.guilds().await[0]), Vec::<&str>::new(), "somebody else's keys");
}

#[tokio::test]
async fn a_guild_cannot_grant_the_teams_keys_nor_the_team_a_guilds() {
    let bold = Guild {
        grants: Some(grants(&[(500, &[Permission::Founder, Permission::ManageServer, Permission::Mod])])),
        staff: Some(staff(&[(MEMBER, &[500])])),
        ..others(1, "bold")
    };
    let roster = team(vec![team_member(MEMBER, "Pip", "support", 1, &[Permission::Admin, Permission::Support])]);
    let (_app, member) = member_in([listed(1, 0)], [Change::Guild(bold), roster]).await;
    assert_eq!(true_keys(&member.guilds().await[0]), ["MOD", "SUPPORT"]);
}

#[tokio::test]
async fn an_icon_is_always_a_url() {
    let cdn = "https://cdn.discordapp.com";
    let big = 9_007_199_254_740_993;
    let default = format!("{cdn}/embed/avatars/{}.png", (big >> 22) % 6);
    let cases = [
        (None, default.clone()),
        (Some("0a1b2c"), format!("{cdn}/icons/{big}/0a1b2c.png")),
        (Some("https://example.com/i.webp"), "https://example.com/i.webp".to_owned()),
        (Some("http://example.com/i.png"), default.clone()),
        (Some("../../etc"), default.clone()),
        (Some(""), default),
    ];
    let (app, member) = member_in([listed(big, 0)], []).await;
    for (icon, expected) in cases {
        app.bot_says([Change::Guild(Guild { icon: icon.map(str::to_owned), ..others(big, "g") })]).await;
        assert_eq!(member.guilds().await[0]["icon"], expected, "{icon:?}");
    }
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
