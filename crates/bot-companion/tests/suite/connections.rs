//! Connections that behave badly: slow, silent, half-open, too many. None waits forever, and none gets in another's way.

use std::time::Duration;

use provider::idp::Endpoint;

use crate::harness::{TestApp, Wire, eventually, request, suite_log};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_request_whose_headers_never_end_is_sent_away_after_10_seconds() {
    let app = TestApp::start().await;
    let mut slow = Wire::open(app.address).await;
    assert_eq!(slow.get("/").await.status, 200);
    slow.send("GET /team HTTP/1.1\r\nHos").await;
    // All of it is less than the 75 s after which an idle connection would be closed.
    slow.sent_away(&app, 11 * SECOND, 6).await;
}

#[tokio::test]
async fn headers_that_trickle_in_do_not_buy_time() {
    let app = TestApp::start().await;
    let mut slow = Wire::open(app.address).await;
    assert_eq!(slow.get("/").await.status, 200);
    slow.send("GET /team HTTP/1.1\r\n").await;
    let mut turned = Duration::ZERO;
    // Each byte comes well within the limit; once the service gives up, sending fails.
    eventually("the trickle is cut", async || {
        if turned < 60 * SECOND {
            app.clock.advance(SECOND);
            turned += SECOND;
        }
        slow.try_send("x").await.is_err()
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_sent_away_after_10_seconds() {
    let app = TestApp::start().await;
    let mut silent = Wire::open(app.address).await;
    silent.sent_away(&app, 11 * SECOND, 6).await;
}

#[tokio::test]
async fn an_idle_connection_stays_for_75_seconds_and_not_longer() {
    let app = TestApp::start().await;
    let mut idle = Wire::open(app.address).await;
    for _ in 0..3 {
        assert_eq!(idle.get("/").await.status, 200);
        // The silent one goes first, which shows that the service has checked its connections.
        let mut silent = Wire::open(app.address).await;
        let before = app.clock.now();
        silent.sent_away(&app, 11 * SECOND, 5).await;
        let turned = Duration::from_millis(app.clock.now().millis() - before.millis());
        app.clock.advance((74 * SECOND).checked_sub(turned).unwrap());
    }
    assert_eq!(idle.get("/").await.status, 200);
    idle.sent_away(&app, 76 * SECOND, 1).await;
}

#[tokio::test]
async fn a_body_that_trickles_in_is_answered_with_408_and_the_connection_ends() {
    let app = TestApp::builder().set("limits.request_timeout = \"200ms\"").start().await;
    let code = app.sandbox.issue_code("owner");
    let mut slow = Wire::open(app.address).await;
    slow.send(request("POST", "/auth", &format!("Idp-Code: {code}\r\nContent-Length: 10\r\n"))).await;
    slow.send("abc").await;
    let answer = slow.answer().await.unwrap();
    assert_eq!((answer.status, answer.error().as_str()), (408, "request_timeout"));
    assert_eq!(answer.header("connection"), "close");
    assert_eq!(app.sandbox.calls(Endpoint::Token), 0, "an unfinished request does nothing");
    assert_eq!(slow.rest().await, "");
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answers_is_sent_away_and_holds_nobody_up() {
    let app = TestApp::start().await;
    let mut deaf = Wire::open(app.address).await;
    let flood = request("GET", "/openapi.json", "").repeat(50);
    // Once the buffers in between are full, the service stops reading, so sending blocks.
    while tokio::time::timeout(Duration::from_millis(300), deaf.try_send(&flood)).await.is_ok() {}
    assert_eq!(app.anon().get("/").await.status, 200);
    eventually("the deaf client is cut", async || {
        app.clock.advance(76 * SECOND);
        matches!(tokio::time::timeout(Duration::from_millis(600), deaf.try_send(&flood)).await, Ok(Err(_)))
    })
    .await;
}

#[tokio::test]
async fn a_client_that_reads_slowly_gets_its_whole_answers() {
    let app = TestApp::start().await;
    let whole = app.anon().get("/openapi.json").await.body;
    let mut slow = Wire::open(app.address).await;
    slow.send(request("GET", "/openapi.json", "").repeat(40)).await;
    for _ in 0..40 {
        // Between two answers others are served, and time passes.
        assert_eq!(app.anon().get("/").await.status, 200);
        app.clock.advance(SECOND);
        assert_eq!(slow.answer().await.unwrap().body, whole);
    }
}

#[tokio::test]
async fn a_client_that_closes_its_side_after_asking_gets_a_whole_answer_or_none() {
    let app = TestApp::start().await;
    for path in ["/", "/team", "/openapi.json", "/nowhere"] {
        let mut half = Wire::open(app.address).await;
        half.send(request("GET", path, "")).await;
        half.half_close().await;
        // A client that has closed its side may as well have left, so the work isn't worth doing; half an answer fails in
        // `answer`.
        if let Some(answer) = half.answer().await {
            assert_eq!(answer.status, if path == "/nowhere" { 404 } else { 200 });
        }
        assert_eq!(half.rest().await, "");
    }
    assert_eq!(app.anon().get("/").await.status, 200);
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_of_a_sign_in_does_not_break_it_for_the_next() {
    let app = TestApp::start().await;
    let hold = app.sandbox.hold(Endpoint::Token);
    let code = app.sandbox.issue_code("owner");
    let mut leaver = Wire::open(app.address).await;
    leaver.send(request("POST", "/auth", &format!("Idp-Code: {code}\r\n"))).await;
    hold.arrived(1).await;
    drop(leaver);
    let (again, ()) = tokio::join!(app.sign_in(&code), async {
        hold.release();
    });
    // Either it joined the exchange that was still running, or it came later and is refused as used.
    assert!(matches!(again.status, 200 | 401), "{}", again.text());
    assert_eq!(app.sandbox.calls(Endpoint::Token), 1);
    app.user("owner").await;
}

#[tokio::test]
async fn requests_in_one_packet_are_answered_in_their_order() {
    let app = TestApp::start().await;
    let mut wire = Wire::open(app.address).await;
    let paths = ["/", "/nowhere", "/team", "/guilds", "/feedback", "/openapi.json", "/"];
    wire.send(paths.map(|path| request("GET", path, "")).concat()).await;
    let mut statuses = Vec::new();
    for _ in paths {
        statuses.push(wire.answer().await.unwrap().status);
    }
    assert_eq!(statuses, [200, 404, 200, 401, 200, 200, 200]);
}

#[tokio::test]
async fn at_the_connection_limit_a_new_one_evicts_the_longest_idle_without_a_request() {
    let app = TestApp::builder().set("limits.connections = 4").one_socket().start().await;
    let hold = app.sandbox.hold(Endpoint::Token);
    let mut busy = Wire::open(app.address).await;
    busy.send(request("POST", "/auth", &format!("Idp-Code: {}\r\n", app.sandbox.issue_code("owner")))).await;
    hold.arrived(1).await;
    let silent = Wire::open(app.address).await;
    // The client that is served came to the same socket, after the silent one.
    assert_eq!(Wire::open(app.address).await.get("/").await.status, 200);
    app.clock.advance(SECOND);
    let mut slow = Wire::open(app.address).await;
    slow.send("GET /team HTTP/1.1\r\nHost: sui").await;
    app.clock.advance(SECOND);
    let mut customer = Wire::open(app.address).await;
    assert_eq!(customer.get("/").await.status, 200);
    app.clock.advance(SECOND);

    let mut newcomer = Wire::open(app.address).await;
    assert_eq!(newcomer.get("/").await.status, 200);
    assert_eq!(silent.rest().await, "", "the silent one had to go");
    slow.send("te\r\n\r\n").await;
    assert_eq!(slow.answer().await.unwrap().status, 200, "the slow one came later, and stays");
    assert_eq!(customer.get("/").await.status, 200, "who has been served before stays");
    hold.release();
    assert_eq!(busy.answer().await.unwrap().status, 200, "nobody is sent away in the middle of a request");
}

#[tokio::test]
async fn when_all_connections_are_busy_a_newcomer_is_closed_and_the_busy_ones_finish() {
    let app = TestApp::builder().set("limits.connections = 4").start().await;
    let hold = app.sandbox.hold(Endpoint::Token);
    let mut busy = Vec::new();
    for count in 1..=4 {
        let mut wire = Wire::open(app.address).await;
        wire.send(request("POST", "/auth", &format!("Idp-Code: {}\r\n", app.sandbox.issue_code("owner")))).await;
        hold.arrived(count).await;
        busy.push(wire);
    }
    assert_eq!(Wire::open(app.address).await.rest().await, "");
    hold.release();
    for wire in &mut busy {
        assert_eq!(wire.answer().await.unwrap().status, 200);
    }
    assert_eq!(Wire::open(app.address).await.get("/").await.status, 200);
}

#[tokio::test]
async fn hundreds_of_slow_connections_leave_room_for_everybody_else() {
    let app = TestApp::builder().set("limits.connections = 300\nlimits.exempt = [\"127.0.0.1\"]").start().await;
    let mut flood = Vec::new();
    for _ in 0..500 {
        let mut slow = Wire::open(app.address).await;
        // Those that had to make room for later ones cannot even send.
        let _ = slow.try_send("GET / HTTP/1.1\r\nX-Slow: ").await;
        flood.push(slow);
    }
    // Among those that have waited equally long, any may have to go; on this clock that would be all of them.
    eventually("the flood is there", async || app.app.sources.metrics.accepted.get() >= 500).await;
    app.clock.advance(SECOND);
    let user = app.user("owner").await;
    for _ in 0..50 {
        app.clock.advance(Duration::from_millis(100));
        assert_eq!(app.anon().get("/").await.status, 200);
        assert_eq!(user.get("/guilds").await.status, 200);
        // A new connection gets in as well.
        assert_eq!(Wire::open(app.address).await.get("/team").await.status, 200);
    }
    let last = flood.last_mut().unwrap();
    last.sent_away(&app, 11 * SECOND, 6).await;
    assert_eq!(app.anon().get("/").await.status, 200);
}

/// A request whose body the service is waiting for.
async fn without_body(app: &TestApp) -> Wire {
    let mut wire = Wire::open(app.address).await;
    wire.send(request("POST", "/auth", "Idp-Code: x\r\nExpect: 100-continue\r\nContent-Length: 10\r\n")).await;
    assert_eq!(wire.answer().await.unwrap().status, 100);
    wire
}

#[tokio::test]
async fn connections_that_wait_for_a_body_make_room_like_others() {
    let app = TestApp::builder().set("limits.connections = 4").start().await;
    let hold = app.sandbox.hold(Endpoint::Token);
    let mut busy = Wire::open(app.address).await;
    let code = app.sandbox.issue_code("owner");
    busy.send(request("POST", "/auth", &format!("Idp-Code: {code}\r\nContent-Length: 1\r\n")) + "x").await;
    hold.arrived(1).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(without_body(&app).await);
        app.clock.advance(SECOND);
    }
    let mut served = Vec::new();
    for oldest in waiting {
        let mut newcomer = Wire::open(app.address).await;
        assert_eq!(newcomer.get("/").await.status, 200);
        served.push(newcomer);
        assert_eq!(oldest.rest().await, "", "the one that has waited longest had to go");
    }
    hold.release();
    assert_eq!(busy.answer().await.unwrap().status, 200, "nobody is sent away in the middle of the work");
}

#[tokio::test]
async fn one_address_has_at_most_256_connections_and_the_rest_stays_for_others() {
    let app = TestApp::start().await;
    let mut flood = Vec::new();
    for _ in 0..256 {
        let mut wire = Wire::open(app.address).await;
        assert_eq!(wire.get("/ready").await.status, 200);
        flood.push(wire);
    }
    for _ in 0..3 {
        assert_eq!(Wire::open(app.address).await.rest().await, "", "one too many is closed at once");
    }
    assert_eq!(flood[0].get("/ready").await.status, 200, "those that are there stay");
    eventually("it is in the log", async || {
        let log = String::from_utf8_lossy(&std::fs::read(suite_log("suite")).unwrap()).into_owned();
        log.lines().any(|line| line.contains("connections refused: a client address") && line.contains("count=1"))
    })
    .await;
    drop(flood.pop());
    eventually("there is room again", async || {
        let mut wire = Wire::open(app.address).await;
        wire.try_send(request("GET", "/ready", "")).await.is_ok() && wire.answer().await.is_some()
    })
    .await;
}

#[tokio::test]
async fn proxies_and_exempt_networks_have_as_many_connections_as_there_are() {
    for free in [
        "http.trusted_proxies = [\"127.0.0.1\"]",
        "limits.exempt = [\"127.0.0.0/8\"]",
        "limits.connections_per_address = 0",
    ] {
        let bound = if free.contains("per_address") { "" } else { "limits.connections_per_address = 2" };
        let app = TestApp::builder().set(free).set(bound).start().await;
        let mut wires = Vec::new();
        for _ in 0..5 {
            let mut wire = Wire::open(app.address).await;
            assert_eq!(wire.get("/ready").await.status, 200, "{free}");
            wires.push(wire);
        }
    }
}

#[tokio::test]
async fn at_the_connection_limit_an_idle_served_client_makes_room_before_a_new_one() {
    let app = TestApp::builder().set("[limits]\nconnections = 2").start().await;
    let mut newcomer = Wire::open(app.address).await;
    newcomer.send("GET / HTTP/1.1\r\n").await;
    // Each arrives at the connection limit and still gets in.
    let mut served = Vec::new();
    for _ in 0..5 {
        let mut wire = Wire::open(app.address).await;
        assert_eq!(wire.get("/").await.status, 200);
        served.push(wire);
    }
    newcomer.send("Host: x\r\n\r\n").await;
    assert_eq!(newcomer.answer().await.unwrap().status, 200);
}
