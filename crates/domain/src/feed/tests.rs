mod heartbeats;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::feedback::{Feedback, FeedbackEntry};
use crate::tests::TEST_RULES;
use crate::{Permission, PermissionSet, User};

const NOW: Time = Time::from_seconds(1_800_000_000);

fn id(number: u64) -> Snowflake {
    Snowflake::new(number).unwrap()
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// The object with these fields added.
fn with(mut value: Value, fields: &Value) -> Value {
    for (name, field) in fields.as_object().unwrap() {
        value[name] = field.clone();
    }
    value
}

fn guild() -> Value {
    json!({"id": "7", "name": "a", "icon": null, "owner": "9"})
}

#[test]
fn a_whole_guild() {
    let line = json!({
        "id": "9223372036854775807", "name": "\"Night\" 🌙", "icon": "a_0f", "owner": "9", "members": 5, "setup": true,
        "linked": true, "grants": {"1": ["MOD", "ADMIN"], "2": ["FOUNDER", "NEW_KEY"]}, "staff": {"3": ["1", "2"], "4": []},
        "something": {"new": [1, 2.5, null]},
    });
    let Ok(SnapshotLine::One(GuildLine::Guild(read), ignored)) = guild_line(&bytes(&line)) else { panic!() };
    assert_eq!(read.name, "\"Night\" 🌙");
    assert_eq!(
        (read.id.get(), read.owner, read.members, read.setup, read.linked),
        (i64::MAX as u64, id(9), 5, true, true)
    );
    let grants = read.grants.unwrap();
    assert_eq!(grants[&id(1)], PermissionSet::of(&[Permission::Mod, Permission::Admin]));
    assert_eq!(grants[&id(2)], PermissionSet::EMPTY);
    assert_eq!(read.staff.unwrap()[&id(3)], [id(1), id(2)]);
    assert_eq!(
        ignored,
        [
            "`grants` may not grant `FOUNDER`; the key was left out.",
            "`grants` may not grant `NEW_KEY`; the key was left out."
        ]
    );
}

#[test]
fn what_a_guild_leaves_out() {
    let Ok(SnapshotLine::One(GuildLine::Guild(read), _)) = guild_line(&bytes(&guild())) else { panic!() };
    assert_eq!((read.members, read.setup, read.linked), (0, false, false));
    assert!(read.grants.is_none() && read.staff.is_none(), "they stay");
    let none = with(guild(), &json!({"grants": {}, "staff": {}}));
    let Ok(SnapshotLine::One(GuildLine::Guild(read), _)) = guild_line(&bytes(&none)) else { panic!() };
    assert!(read.grants.unwrap().is_empty() && read.staff.unwrap().is_empty(), "there are none");
    let event = with(guild(), &json!({"type": "guild"}));
    let Ok((Event::Change(Change::Guild(read)), _)) = event_line(&bytes(&event), &TEST_RULES) else { panic!() };
    assert!(read.grants.is_none() && read.staff.is_none(), "in an event they stay, too");
}

#[test]
fn ends_and_outages() {
    assert_eq!(guild_line(br#"{"end": 3}"#), Ok(SnapshotLine::End(3)));
    assert_eq!(subscription_line(br#" {"end":0} "#), Ok(SnapshotLine::End(0)));
    let outage = guild_line(br#"{"id":"7","unavailable":true}"#);
    assert_eq!(outage, Ok(SnapshotLine::One(GuildLine::Unavailable(id(7)), Vec::new())));
    assert!(guild_line(br#"{"end": -1}"#).is_err() && guild_line(br#"{"end": "1"}"#).is_err());
}

#[test]
fn only_a_line_without_an_id_ends_a_snapshot() {
    let guild_with_end = with(guild(), &json!({"end": 3}));
    assert!(matches!(guild_line(&bytes(&guild_with_end)), Ok(SnapshotLine::One(GuildLine::Guild(_), _))));
    let subscription = json!({"userid": "7", "guilds": [], "active_until": null, "end": 3});
    assert!(matches!(subscription_line(&bytes(&subscription)), Ok(SnapshotLine::One(_, _))));
    for neither in [&b"{}"[..], br#"{"end":null}"#, br#"{"id":null,"userid":null,"end":3}"#] {
        assert!(guild_line(neither).is_err() && subscription_line(neither).is_err(), "{}", neither.escape_ascii());
    }
}

#[test]
fn a_list_has_a_bound() {
    for (count, fits) in [(0, true), (250, true), (251, false)] {
        let line = json!({"type": "member", "guild": "7", "user": "9", "roles": vec!["1"; count]});
        assert_eq!(event_line(&bytes(&line), &TEST_RULES).is_ok(), fits, "{count}");
    }
}

#[test]
fn wrong_guilds() {
    let many = |count: usize, value: Value| {
        Value::Object((1..=count).map(|number| (number.to_string(), value.clone())).collect())
    };
    let table = [
        (json!({"id": 7}), "`id` must be an id as a string of digits."),
        (json!({"id": "007"}), "`id` must be an id as a string of digits."),
        (json!({"name": ""}), "`name` must be text of 1 to 100 characters."),
        (json!({"name": "ü".repeat(101)}), "`name` must be text of 1 to 100 characters."),
        (json!({"owner": null}), "`owner` must be an id as a string of digits."),
        (json!({"icon": "http://a.example/i.png"}), "`icon` must be a picture's hash, an https URL or null."),
        (json!({"icon": "https://a.example/\"x"}), "`icon` must be a picture's hash, an https URL or null."),
        (json!({"members": 1.5}), "`members` must be a whole number from 0 to 9223372036854775807."),
        (json!({"setup": 1}), "`setup` must be true or false."),
        (json!({"grants": []}), "`grants` must be an object whose names are ids."),
        (json!({"grants": {"x": []}}), "`grants` must be an object whose names are ids, strings of digits."),
        (json!({"grants": {"1": "MOD"}}), "`grants` must be an object of lists of permission keys."),
        (json!({"grants": many(251, json!([]))}), "`grants` must be an object with at most 250 entries."),
        (json!({"staff": many(10_001, json!([]))}), "`staff` must be an object with at most 10000 entries."),
        (json!({"staff": {"1": [1]}}), "`staff` must be an object of lists of at most 250 role ids."),
    ];
    for (fields, reason) in table {
        let refused = guild_line(&bytes(&with(guild(), &fields))).unwrap_err();
        assert_eq!(refused.to_string(), reason);
    }
    let bounds =
        json!({"name": "ü".repeat(100), "grants": many(250, json!(["MOD"])), "staff": many(10_000, json!(["1"]))});
    assert!(guild_line(&bytes(&with(guild(), &bounds))).is_ok());
    assert_eq!(guild_line(b"[]").unwrap_err().to_string(), "A line must be a JSON object.");
    assert_eq!(guild_line(b"{\"id\":secret}").unwrap_err().to_string(), "The line is not valid JSON (column 7).");
}

/// Not every store can hold U+0000, and one bad name must not break a snapshot or a batch.
#[test]
fn no_text_has_what_a_store_cannot_hold() {
    let person = json!({"id": "5", "username": "u\0", "name": "\0", "avatar": null});
    let member = json!({"discord_id": "5", "username": "\0u", "name": "n\0", "role": "r\0", "color": "#000000",
        "category": "c\0", "position": 1});
    let feedback = json!({"id": "i\0", "feedback": "f\0", "rating": 5, "timestamp": 1, "submitter": person});
    let table = [
        with(guild(), &json!({"type": "guild", "name": "a\0b"})),
        with(feedback, &json!({"type": "feedback"})),
        json!({"type": "feedback_gone", "id": "i\0"}),
        with(person, &json!({"type": "user"})),
        json!({"type": "team", "members": [member]}),
    ];
    for event in table {
        let (Event::Change(change), _) = event_line(&bytes(&event), &TEST_RULES).unwrap() else { panic!("{event}") };
        let shown = format!("{change:?}");
        assert!(shown.contains('\u{fffd}') && !shown.contains("\\0"), "{shown}");
    }
    let refused = with(guild(), &json!({"icon": "a\0"}));
    assert!(guild_line(&bytes(&refused)).is_err(), "a picture never had it");
    let Ok(SnapshotLine::One(GuildLine::Guild(read), _)) = guild_line(&bytes(&with(guild(), &json!({"name": "\0"}))))
    else {
        panic!()
    };
    assert_eq!(read.name, "\u{fffd}");
}

#[test]
fn every_event() {
    let person = json!({"id": "5", "username": "u", "name": null, "avatar": "https://a.example/a.png"});
    let user =
        User { username: "u".to_owned(), name: "u".to_owned(), id: id(5), avatar: "https://a.example/a.png".into() };
    let said = json!({"id": "f", "feedback": "good", "rating": 5, "timestamp": 1_700_000_000.75, "submitter": person});
    let subscription =
        Subscription { userid: id(5), slots: 2, guilds: vec![id(7)], active_until: Some(Time::from_millis(1_500)) };
    let member = Change::Member { guild: id(7), user: id(5), roles: vec![id(1)] };
    let entry =
        FeedbackEntry { feedback: "good".to_owned(), rating: 5, timestamp: 1_700_000_000, submitter: user.clone() };
    let table = [
        (json!({"type": "guild_gone", "id": "7"}), Change::GuildGone(id(7))),
        (json!({"type": "member", "guild": "7", "user": "5", "roles": ["1"]}), member),
        (json!({"type": "member_gone", "guild": "7", "user": "5"}), Change::MemberGone { guild: id(7), user: id(5) }),
        (
            json!({"type": "subscription", "userid": "5", "slots": 2, "guilds": ["7"], "active_until": 1.5}),
            Change::Subscription(subscription),
        ),
        (json!({"type": "subscription_gone", "userid": "5"}), Change::SubscriptionGone(id(5))),
        (with(said.clone(), &json!({"type": "feedback"})), Change::Feedback(Feedback { id: "f".to_owned(), entry })),
        (json!({"type": "feedback_gone", "id": "f"}), Change::FeedbackGone("f".to_owned())),
        (with(person, &json!({"type": "user"})), Change::User(user)),
    ];
    for (line, change) in table {
        assert_eq!(event_line(&bytes(&line), &TEST_RULES), Ok((Event::Change(change), Vec::new())), "{line}");
    }
    let unknown = json!({"type": format!("new\n{}", "x".repeat(90))});
    let (Event::Ignored(reason), _) = event_line(&bytes(&unknown), &TEST_RULES).unwrap() else { panic!() };
    assert_eq!(reason, format!("The event type `new\\n{}…` is not known here.", "x".repeat(36)));
    for (fields, reason) in [
        (json!({"rating": 0}), "`rating` must be a whole number from 1 to 5."),
        (json!({"rating": 6}), "`rating` must be a whole number from 1 to 5."),
        (json!({"rating": 4.5}), "`rating` must be a whole number from 1 to 5."),
        (json!({"id": "x".repeat(65)}), "`id` must be text of 1 to 64 characters."),
        (json!({"timestamp": 1_700_000_000_000_u64}), "`timestamp` must be a time in epoch seconds."),
        (json!({"submitter": "5"}), "`submitter` must be an object with `id`, `username`, `name` and `avatar`."),
        (json!({"submitter": {"id": "5"}}), "`submitter`: `username` must be text of 1 to 100 characters."),
    ] {
        assert_eq!(feedback_line(&bytes(&with(said.clone(), &fields)), &TEST_RULES).unwrap_err().to_string(), reason);
    }
    assert!(event_line(b"{}", &TEST_RULES).is_err());
}

#[test]
fn a_subscription_says_when_it_ends() {
    let line = json!({"userid": "5", "guilds": [], "active_until": null});
    let Ok(SnapshotLine::One(read, _)) = subscription_line(&bytes(&line)) else { panic!() };
    assert_eq!(read.active_until, None);
    let refused = subscription_line(br#"{"userid": "5", "guilds": []}"#).unwrap_err();
    assert!(refused.to_string().starts_with("`active_until` must be a time in epoch seconds, or null"));
}

#[test]
fn a_team_and_all_that_is_wrong_with_one() {
    let member = json!({"username": "u", "name": "N", "avatar": null, "discord_id": "5", "role": "Helper",
        "color": "#5865f2", "category": "support", "position": -1, "permissions": ["SUPPORT", "ADMIN"]});
    let (read, ignored) = roster(&bytes(&json!({"members": [member]})), &TEST_RULES).unwrap();
    assert_eq!(read.0[0].permissions, PermissionSet::of(&[Permission::Support]));
    assert_eq!(read.0[0].member.avatar.stored(), "avatar 5 None");
    assert_eq!(ignored.len(), 1);
    let wrong = json!({"members": [with(member.clone(), &json!({"color": "red"})), member,
        with(member.clone(), &json!({"category": "Support Team"})), with(member.clone(), &json!({"position": "1"})), 5]});
    let reasons: Vec<String> =
        roster(&bytes(&wrong), &TEST_RULES).unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        reasons,
        [
            "Member 1: `color` must be a colour like \"#5865F2\".",
            "Member 3: `category` must be a lower-case word like \"support\".",
            "Member 4: `position` must be a whole number.",
            "Member 5: `members` must be a list of objects.",
        ]
    );
}

/// Every function that reads a line.
fn read_all(line: &[u8]) -> Vec<String> {
    let reasons = [
        guild_line(line).err(),
        subscription_line(line).err(),
        event_line(line, &TEST_RULES).err(),
        feedback_line(line, &TEST_RULES).err(),
        heartbeat("key", line, NOW).err(),
        roster(line, &TEST_RULES).err().and_then(|reasons| reasons.into_iter().next()),
    ];
    reasons.into_iter().flatten().map(|reason| reason.to_string()).collect()
}

proptest! {
    #[test]
    fn no_input_panics_and_no_reason_is_long(line: Vec<u8>, text in ".*") {
        for reason in read_all(&line).into_iter().chain(read_all(text.as_bytes())) {
            prop_assert!(reason.len() < 200 && !reason.contains(char::is_control), "{reason}");
        }
    }

    #[test]
    fn no_field_panics(
        kind in "guild|member|team|user|feedback|subscription|x",
        field in "id|name|icon|owner|members|grants|staff|guild|user|roles|userid|slots|guilds|active_until|rating|timestamp|submitter|shards|memory|started_at|end",
        value in r#"null|true|-?[0-9]{1,30}(\.[0-9]{1,5})?(e[0-9]{1,3})?|"[ -!#-\[\]-~]{0,20}"|\[(1|"1"|\{\})\]|\{"1":(1|\[\]|\["1"\])\}"#,
    ) {
        let line = format!(
            r#"{{"type":"{kind}","id":"1","name":"n","owner":"1","guild":"1","user":"1","userid":"1","username":"u",
            "guilds":[],"roles":[],"active_until":null,"members":1,"{field}":{value}}}"#
        );
        for reason in read_all(line.as_bytes()) {
            prop_assert!(reason.len() < 200 && !reason.contains(char::is_control), "{reason}");
        }
    }
}

#[test]
fn shards_overlap_where_some_guild_is_in_both() {
    for (a, b) in [(1, 1), (1, 4), (2, 4), (4, 6), (3, 4), (5, 5), (6, 9)] {
        for (i, j) in (0..a).flat_map(|i| (0..b).map(move |j| (i, j))) {
            let common = common_divisor(a, b);
            let shared = (0..a * b).any(|number| number % a == i && number % b == j);
            assert_eq!(i % common == j % common, shared, "{i} of {a}, {j} of {b}");
        }
    }
}

#[test]
fn of_lines_about_the_same_thing_the_last_counts() {
    type Keyed<'a> = &'a [(u8, char)];
    let table: &[(Keyed<'_>, Keyed<'_>)] = &[
        (&[], &[]),
        (&[(2, 'a'), (1, 'b')], &[(1, 'b'), (2, 'a')]),
        (&[(2, 'a'), (1, 'b'), (2, 'c')], &[(1, 'b'), (2, 'c')]),
        (&[(1, 'a'), (1, 'b'), (1, 'c')], &[(1, 'c')]),
    ];
    for (given, last) in table {
        let mut lines = given.to_vec();
        keep_last(&mut lines, |(key, _)| *key);
        assert_eq!(lines, *last, "{given:?}");
    }
}

#[test]
fn a_shard_covers_the_guilds_whose_id_falls_to_it() {
    for (count, number, fits) in
        [(1, 0, true), (2, 1, true), (2, 2, false), (0, 0, false), (100_000, 99_999, true), (100_001, 0, false)]
    {
        assert_eq!(ShardKey::new(count, number), fits.then_some(ShardKey { count, id: number }), "{number} of {count}");
    }
    let guild = id((5 << 22) + 77);
    for (count, home) in [(1, 0), (2, 1), (3, 2), (4, 1), (5, 0)] {
        assert_eq!(ShardKey::of(guild, count), ShardKey { count, id: home });
        assert!((0..count).all(|id| ShardKey { count, id }.covers(guild) == (id == home)));
    }
    assert_eq!(ShardKey::of(guild, 0), ShardKey { count: 1, id: 0 }, "there is always one");
    let shard = ShardKey { count: 2, id: 1 };
    assert_eq!((Scope::Shard(shard).shard(), Scope::Subscriptions.shard()), (Some(shard), None));
}

#[test]
fn lines_leave_parts_unsaid() {
    let read = |fields: &Value| match guild_line(&bytes(&with(guild(), fields))) {
        Ok(SnapshotLine::One(line, _)) => line,
        other => panic!("{other:?}"),
    };
    let (whole, bare) = (read(&json!({"grants": {}, "staff": {}})), read(&json!({"id": "8"})));
    let outage = read(&json!({"id": "9", "unavailable": true}));
    let lines = |lines: &[&GuildLine]| Lines::Guilds(lines.iter().copied().cloned().collect());
    assert!(!lines(&[]).has_carried_parts() && !lines(&[&whole, &outage]).has_carried_parts());
    assert!(lines(&[&whole, &bare]).has_carried_parts());
    assert!(!Lines::Subscriptions(Vec::new()).has_carried_parts());
    let all = [bare, outage, whole];
    let last = LastGuildLines::of(&all);
    assert_eq!(last.guilds.iter().map(|guild| guild.id).collect::<Vec<_>>(), [id(7), id(8)]);
    assert_eq!((last.carrying, last.unavailable), (vec![id(8)], vec![id(9)]));
}
