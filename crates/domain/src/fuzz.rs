//! Fuzz tests of what strangers and bots send: headers, IDs and the feed's lines.

use bolero::check;
use test_support::inputs::{ITERATIONS, near};

use crate::feed::{
    Event, GuildLine, InstanceName, Reason, SnapshotLine, event_line, feedback_line, guild_line, heartbeat, roster,
    subscription_line,
};
use crate::tests::TEST_RULES;
use crate::token;
use crate::{
    Change, Feedback, Guild, PermissionSet, SessionId, Snowflake, Subscription, Time, TokenKind, User, picture,
};

/// The end of the year 9999.
const LATEST: u64 = 253_402_300_799;
/// A sentence for a bot names a field and quotes a little of it.
const LONGEST_SENTENCE: usize = 400;

/// What is sent back to a bot must not carry what it sent: no line breaks, no endless text.
fn check_sentence(sentence: &str) {
    assert!(sentence.len() <= LONGEST_SENTENCE, "{} bytes: {sentence}", sentence.len());
    assert!(!sentence.chars().any(char::is_control), "{sentence:?}");
}

fn check_reason<T>(read: Result<T, Reason>) -> Option<T> {
    read.inspect_err(|reason| check_sentence(&reason.to_string())).ok()
}

fn check_ignored(ignored: &[String]) {
    for sentence in ignored {
        check_sentence(sentence);
    }
}

fn check_text(text: &str, most: usize) {
    assert!((1..=most).contains(&text.chars().count()), "{text:?}");
    assert!(!text.contains('\0'), "PostgreSQL cannot store {text:?}");
}

fn check_guild(guild: &Guild) {
    check_text(&guild.name, 100);
    assert!(i64::try_from(guild.members).is_ok());
    let is_picture = |icon: &str| icon.starts_with("https://") && icon.is_ascii() || picture::is_hash(icon);
    assert!(guild.icon.as_deref().is_none_or(is_picture), "{:?}", guild.icon);
    for (_, granted) in guild.grants.iter().flatten() {
        assert_eq!(granted.intersection(PermissionSet::GRANTABLE), *granted);
    }
    assert!(guild.staff.iter().flatten().all(|(_, roles)| roles.len() <= 250));
}

fn check_subscription(subscription: &Subscription) {
    assert!(subscription.guilds.len() <= 10_000 && subscription.slots <= 1_000_000);
    assert!(subscription.active_until.is_none_or(|end| end.seconds() <= LATEST));
}

fn check_user(user: &User) {
    check_text(&user.username, 100);
    check_text(&user.name, 100);
}

fn check_feedback(feedback: &Feedback) {
    check_text(&feedback.id, 64);
    check_text(&feedback.entry.feedback, 4_000);
    assert!((1..=5).contains(&feedback.entry.rating) && feedback.entry.timestamp <= LATEST);
    check_user(&feedback.entry.submitter);
}

#[test]
fn fuzz_ids() {
    const SAMPLES: &[&[u8]] = &[b"1", b"80351110224678912", b"9223372036854775807", b"0123456789abcdef", b"bot-1_a"];
    check!().with_iterations(ITERATIONS).with_generator(near(SAMPLES)).for_each(|input| {
        let Ok(text) = std::str::from_utf8(input) else { return };
        if let Ok(id) = text.parse::<Snowflake>() {
            assert_eq!(id.to_string(), text, "two texts for one id");
            assert!(i64::try_from(id.get()).is_ok_and(|id| id > 0));
        }
        let in_json = serde_json::from_value::<Snowflake>(text.into()).ok();
        assert_eq!(in_json, text.parse().ok());
        assert!(SessionId::parse(text).is_none_or(|id| id.as_str() == text && text.is_ascii()));
        assert!(InstanceName::parse(text).is_none_or(|name| name.as_str() == text && text.len() <= 64));
    });
}

#[test]
fn fuzz_tokens() {
    const KEY: &[u8] = b"bck_Y004p6GQjzC6OnvIyCaSwSOetlS41FxG9G14";
    const SAMPLES: &[&[u8]] = &[KEY, b"bcs_Y004p6GQjzC6OnvIyCaSwSOetlS41FxG9G14"];
    check!().with_iterations(ITERATIONS).with_generator(near(SAMPLES)).for_each(|input| {
        let accepted = token::parse(TokenKind::BotKey, input);
        // One in four billion others would pass the checksum.
        assert_eq!(accepted.is_some(), input == KEY);
        assert_eq!(token::parse(TokenKind::Session, input), None, "the prefix is part of the checksum");
    });
}

#[test]
fn fuzz_guild_lines() {
    const SAMPLES: &[&[u8]] = &[
        br#"{"id":"9007199254740993","name":"a \"b\"","icon":"a_0f","owner":"9","members":5,"setup":true,"linked":false,"grants":{"1":["MOD","ADMIN"],"2":["FOUNDER"]},"staff":{"3":["1","2"],"4":[]}}"#,
        br#"{"id":"7","name":"\u00e4","icon":"https://example.com/i.png","owner":"9"}"#,
        br#"{"id":"7","unavailable":true}"#,
        br#"{"end":3}"#,
    ];
    check!().with_iterations(ITERATIONS).with_generator(near(SAMPLES)).for_each(|input| {
        if let Some(SnapshotLine::One(line, ignored)) = check_reason(guild_line(input)) {
            check_ignored(&ignored);
            if let GuildLine::Guild(guild) = line {
                check_guild(&guild);
            }
        }
    });
}

#[test]
fn fuzz_subscription_lines() {
    const SAMPLES: &[&[u8]] = &[
        br#"{"userid":"7","slots":3,"guilds":["1","2"],"active_until":1800000000.5}"#,
        br#"{"userid":"7","guilds":[],"active_until":null}"#,
        br#"{"end":3}"#,
    ];
    check!().with_iterations(ITERATIONS).with_generator(near(SAMPLES)).for_each(|input| {
        if let Some(SnapshotLine::One(subscription, _)) = check_reason(subscription_line(input)) {
            check_subscription(&subscription);
        }
    });
}

#[test]
fn fuzz_event_lines() {
    const SAMPLES: &[&[u8]] = &[
        br#"{"type":"guild","id":"7","name":"a","icon":null,"owner":"9","grants":{"1":["MOD"]},"staff":{"3":["1"]}}"#,
        br#"{"type":"member","guild":"7","user":"9","roles":["1","2"]}"#,
        br#"{"type":"member_gone","guild":"7","user":"9"}"#,
        br#"{"type":"subscription","userid":"7","slots":1,"guilds":["1"],"active_until":null}"#,
        br#"{"type":"feedback","id":"f1","feedback":"good","rating":5,"timestamp":1700000000,"submitter":{"id":"7","username":"u","name":"U","avatar":"a_0f"}}"#,
        br##"{"type":"team","members":[{"discord_id":"7","username":"u","role":"Dev","color":"#5865F2","category":"dev","position":1,"permissions":["FOUNDER"]}]}"##,
        br#"{"type":"user","id":"7","username":"u","name":null,"avatar":"https://example.com/a.png"}"#,
        br#"{"type":"guild_gone","id":"7"}"#,
        br#"{"type":"feedback_gone","id":"f1"}"#,
        br#"{"type":"something_new","id":1}"#,
    ];
    check!().with_iterations(ITERATIONS).with_generator(near(SAMPLES)).for_each(|input| {
        let Some((event, ignored)) = check_reason(event_line(input, &TEST_RULES)) else { return };
        check_ignored(&ignored);
        match event {
            Event::Ignored(why) => check_sentence(&why),
            Event::Change(Change::Guild(guild)) => check_guild(&guild),
            Event::Change(Change::Subscription(subscription)) => check_subscription(&subscription),
            Event::Change(Change::Feedback(feedback)) => check_feedback(&feedback),
            Event::Change(Change::User(user)) => check_user(&user),
            Event::Change(Change::Member { roles, .. }) => assert!(roles.len() <= 250),
            Event::Change(Change::FeedbackGone(id)) => check_text(&id, 64),
            Event::Change(_) => {}
        }
    });
}

#[test]
fn fuzz_feedback_lines() {
    const SAMPLES: &[&[u8]] = &[
        br#"{"id":"f1","feedback":"good \u0000","rating":5,"timestamp":1700000000.25,"submitter":{"id":"7","username":"u"}}"#,
    ];
    check!().with_iterations(ITERATIONS).with_generator(near(SAMPLES)).for_each(|input| {
        if let Some(feedback) = check_reason(feedback_line(input, &TEST_RULES)) {
            check_feedback(&feedback);
        }
    });
}

#[test]
fn fuzz_rosters() {
    const SAMPLES: &[&[u8]] = &[
        br##"{"members":[{"discord_id":"7","username":"u","name":"U","avatar":null,"role":"Dev","color":"#5865F2","category":"dev","position":-1,"permissions":["FOUNDER","X"]},{"discord_id":"8","username":"v","role":"r","color":"#000000","category":"a","position":2}]}"##,
    ];
    check!().with_iterations(ITERATIONS).with_generator(near(SAMPLES)).for_each(|input| {
        match roster(input, &TEST_RULES) {
            Ok((roster, ignored)) => {
                check_ignored(&ignored);
                for entry in roster.0 {
                    check_text(&entry.member.name, 100);
                    check_text(&entry.member.category, 64);
                    assert_eq!(entry.member.color.len(), 7, "it goes into a style sheet");
                    assert_eq!(entry.permissions.intersection(PermissionSet::TEAM), entry.permissions);
                }
            }
            Err(reasons) => reasons.iter().for_each(|reason| check_sentence(&reason.to_string())),
        }
    });
}

#[test]
fn fuzz_heartbeats() {
    const SAMPLES: &[&[u8]] = &[
        br#"{"instance":"bot-1","started_at":1700000000,"memory":1048576,"shard_count":2,"shards":[{"id":0,"sent_ms_ago":5,"acknowledged_ms_ago":4.5,"latency":-1},{"id":1,"latency":null}]}"#,
        br#"{"instance":"a","started_at":0,"shard_count":1,"shards":[],"more":{"a":[1]}}"#,
    ];
    let now = Time::from_seconds(1_800_000_000);
    check!().with_iterations(ITERATIONS).with_generator(near(SAMPLES)).for_each(|input| {
        let Some(read) = check_reason(heartbeat("key", input, now)) else { return };
        assert!((1..=100_000).contains(&read.shard_count) && read.memory <= 1 << 50);
        assert!(read.started_at.seconds() <= LATEST);
        for shard in read.shards {
            assert!(shard.id < read.shard_count);
            assert!([shard.sent, shard.acknowledged].into_iter().flatten().all(|time| time <= now));
            assert!(shard.latency.is_none_or(|latency| latency >= 0.0));
        }
    });
}
