//! A clock that is set wrong: it signs nobody out, deletes or revokes nothing, and the operator is told.

use std::time::Duration;

use domain::Time;
use domain::trusted_time::STANDING;
use runtime::clock::Clock;

use crate::admin::Watcher;
use crate::harness::{Client, START, TestApp, on_postgres};

const TEN_DAYS: i64 = 10 * 86_400;
const SECOND: Duration = Duration::from_secs(1);

/// Makes the service check its clock and delete what has expired.
async fn looks_and_sweeps(app: &TestApp) -> usize {
    app.app.clock_watch.look();
    app.app.accounts.sweep().await.unwrap()
}

/// The date of an answer.
async fn date(client: &Client) -> Time {
    let answer = client.get("/").await;
    let date = httpdate::parse_http_date(answer.header("date")).unwrap();
    Time::from_seconds(date.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs())
}

async fn is_alive(user: &Client) -> bool {
    user.get("/sessions").await.status == 200 && user.get("/guilds").await.status == 200
}

#[tokio::test]
async fn a_clock_that_is_wrong_for_a_moment_ends_no_session_and_revokes_nothing() {
    let app = TestApp::start().await;
    let watcher = Watcher::of(&app);
    let user = app.user("owner").await;
    assert_eq!(looks_and_sweeps(&app).await, 0);
    for (round, wrong) in [TEN_DAYS, -TEN_DAYS].into_iter().enumerate() {
        app.clock.set(wrong);
        assert!(is_alive(&user).await, "before the service has looked at its clock");
        let was = app.clock.now();
        for _ in 0..15 {
            assert_eq!(looks_and_sweeps(&app).await, 0);
            assert!(is_alive(&user).await);
            app.clock.advance(5 * SECOND);
        }
        assert_eq!(app.clock.now(), was.after(75 * SECOND), "the service keeps the old time");
        assert_eq!(date(&app.anon()).await, app.clock.now());
        let scraped = watcher.scrape().await;
        assert_eq!(scraped.value("companion_clock_steps_total"), Some(f64::from(u32::try_from(round).unwrap()) + 1.0));
        app.clock.set(-wrong);
        assert_eq!(looks_and_sweeps(&app).await, 0);
        assert!(is_alive(&user).await);
    }
    assert_eq!((app.folder.count("sessions").await, app.folder.count("revocations").await), (1, 0));
    assert_eq!(date(&app.anon()).await.seconds(), app.clock.now().seconds());
}

#[tokio::test]
async fn a_new_time_that_stands_is_believed_and_then_sessions_expire() {
    let app = TestApp::start().await;
    let user = app.user("owner").await;
    app.clock.set(TEN_DAYS);
    assert_eq!(looks_and_sweeps(&app).await, 0);
    app.clock.advance(STANDING.saturating_sub(SECOND));
    assert_eq!(looks_and_sweeps(&app).await, 0);
    assert!(is_alive(&user).await);
    app.clock.advance(SECOND);
    // The service may have swept on its own first.
    looks_and_sweeps(&app).await;
    user.get("/guilds").await.refused(401, "token_invalid");
    assert_eq!((app.folder.count("sessions").await, app.folder.count("revocations").await), (0, 1));
    assert_eq!(date(&app.anon()).await, START.after(STANDING).after(Duration::from_hours(240)));
}

#[tokio::test]
async fn the_date_of_an_answer_follows_the_clock_on_both_listeners() {
    let app = TestApp::start().await;
    let watcher = Watcher::of(&app);
    for seconds in [0, 30, -59, 1] {
        app.clock.set(seconds);
        app.app.clock_watch.look();
        assert_eq!(date(&app.anon()).await, app.clock.now());
        let admin = watcher.request(reqwest::Method::GET, "/livez").send().await.unwrap();
        let expected = app.anon().get("/nowhere").await.header("date").to_owned();
        assert_eq!(admin.headers()["date"], expected);
    }
}

#[tokio::test]
async fn nothing_expires_right_after_a_start() {
    let builder = TestApp::builder().clock(Clock::system());
    let app = builder.set("sessions.idle = \"1m\"\nsessions.absolute = \"1m\"\naudit.keep = \"1h\"").start().await;
    let user = app.user("owner").await;
    app.app.sources.audit.flush(true).await;
    // All of it expired long ago: another process left it, or a clock is wrong.
    app.folder.sql("UPDATE sessions SET created = 1, last_seen = 1; UPDATE audit SET at = 1").await;
    app.app.sources.freshness.invalidate_all();
    user.get("/guilds").await.refused(401, "token_invalid");
    assert_eq!(looks_and_sweeps(&app).await, 0);
    let rows = app.folder.count("audit").await;
    app.user("member").await;
    app.app.sources.audit.flush(true).await;
    assert_eq!(app.folder.count("sessions").await, 2);
    assert_eq!((rows, app.folder.count("audit").await), (1, 2));
}

#[tokio::test]
async fn with_postgresql_a_replica_whose_clock_is_wrong_deletes_nothing() {
    if !on_postgres() {
        println!("only PostgreSQL has a clock of its own");
        return;
    }
    let app = TestApp::builder().set("audit.keep = \"1h\"").start().await;
    app.folder.set_clock(START).await;
    let user = app.user("owner").await;
    app.app.sources.audit.flush(true).await;
    let stored = async || {
        (app.folder.count("sessions").await, app.folder.count("audit").await, app.folder.count("revocations").await)
    };
    assert_eq!(stored().await, (1, 1, 0));
    app.clock.set(TEN_DAYS);
    app.app.clock_watch.look();
    app.clock.advance(STANDING);
    assert_eq!(looks_and_sweeps(&app).await, 0);
    app.app.sources.audit.flush(true).await;
    user.get("/guilds").await.refused(401, "token_invalid");
    assert_eq!(stored().await, (1, 1, 0), "this clock has stood, but the database's shows another time");
    app.folder.set_clock(app.clock.now().before(Duration::from_secs(59))).await;
    assert_eq!(looks_and_sweeps(&app).await, 1);
    app.clock.advance(Duration::from_mins(10));
    app.folder.set_clock(app.clock.now()).await;
    app.app.sources.audit.flush(true).await;
    assert_eq!(stored().await, (0, 0, 1));
}
