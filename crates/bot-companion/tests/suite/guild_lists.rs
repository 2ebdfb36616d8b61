//! The provider's list of a user's guilds: how stale it may be, when it is fetched again, and what a failing provider changes.

use std::time::Duration;

use domain::Change;
use futures_util::future::{join, join_all};
use provider::idp::Endpoint;
use reqwest::Method;
use sandbox::Fault;
use sandbox::people::MEMBER;
use telemetry::metrics::{StoreAccess, StoreOutcome};

use crate::harness::{Answer, Client, TestApp, eventually, guild, id, listed, names, soon};
use crate::outages::filled;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);

/// A service whose bot is in the guilds `a` and `b`, and whose `member` is so far in `a`.
async fn member_in_a(configuration: &str) -> (TestApp, Client) {
    let app = TestApp::builder().set(configuration).start().await;
    app.bot_says([Change::Guild(guild(1, "a", 7)), Change::Guild(guild(2, "b", 7))]).await;
    app.sandbox.edit("member", |person| person.guilds = vec![listed(1, 0)]);
    let member = app.user("member").await;
    assert_eq!(shown(&member).await, (vec!["a".to_owned()], 0));
    assert_eq!(calls(&app), 1);
    (app, member)
}

fn joins_b(app: &TestApp) {
    app.sandbox.edit("member", |person| person.guilds = vec![listed(1, 0), listed(2, 0)]);
}

fn calls(app: &TestApp) -> usize {
    app.sandbox.calls(Endpoint::Guilds)
}

/// Names and `Age` of the list that a client sees.
async fn shown(client: &Client) -> (Vec<String>, u64) {
    named(&client.get("/guilds").await)
}

fn named(answer: &Answer) -> (Vec<String>, u64) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let names = names(answer.data().as_array().unwrap()).into_iter().map(str::to_owned).collect();
    (names, answer.header("age").parse().unwrap())
}

async fn forced(client: &Client, directive: &str) -> (Vec<String>, u64) {
    named(&client.call(Method::GET, "/guilds").header("Cache-Control", directive).send().await)
}

fn only_a() -> Vec<String> {
    vec!["a".to_owned()]
}

fn both() -> Vec<String> {
    vec!["a".to_owned(), "b".to_owned()]
}

fn broken() -> Fault {
    Fault::Status { code: 500, body: String::new(), headers: Vec::new() }
}

fn limited(seconds: f64) -> Fault {
    Fault::RateLimited { retry_after: Some(seconds), json: true, global: false }
}

/// Whether the request reads the store this often. The service also reads by itself, so it may be more this time, but never less.
async fn takes_reads(app: &TestApp, expected: u64, request: impl AsyncFnOnce()) -> bool {
    app.settled().await;
    filled(app).await;
    let reads = || app.app.sources.store.metrics().operations.get(StoreAccess::Read, StoreOutcome::Done);
    let before = reads();
    request().await;
    let read = reads() - before;
    assert!(read >= expected, "{read}");
    read == expected
}

#[tokio::test]
async fn a_response_that_is_not_cached_reads_the_account_once() {
    let reads_two = async || {
        let (app, member) = Box::pin(member_in_a("")).await;
        takes_reads(&app, 2, async || assert_eq!(member.get("/guilds/invitable").await.status, 200)).await
    };
    eventually("the account is read, and which of its guilds have the bot, and nothing else", reads_two).await;
}

#[tokio::test]
async fn a_refresh_that_fails_costs_no_second_read_of_the_account() {
    let reads_two = async || {
        let (app, member) = Box::pin(member_in_a("")).await;
        app.sandbox.fail(Endpoint::Guilds, broken());
        app.clock.advance(15 * MINUTE);
        takes_reads(&app, 2, async || assert_eq!(shown(&member).await.0, only_a())).await
    };
    eventually("the account is read before the refresh and in it, and nothing else is", reads_two).await;
}

#[tokio::test]
async fn what_changed_during_a_refresh_that_failed_is_shown() {
    let (app, member) = member_in_a("").await;
    app.sandbox.fail(Endpoint::Guilds, broken());
    let hold = app.sandbox.hold(Endpoint::Guilds);
    app.clock.advance(15 * MINUTE);
    let answer = async { shown(&member).await.0 };
    let leaves = async {
        hold.arrived(1).await;
        app.bot_says([Change::MemberGone { guild: id(1), user: id(MEMBER) }]).await;
        hold.release();
    };
    assert_eq!(join(answer, leaves).await.0, Vec::<String>::new());
}

#[tokio::test]
async fn the_list_is_fetched_beside_the_login() {
    let app = TestApp::start().await;
    app.user("member").await;
    eventually("the list is asked for", async || calls(&app) == 1).await;
}

#[tokio::test]
async fn a_login_succeeds_while_the_list_hangs() {
    let app = TestApp::start().await;
    let hold = app.sandbox.hold(Endpoint::Guilds);
    let member = app.user("member").await;
    hold.arrived(1).await;
    hold.release();
    assert_eq!(member.get("/guilds").await.status, 200);
    assert_eq!(calls(&app), 1);
}

#[tokio::test]
async fn up_to_ten_minutes_the_list_is_served_stale_and_refreshed_in_the_background() {
    for age in [61, 600] {
        let (app, member) = member_in_a("").await;
        joins_b(&app);
        app.clock.advance(age * SECOND);
        // Held, so that only an answer that does not wait can come.
        let hold = app.sandbox.hold(Endpoint::Guilds);
        assert_eq!(shown(&member).await, (only_a(), u64::from(age)));
        hold.arrived(1).await;
        assert_eq!(shown(&member).await, (only_a(), u64::from(age)), "and again while it runs");
        hold.release();
        eventually("the new list is shown", async || shown(&member).await == (both(), 0)).await;
        assert_eq!(calls(&app), 2, "one refresh");
    }
}

#[tokio::test]
async fn a_hanging_provider_delays_an_answer_but_the_last_good_list_is_served() {
    let (app, member) = member_in_a("[guilds]\nrefresh_wait = \"10ms\"").await;
    joins_b(&app);
    let hold = app.sandbox.hold(Endpoint::Guilds);
    app.clock.advance(Duration::from_hours(1));
    assert_eq!(shown(&member).await, (only_a(), 3600));
    assert_eq!(shown(&member).await, (only_a(), 3600));
    // Neither answer waited for the call to arrive.
    hold.arrived(1).await;
    assert_eq!(calls(&app), 2, "the second waited for the same call");
    hold.release();
    eventually("the late list is shown", async || shown(&member).await.0 == both()).await;
    assert_eq!(calls(&app), 2);
}

#[tokio::test]
async fn a_list_older_than_an_hour_is_never_shown_while_the_provider_fails() {
    for (fault, status, error) in [
        (broken(), 502, "idp_unavailable"),
        (Fault::Nonsense, 502, "idp_unavailable"),
        (Fault::Truncated, 502, "idp_unavailable"),
        (Fault::Huge, 502, "idp_unavailable"),
        (Fault::Refuse, 502, "idp_unavailable"),
        (limited(40.0), 503, "idp_rate_limited"),
    ] {
        let (app, member) = member_in_a("").await;
        // A read whose connection breaks is sent once more.
        let sent = if matches!(fault, Fault::Refuse) { 2 } else { 1 };
        app.sandbox.fail(Endpoint::Guilds, fault);
        app.clock.advance(Duration::from_hours(1));
        assert_eq!(shown(&member).await, (only_a(), 3600), "an hour old it still serves");
        app.clock.advance(SECOND);
        for _ in 0..2 {
            let answer = member.get("/guilds").await;
            assert_eq!((answer.status, answer.error().as_str()), (status, error));
        }
        assert_eq!(calls(&app), 1 + sent);
    }
}

#[tokio::test]
async fn a_provider_that_keeps_silent_is_a_timeout() {
    let (app, member) = member_in_a("").await;
    let token = member.token().to_owned();
    app.sandbox.fail(Endpoint::Guilds, Fault::Hang);
    app.clock.advance(Duration::from_hours(1) + SECOND);
    // A short timeout only from here on, because the first list has to arrive even on a busy machine.
    let app = app.restarted(&["[idp]\nlist_timeout = \"20ms\""]).await;
    let answer = app.anon().with_token(token).get("/guilds").await;
    assert_eq!((answer.status, answer.error().as_str()), (504, "idp_timeout"));
}

#[tokio::test]
async fn without_any_list_a_failing_provider_is_an_error_and_no_empty_list() {
    let app = TestApp::start().await;
    app.bot_says([Change::Guild(guild(1, "a", MEMBER))]).await;
    app.sandbox.fail(Endpoint::Guilds, broken());
    let member = app.user("member").await;
    for _ in 0..3 {
        let answer = member.get("/guilds").await;
        assert_eq!((answer.status, answer.error().as_str()), (502, "idp_unavailable"));
    }
    assert_eq!(calls(&app), 1);
}

#[tokio::test]
async fn a_stored_list_survives_a_restart() {
    let (app, member) = member_in_a("").await;
    let token = member.token().to_owned();
    app.clock.advance(30 * SECOND);
    let app = app.restarted(&[]).await;
    app.sandbox.fail(Endpoint::Guilds, broken());
    assert_eq!(shown(&app.anon().with_token(token)).await, (only_a(), 30));
    assert_eq!(calls(&app), 1);
}

#[tokio::test]
async fn after_a_failure_the_provider_is_left_alone_for_15_seconds() {
    // At both ages at which a list is refreshed: in the background, and before the answer.
    for age in [2 * MINUTE, 20 * MINUTE] {
        let (app, member) = member_in_a("").await;
        joins_b(&app);
        app.clock.advance(age);
        app.sandbox.fail_times(Endpoint::Guilds, broken(), 1);
        assert_eq!(shown(&member).await.0, only_a(), "a failure never replaces a good list");
        eventually("the refresh fails", async || calls(&app) == 2).await;
        // The call has arrived; nobody waits for it any more, which shows that its failure was recorded.
        assert!(app.app.sources.background.drain(MINUTE).await);
        app.clock.advance(Duration::from_millis(14_999));
        assert_eq!(shown(&member).await.0, only_a());
        assert_eq!(calls(&app), 2);
        app.clock.advance(Duration::from_millis(1));
        eventually("the new list is shown", async || shown(&member).await.0 == both()).await;
        assert_eq!(calls(&app), 3);
    }
}

#[tokio::test]
async fn no_cache_refreshes_first_but_at_most_once_in_10_seconds() {
    let (app, member) = member_in_a("").await;
    app.clock.advance(SECOND);
    joins_b(&app);
    assert_eq!(forced(&member, "max-age=0, No-Cache").await, (both(), 0));
    assert_eq!(calls(&app), 2);
    app.clock.advance(Duration::from_millis(9_999));
    assert_eq!(forced(&member, "no-cache").await, (both(), 9));
    assert_eq!(forced(&member, "no-store").await, (both(), 9), "another directive asks for nothing");
    assert_eq!(calls(&app), 2);
    app.clock.advance(Duration::from_millis(1));
    assert_eq!(forced(&member, "no-cache").await, (both(), 0));
    assert_eq!(calls(&app), 3);
}

#[tokio::test]
async fn no_cache_while_the_provider_fails_gives_the_last_good_list() {
    let (app, member) = member_in_a("").await;
    app.clock.advance(20 * SECOND);
    app.sandbox.fail(Endpoint::Guilds, broken());
    assert_eq!(forced(&member, "no-cache").await, (only_a(), 20));
    app.clock.advance(10 * SECOND);
    assert_eq!(forced(&member, "no-cache").await, (only_a(), 30));
    assert_eq!(calls(&app), 2, "and the pause after a failure holds for the impatient too");
}

#[tokio::test]
async fn one_users_no_cache_does_not_use_up_anothers() {
    let (app, member) = member_in_a("").await;
    let manager = app.user("manager").await;
    manager.get("/guilds").await;
    let before = calls(&app);
    forced(&member, "no-cache").await;
    forced(&manager, "no-cache").await;
    assert_eq!(calls(&app), before + 2);
}

#[tokio::test]
async fn twenty_requests_of_a_user_make_one_call() {
    let app = TestApp::start().await;
    let hold = app.sandbox.hold(Endpoint::Guilds);
    let member = app.user("member").await;
    let places = app.app.request_permits.available_permits();
    let requests = tokio::spawn({
        let member = member.clone();
        async move { join_all((0..20).map(|_| member.get("/guilds"))).await }
    });
    eventually("all are in work", async || app.app.request_permits.available_permits() == places - 20).await;
    hold.release();
    let answers = requests.await.unwrap();
    assert!(answers.iter().all(|answer| answer.status == 200 && answer.body == answers[0].body));
    assert_eq!(calls(&app), 1);
}

#[tokio::test]
async fn a_refresh_that_began_before_a_departure_does_not_bring_the_guild_back() {
    let (app, member) = member_in_a("").await;
    app.clock.advance(2 * MINUTE);
    let before = app.sandbox.hold(Endpoint::Guilds);
    assert_eq!(shown(&member).await.0, only_a());
    before.arrived(1).await;
    app.bot_says([Change::MemberGone { guild: id(1), user: id(MEMBER) }]).await;
    assert_eq!(shown(&member).await.0, Vec::<String>::new());
    // The later hold lets the first call go, with the guild still on its list, and stops the next one.
    let after = app.sandbox.hold(Endpoint::Guilds);
    soon("the call in its place is made", after.arrived(1)).await;
    assert_eq!(shown(&member).await.0, Vec::<String>::new(), "the list from before was thrown away");
    app.sandbox.edit("member", |person| person.guilds = vec![listed(2, 0)]);
    after.release();
    drop(before);
    eventually("the later list is shown", async || shown(&member).await == (vec!["b".to_owned()], 0)).await;
}

#[tokio::test]
async fn the_first_list_of_a_login_does_not_bring_back_a_guild_that_was_left_meanwhile() {
    let app = TestApp::start().await;
    app.bot_says([Change::Guild(guild(1, "a", 7)), Change::Guild(guild(2, "b", 7))]).await;
    joins_b(&app);
    let before = app.sandbox.hold(Endpoint::Guilds);
    let member = app.user("member").await;
    before.arrived(1).await;
    app.bot_says([Change::MemberGone { guild: id(1), user: id(MEMBER) }]).await;
    let after = app.sandbox.hold(Endpoint::Guilds);
    soon("the call in its place is made", after.arrived(1)).await;
    app.sandbox.edit("member", |person| person.guilds = vec![listed(2, 0)]);
    after.release();
    drop(before);
    assert_eq!(shown(&member).await.0, ["b"]);
}

#[tokio::test]
async fn a_limit_on_a_users_list_is_obeyed_for_that_user_only() {
    let (app, member) = member_in_a("").await;
    let manager = app.user("manager").await;
    manager.get("/guilds").await;
    app.clock.advance(20 * MINUTE);
    let before = calls(&app);
    app.sandbox.fail_times(Endpoint::Guilds, limited(40.0), 1);
    assert_eq!(shown(&member).await, (only_a(), 1200));
    assert_eq!(calls(&app), before + 1);
    assert_eq!(manager.get("/guilds").await.header("age"), "0", "another user's list is fetched");
    assert_eq!(calls(&app), before + 2);
    app.clock.advance(Duration::from_millis(39_999));
    assert_eq!(shown(&member).await, (only_a(), 1239));
    assert_eq!(calls(&app), before + 2);
    app.clock.advance(Duration::from_millis(1));
    assert_eq!(shown(&member).await, (only_a(), 0));
    assert_eq!(calls(&app), before + 3);
}

#[tokio::test]
async fn a_limit_tells_how_long_it_still_lasts() {
    for (provider_says, first, after_ten_seconds) in [(40.0, "40", "30"), (1.0, "15", "5")] {
        let app = TestApp::start().await;
        app.sandbox.fail(Endpoint::Guilds, limited(provider_says));
        let member = app.user("member").await;
        let wait = async || member.get("/guilds").await.header("retry-after").to_owned();
        assert_eq!(wait().await, first);
        assert_eq!(wait().await, first);
        app.clock.advance(10 * SECOND);
        assert_eq!(wait().await, after_ten_seconds, "of a limit of {provider_says} s, and never before the next call");
        assert_eq!(calls(&app), 1);
    }
}
