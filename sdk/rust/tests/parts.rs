//! Cases that the scenarios don't cover: lists with several pages, limits on staff, the spool, panics in callbacks.

#![expect(clippy::unwrap_used, unreachable_pub, reason = "a test")]

#[path = "parts_harness/mod.rs"]
mod parts_harness;

use std::sync::Arc;
use std::time::Duration;

use bot_companion_feed::{BotEvent, Companion, Delivery, Feedback, Grants, Permission, Submitter, Subscription};
use parts_harness::{GUILD, Lines, Memory, Ranks, builder, ready};
use serde_json::{Value, json};

fn staff_of(line: &Value) -> usize {
    line["staff"].as_object().map_or(0, serde_json::Map::len)
}

async fn guild_line_with_staff(members: u64) -> (Value, Arc<Ranks>, Lines) {
    let (service, lines) = (Memory::new(), Lines::default());
    let ranks = Arc::new(Ranks::new(members));
    let companion = builder(&service, &lines)
        .grants(async |_| Ok(Grants::new().role(50, [Permission::Mod])))
        .start(ranks.clone())
        .unwrap();
    ready(&companion);
    let line = service.await_line(|line| line["type"] == "guild" && line.get("staff").is_some()).await;
    companion.close().await;
    (line, ranks, lines)
}

#[tokio::test(start_paused = true)]
async fn members_are_listed_page_by_page_within_the_budget() {
    let (line, ranks, _) = guild_line_with_staff(2_500).await;
    assert_eq!(staff_of(&line), 2_500);
    let asked = ranks.asked.lock().unwrap();
    assert_eq!(asked.iter().map(|(after, _)| *after).collect::<Vec<_>>(), [0, 1_000, 2_000]);
    let pauses: Vec<_> = asked.windows(2).map(|two| two[1].1.saturating_sub(two[0].1)).collect();
    assert!(pauses.iter().all(|pause| pause.as_millis() >= 100), "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn a_page_that_was_limited_is_asked_for_again() {
    let (service, lines, ranks) = (Memory::new(), Lines::default(), Arc::new(Ranks::new(2_500)));
    let seconds = Duration::from_secs;
    ranks.limits.lock().unwrap().extend([None, Some(seconds(100_000)), Some(seconds(10))]);
    let companion = builder(&service, &lines)
        .grants(async |_| Ok(Grants::new().role(50, [Permission::Mod])))
        .limits(|limits| limits.longest_retry_after = seconds(60))
        .start(ranks.clone())
        .unwrap();
    ready(&companion);
    let line = service.await_line(|line| line["type"] == "guild" && line.get("staff").is_some()).await;
    assert_eq!(staff_of(&line), 2_500);
    let asked = ranks.asked.lock().unwrap().clone();
    assert_eq!(asked.iter().map(|(after, _)| *after).collect::<Vec<_>>(), [0, 1_000, 1_000, 1_000, 2_000]);
    let pauses: Vec<_> = asked.windows(2).map(|two| two[1].1.saturating_sub(two[0].1)).collect();
    assert!((seconds(60)..seconds(100)).contains(&pauses[1]) && pauses[2] >= seconds(10), "{pauses:?}");
    let counters = companion.status().counters;
    assert_eq!((counters.listings, counters.listing_failures), (1, 0), "{lines:?}");
    companion.close().await;
}

/// A library that waits by itself after a 429 has not stalled.
#[tokio::test(start_paused = true)]
async fn a_page_may_wait_as_long_as_the_bot_is_limited() {
    let (service, lines, ranks) = (Memory::new(), Lines::default(), Arc::new(Ranks::new(1)));
    *ranks.delay.lock().unwrap() = Duration::from_secs(50);
    let companion = builder(&service, &lines)
        .grants(async |_| Ok(Grants::new().role(50, [Permission::Mod])))
        .start(ranks.clone())
        .unwrap();
    ready(&companion);
    service.await_path("/bot/shards/1/0/guilds", 1).await;
    companion.tell(&BotEvent::Limited { time: Duration::from_secs(45) });
    let line = service.await_line(|line| line["type"] == "guild" && line.get("staff").is_some()).await;
    assert_eq!(staff_of(&line), 1);
    assert_eq!(companion.status().counters.listing_failures, 0, "{lines:?}");
    companion.close().await;
}

#[tokio::test]
async fn a_rate_without_sense_is_refused() {
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let started = builder(&Memory::new(), &Lines::default())
            .limits(|limits| limits.listing_rate = rate)
            .start(Arc::new(Ranks::new(1)));
        let error = started.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("limits.listing_rate is ") && error.contains("above 0"), "{rate}: {error}");
    }
}

/// JSON has no such numbers: they would become `null`, which means premium forever.
#[tokio::test(start_paused = true)]
async fn a_subscription_with_a_time_that_is_none_is_not_sent() {
    let (service, lines) = (Memory::new(), Lines::default());
    let subscription = Subscription { user: 20, slots: 1, guilds: vec![GUILD], active_until: Some(f64::NAN) };
    let companion = builder(&service, &lines)
        .subscriptions(move || std::future::ready(Ok(vec![subscription.clone()])))
        .start(Arc::new(Ranks::new(1)))
        .unwrap();
    ready(&companion);
    lines.await_line("the callback subscriptions failed: active_until is not a finite number").await;
    companion.close().await;
    assert!(service.lines().iter().all(|line| line.get("userid").is_none()), "{:?}", service.lines());
}

#[tokio::test(start_paused = true)]
async fn more_staff_than_the_service_takes_is_left_out_and_said() {
    let (line, _, lines) = guild_line_with_staff(10_001).await;
    assert_eq!(staff_of(&line), 10_000);
    assert!(lines.contain("guild 4194304 has more than 10000 staff"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_callback_that_panics_has_failed() {
    let (service, lines) = (Memory::new(), Lines::default());
    let companion = builder(&service, &lines)
        .setup(async |guild| if guild.id == GUILD { panic!("a mistake of the bot's") } else { Ok(true) })
        .start(Arc::new(Ranks::new(1)))
        .unwrap();
    ready(&companion);
    service.await_line(|line| *line == json!({"id": GUILD.to_string(), "unavailable": true})).await;
    assert!(lines.contain("the callback setup failed: it panicked"), "{lines:?}");
    companion.close().await;
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_the_members_of_a_guild_are_listed_again() {
    let (service, ranks) = (Memory::new(), Arc::new(Ranks::new(1)));
    let companion = builder(&service, &Lines::default())
        .grants(async |_| Ok(Grants::new().role(50, [Permission::Mod])))
        .start(ranks.clone())
        .unwrap();
    ready(&companion);
    service.await_path("/bot/events", 1).await;
    assert_eq!(service.lines().last().unwrap()["staff"], json!({"1": ["50"]}));
    companion.tell(&BotEvent::GuildUnavailable { guild: GUILD });
    companion.tell(&BotEvent::GuildHere { guild: GUILD });
    service.await_path("/bot/events", 2).await;
    assert_eq!(service.lines().last().unwrap().get("staff"), None, "what was listed before the outage is old");
    service.await_path("/bot/events", 3).await;
    assert_eq!(service.lines().last().unwrap()["staff"], json!({"1": ["50"]}));
    assert_eq!(ranks.asked.lock().unwrap().len(), 2);
    companion.close().await;
}

#[tokio::test(start_paused = true)]
async fn nobody_has_a_deleted_role_that_the_cache_still_knows() {
    let (service, ranks) = (Memory::new(), Arc::new(Ranks::new(1)));
    *ranks.is_cached.lock().unwrap() = true;
    let companion = builder(&service, &Lines::default())
        .grants(async |_| Ok(Grants::new().role(50, [Permission::Mod])))
        .start(ranks)
        .unwrap();
    ready(&companion);
    service.await_line(|line| line["staff"] == json!({"1": ["50"]})).await;
    companion.tell(&BotEvent::RoleGone { guild: GUILD, role: 50 });
    service.await_path("/bot/events", 1).await;
    assert_eq!(service.lines().last().unwrap()["staff"], json!({}));
    companion.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_member_who_left_is_not_forgotten_by_a_snapshot_that_failed() {
    let (service, lines, ranks) = (Memory::new(), Lines::default(), Arc::new(Ranks::new(1)));
    *ranks.is_cached.lock().unwrap() = true;
    let companion = builder(&service, &lines)
        .grants(async |_| Ok(Grants::new().role(50, [Permission::Mod])))
        .start(ranks.clone())
        .unwrap();
    ready(&companion);
    let path = "/bot/shards/1/0/guilds";
    service.await_path(path, 1).await;
    companion.tell(&BotEvent::MemberGone { guild: GUILD, user: 7 });
    service.set_away(true);
    // The snapshot that fails has the staff in it, the one after it has not.
    companion.all_changed();
    lines.await_line("the service cannot be reached").await;
    *ranks.is_cached.lock().unwrap() = false;
    companion.tell(&BotEvent::GuildUnavailable { guild: GUILD });
    service.set_away(false);
    service.await_path(path, 2).await;
    service.await_line(|line| line["type"] == "member_gone" && line["user"] == "7").await;
    companion.close().await;
}

fn feedback(id: &str) -> Feedback {
    Feedback {
        id: id.to_owned(),
        text: "Good.".to_owned(),
        rating: 5,
        timestamp: None,
        submitter: Submitter { id: "20".to_owned(), username: "finch".to_owned(), name: None, avatar: None },
    }
}

#[tokio::test(start_paused = true)]
async fn feedback_in_the_spool_outlives_the_process() {
    let path = std::env::temp_dir().join(format!("bot-companion-feed-parts-{}", std::process::id()));
    let start = |service: &Arc<Memory>, lines: &Lines| -> Companion {
        builder(service, lines).spool(&path).start(Arc::new(Ranks::new(1))).unwrap()
    };
    let (service, lines) = (Memory::new(), Lines::default());
    service.set_away(true);
    let companion = start(&service, &lines);
    let result = companion.feedback(&feedback("a"));
    // Another process must not use the same file meanwhile.
    let other = Lines::default();
    let second = start(&service, &other);
    assert!(other.contain("the spool") && other.contain("another process is using it"), "{other:?}");
    second.close().await;
    companion.close().await;
    assert_eq!(result.await, Delivery::NotDelivered("closed; it will be sent at the next start".to_owned()));
    assert_eq!(companion.status().counters.feedback_dropped, 0);

    service.set_away(false);
    let companion = start(&service, &lines);
    let delivery = companion.feedback(&feedback("b"));
    assert!(delivery.await.is_delivered());
    let ids: Vec<Value> = service.lines().iter().map(|line| line["id"].clone()).collect();
    assert_eq!(ids, ["a", "b"], "what was in the spool comes first");
    companion.close().await;
    assert_eq!(std::fs::read(&path).unwrap(), b"", "what was delivered is not in the spool");
    for suffix in ["", ".lock"] {
        std::fs::remove_file(format!("{}{suffix}", path.display())).unwrap();
    }
}
