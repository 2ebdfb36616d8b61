//! Incidents and announcements on the pages and in the feeds.

use std::time::Duration;

use domain::history::BotState;
use domain::history::announcement::{MaintenanceWindow, Notice};
use domain::history::update::{NewUpdate, UpdateOutcome, UpdatePhase, UpdateSubject};
use http::Method;
use serde_json::{Value, json};

use crate::harness::binary::{Running, command};
use crate::harness::{Folder, START, TestApp};
use crate::site_status::{announce, page, read_times, section, status, watched, well_formed};

#[tokio::test]
async fn home_and_status_say_the_same_uptime_after_an_outage() {
    let app = TestApp::start().await;
    let bot = app.bot("lantern").await;
    let beats = async || assert_eq!(bot.beats(START.seconds() - 7_200, 2).await.status, 200);
    beats().await;
    app.app.recorder.record().await;
    let home = async || page(&app.anon(), "/site/").await;
    assert!(home().await.contains("Up for 2 hours") && status(&app).await.contains("Up for 2 hours"));
    watched(&app, 240).await;
    beats().await;
    // The recorder hasn't noticed yet that the incident is over.
    app.clock.advance(Duration::from_secs(7));
    assert!(home().await.contains("Up for 7 seconds"), "{}", home().await);
    assert!(status(&app).await.contains("Up for 7 seconds"), "{}", status(&app).await);
    app.app.recorder.record().await;
    app.clock.advance(Duration::from_secs(50));
    let (home, status) = (home().await, status(&app).await);
    assert!(home.contains("Up for 57 seconds"), "{home}");
    assert!(status.contains("Up for 57 seconds") && status.contains("<dd>57 seconds</dd>"), "{status}");
}

#[tokio::test]
async fn an_outage_is_never_beside_a_hundred_percent() {
    // When the bot falls silent, in seconds after a minute began, and for how long.
    for (second, silent) in [(0, 90), (15, 90), (30, 90), (45, 90), (45, 120), (15, 180)] {
        let app = TestApp::start().await;
        let bot = app.bot("lantern").await;
        let passes = async |seconds: u64, is_reporting: bool| {
            for _ in 0..seconds / 15 {
                app.clock.advance(Duration::from_secs(15));
                if is_reporting {
                    assert_eq!(bot.beats(START.seconds(), 2).await.status, 200);
                }
                app.app.recorder.record().await;
            }
        };
        app.app.recorder.record().await;
        passes(240 + second, true).await;
        passes(silent, false).await;
        passes(240, true).await;
        let shown = status(&app).await;
        let case = format!("silent for {silent} seconds from second {second}");
        assert!(section(&shown, "incidents").contains("All shards were down"), "{case}: {shown}");
        assert!(!section(&shown, "availability").contains("100% uptime"), "{case}: {shown}");
        let history = app.app.views.history.get().await.unwrap();
        let incident = &history.incidents[0];
        let lasted = incident.ended.unwrap().since(incident.began).as_secs();
        let down = history.minutes.iter().filter(|minute| minute.state == BotState::Down).count() as u64;
        assert!((lasted / 60..=lasted.div_ceil(60)).contains(&down), "{case}: {down} minutes for {lasted} seconds");
        assert_eq!(u64::from(history.days[0].down), down, "{case}");
    }
}

#[tokio::test]
async fn what_is_announced_ahead_is_on_the_home_page_and_can_be_linked_to() {
    let app = TestApp::start().await;
    let id = announce(&app, "Maintenance tomorrow", "Details: https://bot.example/notes?a=1&b=2. Sorry!").await;
    let feed = app.anon().get("/site/incidents.atom").await.text();
    assert!(feed.contains("<title>Maintenance tomorrow"), "{feed}");
    assert!(!feed.contains("Ongoing"), "{feed}");
    let link = "<a href=\"https://bot.example/notes?a=1&amp;b=2\" rel=\"noopener noreferrer\">https://bot.example/notes?a=1&amp;b=2</a>.";
    let shown = status(&app).await;
    assert!(shown.contains(&format!("id=\"announcement-{id}\"")), "{shown}");
    assert!(shown.contains(link), "{shown}");
    let home = page(&app.anon(), "/site/").await;
    assert!(home.contains("Maintenance tomorrow"), "{home}");
    assert!(home.contains(&format!("href=\"/site/status#announcement-{id}\"")), "{home}");
    assert!(app.app.sources.store.end_announcement(id, app.clock.now()).await.unwrap());
    let over = status(&app).await;
    assert!(over.contains(&format!("id=\"announcement-{id}\"")) && over.contains(link), "{over}");
    assert!(!page(&app.anon(), "/site/").await.contains("Maintenance tomorrow"));
}

#[tokio::test]
async fn every_announcement_is_on_the_status_page_once_however_many_there_are() {
    let app = TestApp::start().await;
    let mut ids = Vec::new();
    for number in 0..7 {
        ids.push(announce(&app, &format!("Announcement {number}"), "Text").await);
    }
    let window = MaintenanceWindow {
        begins: START.after(Duration::from_hours(30)),
        ends: START.after(Duration::from_hours(31)),
    };
    let notice = Notice::new("Larger database", "").unwrap().during(window);
    ids.push(app.app.sources.store.announce(notice, app.clock.now()).await.unwrap());
    let home = page(&app.anon(), "/site/").await;
    for title in ["Announcement 6", "Announcement 5", "Larger database"] {
        assert!(home.contains(title), "{title}: {home}");
    }
    assert!(!home.contains("Announcement 4"), "{home}");
    let shown = status(&app).await;
    for id in ids {
        assert_eq!(shown.matches(&format!("id=\"announcement-{id}\"")).count(), 1, "{id}: {shown}");
    }
}

#[tokio::test]
async fn maintenance_is_scheduled_then_in_progress_then_over_by_itself() {
    let app = TestApp::start().await;
    let in_hours = |hours: u64| START.after(Duration::from_hours(hours));
    let notice = Notice::new("Larger database", "Commands may be slow.").unwrap();
    let window = MaintenanceWindow { begins: in_hours(30), ends: in_hours(31) };
    app.app.sources.store.announce(notice.during(window), app.clock.now()).await.unwrap();
    let feed = async || app.anon().get("/site/incidents.atom").await.text();
    let state = async || {
        let answer = app.anon().get("/site/incidents.json").await;
        assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
        assert_eq!(answer.header("access-control-allow-origin"), "*");
        answer.data()["announcements"][0].clone()
    };

    let planned = "Maintenance · 16 Jan, 14:00 to 15:00 UTC (1 hour)";
    // A feed is read years later, so it always has the year.
    for path in ["/site/", "/site/status"] {
        let shown = read_times(&page(&app.anon(), path).await);
        assert!(shown.contains("<span class=\"chip\">Scheduled</span>") && shown.contains(planned), "{path}: {shown}");
    }
    let german = app.anon().call(Method::GET, "/site/").header("Accept-Language", "de").send().await.text();
    assert!(german.contains("<span class=\"chip\">Geplant</span>") && german.contains("Wartung · "), "{german}");
    let scheduled = feed().await;
    well_formed(&scheduled);
    assert!(scheduled.contains("<title>Larger database (Scheduled)</title>"), "{scheduled}");
    assert!(
        scheduled.contains("Maintenance: 16 Jan 2027, 14:00 to 15:00 UTC (1 hour)\n\nCommands may be slow."),
        "{scheduled}"
    );
    assert!(!scheduled.contains("Ongoing"), "{scheduled}");
    let expected = json!({"begins": window.begins.seconds(), "ends": window.ends.seconds()});
    let told = state().await;
    assert_eq!((&told["state"], &told["maintenance"], &told["ended"]), (&json!("scheduled"), &expected, &Value::Null));

    app.clock.advance(Duration::from_hours(30));
    assert!(page(&app.anon(), "/site/").await.contains("<span class=\"chip partial\">In progress</span>"));
    let begun = feed().await;
    assert!(begun.contains("<title>Larger database (In progress)</title>"), "{begun}");
    assert!(begun.contains("<updated>2027-01-16T14:00:00Z</updated>"), "{begun}");
    assert!(begun.contains("<published>2027-01-15T08:00:00Z</published>"), "{begun}");
    assert_eq!(state().await["state"], "in_progress");

    app.clock.advance(Duration::from_hours(1));
    let over = read_times(&status(&app).await);
    assert!(
        !over.contains("class=\"announcements\"") && !page(&app.anon(), "/site/").await.contains("Larger database")
    );
    let incidents = section(&over, "incidents");
    assert!(incidents.contains("Larger database</bdi> <span class=\"chip\">Ended</span>"), "{incidents}");
    assert!(incidents.contains(planned), "{incidents}");
    assert!(feed().await.contains("<title>Larger database (Ended)</title>"));
    let told = state().await;
    assert_eq!((&told["state"], &told["ended"]), (&json!("over"), &json!(window.ends.seconds())));

    // Cancelled before it began.
    let next = MaintenanceWindow { begins: in_hours(50), ends: in_hours(51) };
    let id =
        app.app.sources.store.announce(Notice::new("Next", "").unwrap().during(next), app.clock.now()).await.unwrap();
    assert!(app.app.sources.store.end_announcement(id, app.clock.now()).await.unwrap());
    assert!(feed().await.contains("<title>Next (Cancelled)</title>"));
    assert!(status(&app).await.contains("Next</bdi> <span class=\"chip\">Cancelled</span>"));
}

#[tokio::test]
async fn updates_are_told_newest_first_on_the_page_and_in_the_feeds() {
    let app = TestApp::start().await;
    let bot = app.bot("lantern").await;
    assert_eq!(bot.beats(START.seconds(), 2).await.status, 200);
    app.app.recorder.record().await;
    watched(&app, 120).await;
    let id = announce(&app, "Slow commands", "").await;
    let post = async |subject, phase, text: &str| {
        app.clock.advance(Duration::from_mins(1));
        let update = NewUpdate::new(subject, phase, text).unwrap();
        assert_eq!(
            app.app.sources.store.update_happening(update, app.clock.now()).await.unwrap(),
            UpdateOutcome::Posted
        );
    };
    let incident = UpdateSubject::Incident(1);
    post(incident, UpdatePhase::Investigating, "Looking <b>into</b> it: https://bot.example/log").await;
    post(incident, UpdatePhase::Identified, "A full disk.").await;
    post(UpdateSubject::Announcement(id), UpdatePhase::Monitoring, "Faster again.").await;
    let shown = read_times(&status(&app).await);
    let incidents = section(&shown, "incidents");
    let (newest, older) = incidents.split_once("<strong>Investigating</strong>").unwrap();
    assert!(
        newest.contains("<strong>Identified</strong> <span class=\"quiet\">15 Jan, 08:04 UTC</span>"),
        "{incidents}"
    );
    assert!(older.contains("Looking &lt;b&gt;into&lt;/b&gt; it: <a href=\"https://bot.example/log\""), "{incidents}");
    let (state, rest) = shown.split_once("class=\"announcements\"").unwrap();
    assert!(state.contains("class=\"card state"), "the bot's state comes first: {shown}");
    let (announced, _) = rest.split_once("id=\"facts\"").unwrap();
    assert!(announced.contains("<strong>Monitoring</strong>") && announced.contains("Faster again."), "{announced}");
    let german = app.anon().call(Method::GET, "/site/status").header("Accept-Language", "de").send().await.text();
    assert!(german.contains("<strong>Ursache gefunden</strong>"), "{german}");

    let feed = app.anon().get("/site/incidents.atom").await.text();
    well_formed(&feed);
    let entry = feed.split("<entry>").find(|entry| entry.contains("All shards were down")).unwrap();
    let (first, second) =
        (entry.find("Identified (15 Jan 2027, 08:04 UTC)\nA full disk."), entry.find("Investigating (15"));
    assert!(first.is_some() && first < second, "{entry}");
    assert!(entry.contains("<updated>2027-01-15T08:04:00Z</updated>"), "{entry}");
    let told = app.anon().get("/site/incidents.json").await.data();
    let posted = START.after(Duration::from_mins(4)).seconds();
    let expected = json!({"status": "identified", "text": "A full disk.", "posted": posted});
    assert_eq!(told["incidents"][0]["updates"][1], expected, "{told}");
    assert_eq!((&told["incidents"][0]["worst"], &told["incidents"][0]["ended"]), (&json!("down"), &Value::Null));

    // A resolved announcement is over.
    post(UpdateSubject::Announcement(id), UpdatePhase::Resolved, "").await;
    let shown = status(&app).await;
    assert!(!shown.contains("class=\"announcements\""), "{shown}");
    assert!(section(&shown, "incidents").contains("<strong>Resolved</strong>"), "{shown}");
}

#[tokio::test]
async fn a_young_history_starts_at_its_first_day() {
    let app = TestApp::start().await;
    let bot = app.bot("lantern").await;
    assert_eq!(bot.beats(START.seconds(), 2).await.status, 200);
    app.app.recorder.record().await;
    watched(&app, 60).await;
    let shown = status(&app).await;
    let availability = section(&shown, "availability");
    assert!(availability.contains("(1 day). Recorded since 15 Jan."), "{availability}");
    assert_eq!((availability.matches("<figure>").count(), availability.matches("<tr>").count()), (1, 2));
    assert_eq!(availability.matches(": no data</title>").count(), 0, "{availability}");
    assert!(availability.contains("<title>Before recording started</title>"), "{availability}");
    let latency = section(&shown, "latency");
    // Nothing is hatched: the time before the first minute isn't a gap.
    assert!(latency.contains("class=\"known\" d=\"M0 100v-100h96v100z\""), "{latency}");
    assert_eq!(latency.matches("<tr>").count(), 2, "{latency}");
    let german = app.anon().call(Method::GET, "/site/status").header("Accept-Language", "de").send().await.text();
    assert!(
        german.contains("(1 Tag). Aufgezeichnet seit 15. Jan.") && german.contains("Vor Beginn der Aufzeichnung"),
        "{german}"
    );
}

#[tokio::test]
async fn the_first_run_shows_90_days_of_demonstration_data_until_a_bot_reports() {
    let folder = Folder::new();
    let data = folder.path().join("dev");
    let arguments = ["dev", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()];
    let mut service = Running::start(command(&arguments)).await;
    let demo = async |service: &Running| {
        let shown = page(&service.client(), "/site/status").await;
        let availability = section(&shown, "availability");
        assert!(availability.contains("(90 days)") && !availability.contains("Recorded since"), "{availability}");
        // Today may have just begun.
        assert!(availability.matches(": no data</title>").count() <= 1, "{availability}");
        assert!(availability.contains("99.94% uptime"), "{availability}");
        let incidents = section(&shown, "incidents");
        for said in ["All shards were down", "1 of 2 shards was down", "<strong>Identified</strong>", "Maintenance · "]
        {
            assert!(incidents.contains(said), "{said}: {incidents}");
        }
        assert!(shown.contains(">Demo data</bdi>") && shown.contains("are made up"), "{shown}");
        let home = page(&service.client(), "/site/").await;
        assert!(home.contains("Demo data") && home.contains(">Scheduled</span>"), "{home}");
    };
    demo(&service).await;
    // After a restart, it's there once, not twice.
    service.terminate();
    assert!(service.ended().await.success());
    let service = Running::start(command(&arguments)).await;
    demo(&service).await;

    let banner = std::fs::read_to_string(&service.output).unwrap();
    assert!(banner.contains("90 days of demo data until your bot reports"), "{banner}");
    let key = banner.lines().find_map(|line| line.trim().strip_prefix("bot key    ")).unwrap();
    let heartbeat =
        json!({"instance": "mine", "started_at": 1_700_000_000, "memory": 1, "shard_count": 1, "shards": [{"id": 0}]});
    let sent = service.client().call(Method::PUT, "/bot/heartbeat").header("Authorization", format!("Bearer {key}"));
    assert_eq!(sent.body(heartbeat.to_string()).send().await.status, 200);
    let shown = page(&service.client(), "/site/status").await;
    assert!(!shown.contains("Demo data") && !shown.contains("All shards were down"), "{shown}");
    assert!(section(&shown, "incidents").contains("No incidents recorded"), "{shown}");
}
