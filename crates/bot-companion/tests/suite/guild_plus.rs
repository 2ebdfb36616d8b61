//! Premium in the guild list: which subscription shows, until when, and who it makes a member.

use std::time::Duration;

use domain::Change;
use provider::idp::Endpoint;
use sandbox::people::MEMBER;
use serde_json::json;

use crate::guilds::{member_in, others};
use crate::harness::{START, listed, subscription, true_keys};

#[tokio::test]
async fn the_plus_object_shows_the_best_subscription_or_an_empty_record() {
    let (soon, late) = (Some(START.after(Duration::from_secs(10))), Some(START.after(Duration::from_secs(20))));
    let past = Some(START.before(Duration::from_secs(1)));
    let changes = (1..=7).map(|number| Change::Guild(others(number, &format!("g{number}")))).chain(
        [
            subscription(101, &[2, 9], soon),
            subscription(102, &[3], past),
            subscription(103, &[4], past),
            subscription(104, &[4, 5], soon),
            subscription(105, &[5], late),
            subscription(107, &[6], late),
            subscription(106, &[6], late),
            subscription(108, &[7], late),
            subscription(109, &[7], None),
        ]
        .map(Change::Subscription),
    );
    let (_app, member) = member_in((1..=7).map(|number| listed(number, 0)), changes).await;
    let record = |userid: &str, guilds: &[&str], active: bool| {
        let slots = if userid.is_empty() { 0 } else { 3 };
        json!({"plus": {"userid": userid, "guilds": guilds, "slots": slots}, "active": active})
    };
    let expected = [
        record("", &[], false),
        record("101", &["2", "9"], true),
        record("102", &["3"], false),
        record("104", &["4", "5"], true),
        record("105", &["5"], true),
        record("106", &["6"], true),
        record("109", &["7"], true),
    ];
    for (entry, expected) in member.guilds().await.iter().zip(expected) {
        assert_eq!(entry["plus"], expected, "{}", entry["name"]);
        assert_eq!(entry["permissions"]["SERVICE_PLUS_GUILD"], expected["active"], "{}", entry["name"]);
    }
}

#[tokio::test]
async fn a_subscription_that_ends_shows_as_ended_in_the_very_next_answer() {
    let end = START.after(Duration::from_secs(10));
    let changes = [Change::Guild(others(1, "plus")), Change::Subscription(subscription(MEMBER, &[1], Some(end)))];
    let (app, member) = member_in([listed(1, 0)], changes).await;
    for _ in 0..2 {
        let guilds = member.guilds().await;
        assert_eq!(guilds[0]["plus"]["active"], true);
        assert_eq!(true_keys(&guilds[0]), ["SERVICE_PLUS_GUILD", "SERVICE_PLUS_MEMBER"]);
    }
    app.clock.advance(Duration::from_millis(9_999));
    assert_eq!(member.guilds().await[0]["plus"]["active"], true);
    app.clock.advance(Duration::from_millis(1));
    let guilds = member.guilds().await;
    assert_eq!(
        guilds[0]["plus"],
        json!({"plus": {"userid": MEMBER.to_string(), "guilds": ["1"], "slots": 3}, "active": false})
    );
    assert_eq!(true_keys(&guilds[0]), Vec::<&str>::new());
    assert_eq!(app.sandbox.calls(Endpoint::Guilds), 1, "the list was fresh all the time");
}
