//! The status page and the incident feed, as seen by a visitor's browser and a feed reader.

use std::sync::Arc;
use std::time::Duration;

use domain::health::{Heartbeat, ShardHeartbeat};
use domain::history::announcement::Notice;
use http::Method;
use serde_json::json;

use crate::harness::{Client, Disk, START, TestApp, Wire, eventually, instance, request};

const HOSTILE: &str = "<img src=x onerror=alert(1)> \u{202e}&quot; ]]> 🎩";

pub(crate) async fn status(app: &TestApp) -> String {
    page(&app.anon(), "/site/status").await
}

pub(crate) async fn page(client: &Client, path: &str) -> String {
    let answer = client.get(path).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "text/html; charset=utf-8"), "{}", answer.text());
    answer.text()
}

/// What is between the first of these two texts and the next of the second.
pub(crate) fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let rest = text.split_once(from).unwrap_or_else(|| panic!("no {from} in {text}")).1;
    rest.split_once(to).unwrap_or_else(|| panic!("no {to} after {from} in {text}")).0
}

/// The page with its times as a visitor without JavaScript reads them.
pub(crate) fn read_times(page: &str) -> String {
    let mut parts = page.split("<time ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text += &part
            .split_once('>')
            .unwrap_or_else(|| panic!("a <time> does not end: {part}"))
            .1
            .replacen("</time>", "", 1);
    }
    text
}

/// The section that is named by this id.
pub(crate) fn section<'a>(page: &'a str, id: &str) -> &'a str {
    between(page, &format!("aria-labelledby=\"{id}\">"), "</section>")
}

/// Lets time pass while the recorder watches.
pub(crate) async fn watched(app: &TestApp, seconds: u64) {
    for _ in 0..seconds / 30 {
        app.clock.advance(Duration::from_secs(30));
        app.app.recorder.record().await;
    }
}

pub(crate) async fn announce(app: &TestApp, title: &str, text: &str) -> u64 {
    app.app.sources.store.announce(Notice::new(title, text).unwrap(), app.clock.now()).await.unwrap()
}

#[tokio::test]
async fn a_bot_is_unknown_then_up_then_down_and_the_incident_ends_when_it_is_back() {
    let app = TestApp::start().await;
    let empty = status(&app).await;
    for said in [
        "The bot hasn't reported yet",
        "shape unknown",
        "will appear here once it reports",
        "No incidents recorded in the",
    ] {
        assert!(empty.contains(said), "{said}: {empty}");
    }
    let bot = app.bot("lantern").await;
    assert_eq!(bot.beats(START.seconds() - 7_200, 2).await.status, 200);
    app.app.recorder.record().await;
    let up = status(&app).await;
    for said in [
        "<h2>The bot is up</h2>",
        "Both shards are online. Up for 2 hours.",
        "<dd>2 of 2</dd>",
        "<dd>40 ms</dd>",
        "<dd>1.0 MB</dd>",
        "<li><b>0</b> up<i>40 ms · 0 s</i></li>",
        "2 of 2 shards are up.",
        "<dt>shards up</dt>",
        "As of <time datetime=\"2027-01-15T08:00:00Z\" data-format=\"seconds\">08:00:00 UTC</time>",
    ] {
        assert!(up.contains(said), "{said}: {up}");
    }
    assert!(!up.contains("class=\"down\""));

    watched(&app, 120).await;
    let down = read_times(&status(&app).await);
    for said in [
        "<h2>The bot is down</h2>",
        "No reports since 15 Jan, 08:00 UTC (2 minutes ago).",
        "<strong>Shards 0–1</strong>: down, last report 2 minutes ago",
        "<li class=\"down\"><b>1</b> down<i>2 min</i></li>",
        "All shards were down <span class=\"chip down\">Ongoing</span>",
        "Since 15 Jan, 08:00 UTC (2 minutes so far)",
    ] {
        assert!(down.contains(said), "{said}: {down}");
    }

    assert_eq!(bot.beats(START.seconds() - 7_200, 2).await.status, 200);
    app.app.recorder.record().await;
    app.clock.advance(Duration::from_mins(1));
    let back = status(&app).await;
    assert!(back.contains("are online. Up for 1 minute.") && !back.contains("Ongoing"), "{back}");
    // The script shows the day of the end, too, where it is another one in the visitor's zone.
    let end = "<time datetime=\"2027-01-15T08:02:00Z\" data-format=\"end\" data-began=\"2027-01-15T08:00:00Z\">08:02 UTC</time>";
    assert!(back.contains(end), "{back}");
    assert!(read_times(&back).contains("15 Jan, 08:00 to 08:02 UTC (2 minutes)"), "{back}");
}

#[tokio::test]
async fn some_silent_shards_are_named_and_the_others_are_up() {
    let app = TestApp::start().await;
    let heartbeat = async |name: &str, shards: std::ops::Range<u32>| {
        let shards =
            shards.map(|id| ShardHeartbeat { id, sent: None, acknowledged: None, latency: Some(30.0) }).collect();
        let heartbeat = Heartbeat {
            instance: instance(name),
            started_at: START,
            memory: 1,
            shard_count: 9,
            shards,
            leaving: false,
        };
        app.app.sources.store.record_heartbeat(heartbeat, app.clock.now()).await.unwrap();
    };
    heartbeat("a", 0..5).await;
    heartbeat("b", 5..9).await;
    app.clock.advance(Duration::from_secs(100));
    heartbeat("a", 0..5).await;
    let shown = read_times(&status(&app).await);
    for said in [
        "<h2>The bot is up for some servers</h2>",
        "4 of 9 shards have been offline since 15 Jan, 08:00 UTC (1 minute ago). Servers on the other shards aren't affected.",
        "<strong>Shards 5–8</strong>: down, last report 1 minute ago",
        "<dd>5 of 9</dd>",
    ] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
    // A service that has just started has not listened for long enough to call anything silent.
    let started = app.restarted(&[]).await;
    let shown = status(&started).await;
    assert!(shown.contains("This service has just started") && !shown.contains("class=\"down\""), "{shown}");
}

#[tokio::test]
async fn five_thousand_shards_are_all_there_and_the_page_is_small() {
    const SHARDS: u32 = 5_000;
    let app = TestApp::start().await;
    let mut random = 1_u64;
    for process in 0..50_u32 {
        // A xorshift generator, because latencies that repeat would compress too well.
        let mut latency = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            30.0 + f64::from(u32::try_from(random % 150).unwrap())
        };
        let own = (process * 100..(process + 1) * 100).filter(|id| id % 997 != 1);
        let shards =
            own.map(|id| ShardHeartbeat { id, sent: None, acknowledged: None, latency: Some(latency()) }).collect();
        let started_at = START.before(Duration::from_hours(1));
        let heartbeat = Heartbeat {
            instance: instance(&format!("p{process}")),
            started_at,
            memory: 1,
            shard_count: SHARDS,
            shards,
            leaving: false,
        };
        app.app
            .sources
            .store
            .record_heartbeat(heartbeat, START.before(Duration::from_secs(u64::from(process % 30))))
            .await
            .unwrap();
    }
    app.clock.advance(Duration::from_secs(55));
    let small = async |path: &str| {
        let answer = app.anon().call(Method::GET, path).header("Accept-Encoding", "gzip").send().await;
        assert_eq!(answer.status, 200, "{path}");
        answer
    };
    let answer = small("/site/status").await;
    let text = answer.decompressed();
    let mut bytes = answer.body.len();
    for asset in text.split("\"/site/assets/").skip(1).filter(|rest| !rest.starts_with("icon")) {
        let (file, _) = asset.split_once('"').unwrap();
        bytes += small(&format!("/site/assets/{file}")).await.body.len();
    }
    assert!(bytes < 60_000, "{bytes} bytes with the style sheet and the scripts");
    for id in 0..SHARDS {
        assert!(text.contains(&format!("<b>{id}</b> ")), "no tile of shard {id}");
    }
    assert_eq!(text.matches("<details class=\"card group\"").count(), 50);
    assert!(text.contains("4994 of 5000 shards are up.") && text.contains("99 of 100 up · "), "{}", &text[..9_000]);
    let troubled = between(&text, "<div class=\"card troubled unknown\">", "</ul>");
    let named = ["Shard 1", "Shard 998", "Shard 1995", "Shard 2992", "Shard 3989", "Shard 4986"];
    assert_eq!(troubled.matches("<li>").count(), named.len(), "{troubled}");
    for shard in named {
        assert!(troubled.contains(&format!("<strong>{shard}</strong>: unknown, no report yet")), "{troubled}");
    }
}

#[tokio::test]
async fn a_lookup_says_the_same_of_a_server_that_is_known_and_of_one_that_is_not() {
    let app = TestApp::start().await;
    let ask = async |server: &str| {
        let page = page(&app.anon(), &format!("/site/status?server={server}")).await;
        between(&page, "class=\"lookup-answer\"", "</section>").to_owned()
    };
    let id = |number: u64| (number << 22).to_string();
    assert!(ask(&id(5)).await.contains("We don't know how many shards there are yet"));
    let bot = app.bot("lantern").await;
    assert_eq!(bot.beats(START.seconds(), 4).await.status, 200);
    let known = json!({"id": id(5), "name": "Harbour", "icon": null, "owner": "7", "members": 3});
    assert_eq!(bot.guilds((4, 1), 1, &[known]).await.status, 200);
    let (known, unknown) = (ask(&id(5)).await, ask(&id(9)).await);
    assert!(known.contains(&format!("Server {} is on shard 1.", id(5))), "{known}");
    assert!(known.contains("This shard is up.") && known.contains("shape up"));
    assert_eq!(known, unknown.replace(&id(9), &id(5)));
    assert!(ask(&id(6)).await.contains("on shard 2"));

    let long = "9".repeat(5_000);
    for bad in ["", "0", "my+server", "%3Cscript%3Ealert(1)%3C/script%3E", "12x", "%ff%fe", "-1", "%00", long.as_str()]
    {
        let answer = ask(bad).await;
        assert!(
            answer.contains("That isn't a valid server ID") && answer.contains("Copy Server ID"),
            "{bad}: {answer}"
        );
        assert!(!answer.contains("<script"), "{answer}");
    }
    assert!(!status(&app).await.contains("lookup-answer"), "a page that somebody asked for is not another's");
    assert!(!page(&app.anon(), "/site/status?utm_source=x").await.contains("lookup-answer"));
    app.clock.advance(Duration::from_secs(100));
    assert!(ask(&id(5)).await.contains("This shard is down."));
}

/// How many pages are rendered while the facts stay the same: the service also reads them into its caches by itself, and then
/// the work is repeated. The work returns how many there were when its own first page was there.
async fn pages_made_again(app: &TestApp, work: impl AsyncFn() -> u64) -> u64 {
    let facts = async || (app.app.views.site.get().await.unwrap(), app.app.views.history.get().await.unwrap());
    for _ in 0..100 {
        let before = facts().await;
        let first = work().await;
        let made = app.app.site.rendered.renderings() - first;
        let after = facts().await;
        if Arc::ptr_eq(&before.0, &after.0) && Arc::ptr_eq(&before.1, &after.1) {
            return made;
        }
    }
    panic!("the facts change all the time");
}

#[tokio::test]
async fn a_lookup_is_a_small_page_however_many_shards_there_are() {
    let app = TestApp::start().await;
    assert_eq!(app.bot("lantern").await.beats(START.seconds(), 6_000).await.status, 200);
    assert!(status(&app).await.len() > 200_000);
    let path = format!("/site/status?server={}", 5_999_u64 << 22);
    let page = page(&app.anon(), &path).await;
    assert!(page.len() < 10_000, "{} bytes", page.len());
    assert!(page.contains(&format!(" value=\"{}\"", 5_999_u64 << 22)) && page.contains("is on shard 5999."), "{page}");
    assert!(page.contains("<a href=\"/site/status\">Details and history</a>"), "{page}");
    let ask = || app.anon().call(Method::GET, &path).header("Accept-Encoding", "gzip");
    let zipped = ask().send().await;
    assert_eq!((zipped.header("content-encoding"), zipped.decompressed()), ("gzip", page));
    assert_eq!(ask().header("If-None-Match", zipped.header("etag")).send().await.status, 304);
}

#[tokio::test]
async fn bodies_that_are_held_back_make_no_page_again() {
    let app = TestApp::start().await;
    for path in ["/site/", "/site/status", "/site/dashboard"] {
        let made = pages_made_again(&app, async || {
            let mut held = Vec::new();
            for _ in 0..3 {
                let mut wire = Wire::open(app.address).await;
                wire.send(request("GET", path, "Expect: 100-continue\r\nContent-Length: 1\r\n")).await;
                assert_eq!(wire.answer().await.unwrap().status, 100, "its headers have arrived");
                held.push(wire);
                app.clock.advance(Duration::from_secs(1));
            }
            assert_eq!(app.anon().get(path).await.status, 200);
            let rendered = app.app.site.rendered.renderings();
            for mut wire in held {
                wire.send("x").await;
                assert_eq!(wire.answer().await.unwrap().status, 200);
                assert_eq!(app.anon().get(path).await.status, 200);
            }
            rendered
        });
        assert_eq!(made.await, 0, "{path}");
    }
}

#[tokio::test]
async fn what_says_no_time_is_made_once_for_its_facts() {
    let app = TestApp::start().await;
    for path in ["/site/incidents.atom", "/site/roles.css"] {
        let made = pages_made_again(&app, async || {
            let first = app.anon().get(path).await;
            let rendered = app.app.site.rendered.renderings();
            for _ in 0..5 {
                let zipped = app.anon().call(Method::GET, path).header("Accept-Encoding", "gzip").send().await;
                assert_eq!((zipped.status, app.anon().get(path).await.text()), (200, first.text()), "{path}");
            }
            rendered
        });
        assert_eq!(made.await, 0, "{path}");
    }
    announce(&app, "News", "Something happened.").await;
    assert!(app.anon().get("/site/incidents.atom").await.text().contains("Something happened."));
}

#[tokio::test]
async fn announcements_follow_the_state_and_are_text_and_nothing_else() {
    let app = TestApp::start().await;
    let id = announce(&app, HOSTILE, "One line\n<script>alert(2)</script>").await;
    let shown = status(&app).await;
    let (before, after) = shown.split_once("&lt;img src=x onerror=alert(1)&gt; \u{202e}&amp;quot; ]]&gt; 🎩").unwrap();
    assert!(before.contains("The bot hasn't reported") && !before.contains("id=\"shards\""), "{before}");
    assert!(after.contains("id=\"incidents\""), "{after}");
    assert!(shown.contains("One line\n&lt;script&gt;alert(2)&lt;/script&gt;") && !shown.contains("<script>"));
    assert!(read_times(&shown).contains("Posted 15 Jan 2027, 08:00 UTC"));
    assert!(app.app.sources.store.end_announcement(id, app.clock.now()).await.unwrap());
    let over = status(&app).await;
    assert!(!over.contains("class=\"announcements\""));
    assert!(section(&over, "incidents").contains("🎩</bdi> <span class=\"chip\">Ended</span>"), "{over}");
}

#[tokio::test]
async fn the_charts_show_what_is_known_and_nothing_unknown_as_down() {
    let app = TestApp::start().await;
    let empty = status(&app).await;
    assert_eq!(empty.matches("No data yet.").count(), 2);
    let (minute, day) = (60_000, 86_400_000);
    let now = START.millis();
    // From 120 minutes ago: an hour that was good except for a minute, then an hour without data.
    let minutes = (61..=120).map(|ago| {
        let state = if ago == 90 { "'down', NULL" } else { "'up', 40.4" };
        format!("({}, {state})", now - ago * minute)
    });
    let days = (1..=60).map(|ago| {
        let counts = if ago == 60 { "1430, 0, 10" } else { "1440, 0, 0" };
        format!("({}, {counts})", now / day * day - ago * day)
    });
    let statements = format!(
        "DELETE FROM history_minutes; DELETE FROM history_days;
         INSERT INTO history_minutes (begins, state, latency) VALUES {};
         INSERT INTO history_days (begins, up, partial, down) VALUES {}",
        minutes.collect::<Vec<_>>().join(", "),
        days.collect::<Vec<_>>().join(", ")
    );
    let app = app.restarted_after(&statements, &["[site]\nname = \"Lantern\""]).await;
    let shown = status(&app).await;
    let latency = section(&shown, "latency");
    assert!(latency.contains("40 ms on average, with 15-minute averages from 40 ms to 40 ms."), "{latency}");
    // Quarters 87 to 90 of 96: the last begins at 08:00, which is now.
    assert_eq!(between(latency, "class=\"known\" d=\"", "\""), "M87 100v-100h4v100z");
    assert_eq!(between(latency, "class=\"down\" d=\"", "\""), "M89 100v-14h1v14z");
    assert_eq!(latency.matches("<tr>").count(), 25);
    let availability = section(&shown, "availability");
    assert!(availability.contains("99.98% uptime over the recorded period (60 days)."), "{availability}");
    assert!(availability.contains("(60 days). Recorded since 16 Nov."), "{availability}");
    // The 60 days, today, and the time before them in the first row.
    assert_eq!(availability.matches("class=\"hit\"").count(), 62);
    assert_eq!(availability.matches("<tr>").count(), 62);
    assert!(availability.contains("<title id=\"days-0\">16 Nov: 99.30% uptime</title>"), "{availability}");
    assert!(availability.contains("17 Nov to 16 Dec: 100% uptime</title>"), "{availability}");
    // There's no data for today; one day was partly down.
    assert_eq!(availability.matches(": no data</title>").count(), 1);
    assert_eq!(availability.matches("<title>Before recording started</title>").count(), 1);
    let down: Vec<&str> = availability.split("class=\"down\" d=\"").skip(1).collect();
    assert_eq!(down.iter().filter(|path| !path.starts_with('"')).count(), 1, "{availability}");
}

#[tokio::test]
async fn the_feed_of_incidents_is_atom_with_links_that_lead_somewhere_or_none() {
    let app = TestApp::start().await;
    let read = async |app: &TestApp| app.anon().get("/site/incidents.atom").await;
    let empty = read(&app).await;
    assert_eq!(empty.header("content-type"), "application/atom+xml; charset=utf-8");
    assert_eq!(empty.header("cache-control"), "public, max-age=60");
    assert_eq!(empty.header("access-control-allow-origin"), "*");
    well_formed(&empty.text());
    assert!(!empty.text().contains("<link") && empty.text().contains("<id>tag:"), "{}", empty.text());

    let bot = app.bot("lantern").await;
    assert_eq!(bot.beats(START.seconds(), 1).await.status, 200);
    app.app.recorder.record().await;
    watched(&app, 120).await;
    announce(&app, HOSTILE, "").await;
    let feed = read(&app).await.text();
    well_formed(&feed);
    let entries: Vec<&str> = feed.split("<entry>").skip(1).collect();
    assert_eq!(entries.len(), 2, "{feed}");
    assert!(entries[0].contains("onerror") && entries[0].contains("<updated>2027-01-15T08:02:00Z</updated>"), "{feed}");
    assert!(entries[1].contains("<title>The only shard was down (Ongoing)</title>"), "{feed}");
    assert!(entries[1].contains("<published>2027-01-15T08:00:00Z</published>"), "{feed}");
    assert!(entries.iter().all(|entry| entry.contains("<content type=\"text\">") && entry.contains("<id>tag:")));

    let known = read(&app).await;
    let tag = known.header("etag").to_owned();
    let again = app.anon().call(Method::GET, "/site/incidents.atom").header("If-None-Match", tag).send().await;
    assert_eq!((again.status, again.body.len()), (304, 0));

    for number in 0..60 {
        announce(&app, &format!("number {number}"), "").await;
    }
    let app = app.restarted(&["[site]\nurl = \"https://bot.example\"\nname = \"L & <b>\""]).await;
    let german =
        app.anon().call(Method::GET, "/site/incidents.atom").header("Accept-Language", "de").send().await.text();
    well_formed(&german);
    assert_eq!(german.matches("<entry>").count(), 50);
    assert!(german.contains("xml:lang=\"de\"") && german.contains("<title>L &amp; &lt;b&gt;: Störungen</title>"));
    assert!(german.contains(
        "<link rel=\"self\" type=\"application/atom+xml\" href=\"https://bot.example/site/incidents.atom\">"
    ));
    assert!(german.contains("<id>https://bot.example/site/status#announcement-"), "{german}");
}

/// Panics unless every tag is closed in order and every `&` starts a valid XML entity.
pub(crate) fn well_formed(xml: &str) {
    let body = xml.strip_prefix("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n").expect(xml);
    let mut open = Vec::new();
    for part in body.split('<').skip(1) {
        let (tag, text) = part.split_once('>').expect(part);
        let name = tag.split_whitespace().next().unwrap();
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{xml}"),
            None => open.push(name),
        }
        assert!(!text.contains('>') && text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{part}");
    }
    assert_eq!(open, Vec::<&str>::new(), "{xml}");
    for entity in body.split('&').skip(1) {
        assert!(["amp;", "lt;", "gt;", "quot;"].iter().any(|known| entity.starts_with(known)), "{entity}");
    }
}

#[tokio::test]
async fn the_page_speaks_german_and_paths_below_it_lead_nowhere() {
    let app = TestApp::start().await;
    let german = app.anon().call(Method::GET, "/site/status?server=x").header("Accept-Language", "de").send().await;
    for said in [
        "<html lang=\"de\"",
        "Der Bot hat sich noch nicht gemeldet",
        "Das ist keine gültige Server-ID",
        "Stand: 08:00:00 UTC",
    ] {
        assert!(read_times(&german.text()).contains(said), "{said}");
    }
    let nowhere = app.anon().get("/site/status/nowhere").await;
    assert_eq!((nowhere.status, nowhere.header("content-type")), (404, "text/html; charset=utf-8"));
    assert!(nowhere.text().contains("This page doesn't exist"));
}

#[tokio::test]
async fn without_the_store_the_page_is_served_stale_then_an_error_that_says_what_to_do() {
    let app = TestApp::start().await;
    let disk = Disk::under(&app).await;
    let bot = app.bot("lantern").await;
    assert_eq!(bot.beats(START.seconds(), 2).await.status, 200);
    eventually("the page is cached", async || status(&app).await.contains("The bot is up")).await;
    let lost = disk.fails().await;
    assert!(status(&app).await.contains("The bot is up"));
    app.clock.advance(Duration::from_millis(60_001));
    let gone = app.anon().get("/site/status").await;
    assert_eq!((gone.status, gone.header("content-type")), (503, "text/html; charset=utf-8"));
    let text = gone.text();
    assert!(text.contains("We can't load this page right now.") && text.contains("Try again in 2 seconds."), "{text}");
    disk.recovers(lost).await;
    assert!(status(&app).await.contains("The bot is up"));
}
