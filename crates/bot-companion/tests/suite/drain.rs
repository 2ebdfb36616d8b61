//! The drain: requests that came in time are answered, and nothing that only waits holds it up.

use std::net::SocketAddr;
use std::time::Duration;

use provider::idp::Endpoint;
use sandbox::people::OWNER;

use crate::harness::{Client, TestApp, Wire, eventually, id, request};

fn sign_in(app: &TestApp) -> String {
    request("POST", "/auth", &format!("Idp-Code: {}\r\n", app.sandbox.issue_code("owner")))
}

#[tokio::test]
async fn a_request_in_flight_is_finished_and_new_connections_are_refused() {
    let mut app = TestApp::start().await;
    let address = app.address;
    let hold = app.sandbox.hold(Endpoint::Token);
    let mut busy = Wire::open(address).await;
    busy.send(sign_in(&app)).await;
    hold.arrived(1).await;
    let mut idle = Wire::open(address).await;
    assert_eq!(idle.get("/").await.status, 200);
    app.stop();
    eventually("new connections are refused", async || Wire::try_open(address).await.is_err()).await;
    // Its end shows that the connections have been told.
    assert_eq!(idle.rest().await, "");
    hold.release();
    let answer = busy.answer().await.unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("connection"), "close");
    assert_eq!(busy.rest().await, "");

    let token = answer.data()["token"].as_str().unwrap().to_owned();
    let app = app.restarted(&[]).await;
    assert_eq!(app.anon().with_token(token).get("/sessions").await.status, 200, "what was acknowledged lasts");
}

#[tokio::test]
async fn idle_and_silent_connections_do_not_hold_it_up() {
    // Only the service's own decision can end these: neither the clock nor the limit helps.
    let mut app = TestApp::builder().set("limits.drain_timeout = \"10m\"").start().await;
    let mut idle = Wire::open(app.address).await;
    assert_eq!(idle.get("/").await.status, 200);
    let silent = Wire::open(app.address).await;
    app.stop();
    assert_eq!(idle.rest().await, "");
    assert_eq!(silent.rest().await, "");
    app.stopped().await;
}

#[tokio::test]
async fn a_silent_connection_does_not_hold_it_up_under_tls_either() {
    let mut app = TestApp::builder().secure().set("limits.drain_timeout = \"10m\"").start().await;
    let silent = Wire::open(app.address).await;
    assert_eq!(app.anon().get("/").await.status, 200);
    app.stop();
    assert_eq!(silent.rest().await, "");
    app.stopped().await;
}

#[tokio::test]
async fn every_request_that_was_sent_before_it_began_is_answered() {
    for _ in 0..5 {
        let mut app = TestApp::start().await;
        let mut known = Vec::new();
        for _ in 0..20 {
            let mut wire = Wire::open(app.address).await;
            assert_eq!(wire.get("/").await.status, 200);
            known.push(wire);
        }
        // Some on connections that the service knows, some on new ones that it may not even have accepted.
        for wire in &mut known {
            wire.send(request("GET", "/team", "")).await;
        }
        for _ in 0..20 {
            let mut wire = Wire::open(app.address).await;
            wire.send(request("GET", "/team", "")).await;
            known.push(wire);
        }
        app.stop();
        for wire in &mut known {
            assert_eq!(wire.answer().await.expect("an answer").status, 200);
        }
        app.stopped().await;
    }
}

#[tokio::test]
async fn what_takes_longer_than_the_limit_is_cut() {
    let mut app = TestApp::builder().set("limits.drain_timeout = \"200ms\"").start().await;
    let hold = app.sandbox.hold(Endpoint::Token);
    let mut busy = Wire::open(app.address).await;
    busy.send(sign_in(&app)).await;
    hold.arrived(1).await;
    app.stop();
    assert_eq!(busy.rest().await, "");
    app.stopped().await;
}

#[tokio::test]
async fn a_stop_is_told_before_the_sockets_close() {
    let mut app = TestApp::builder().set("limits.drain_delay = \"1m\"").start().await;
    let mut kept = Wire::open(app.address).await;
    let ready = kept.get("/ready").await;
    assert_eq!((ready.status, ready.has("connection")), (200, false));
    app.stop();
    let anyone = app.anon();
    eventually("balancers are told", async || anyone.get("/ready").await.status == 503).await;
    anyone.get("/ready").await.refused(503, "draining").retry_after();
    let mut new = Wire::open(app.address).await;
    for wire in [&mut kept, &mut new] {
        let answer = wire.get("/team").await;
        assert_eq!((answer.status, answer.header("connection")), (200, "close"), "it is served, and moves on");
    }
    assert_eq!(kept.rest().await + &new.rest().await, "");
    assert_eq!(app.sign_in(&app.sandbox.issue_code("owner")).await.status, 200, "whatever still comes");
}

#[tokio::test]
async fn after_the_delay_it_drains() {
    let mut app = TestApp::builder().set("limits.drain_delay = \"50ms\"").start().await;
    let mut idle = Wire::open(app.address).await;
    assert_eq!(idle.get("/").await.status, 200);
    app.stop();
    assert_eq!(idle.rest().await, "");
    app.stopped().await;
}

/// Returns the sessions that one client was given.
async fn hammer(address: SocketAddr, codes: Vec<String>, keep_alive: bool) -> usize {
    let mut given = 0;
    let mut kept: Option<Wire> = None;
    for code in codes {
        let mut wire = match kept.take() {
            Some(wire) => wire,
            None => match Wire::try_open(address).await {
                Ok(wire) => wire,
                Err(_) => break,
            },
        };
        // A connection closed before any answer is a request that was not accepted; the caller checks that it had no effect. An
        // incomplete answer fails in `answer`.
        if wire.try_send(request("POST", "/auth", &format!("Idp-Code: {code}\r\n"))).await.is_err() {
            continue;
        }
        let Some(answer) = wire.answer().await else { continue };
        assert_eq!(answer.status, 200, "{}", answer.text());
        given += 1;
        if keep_alive && !answer.has("connection") {
            kept = Some(wire);
        }
    }
    given
}

#[tokio::test]
async fn under_load_nothing_is_done_without_its_answer_and_no_answer_breaks_off() {
    let many = "sessions.per_user = 1000\nlimits.sign_ins_per_user = 0";
    let mut app = TestApp::builder().set(many).start().await;
    let address = app.address;
    let clients: Vec<_> = (0..8)
        .map(|number| {
            let codes = (0..400).map(|_| app.sandbox.issue_code("owner")).collect();
            tokio::spawn(hammer(address, codes, number % 2 == 0))
        })
        .collect();
    let sandbox = app.sandbox.clone();
    eventually("the load is on", async || sandbox.calls(Endpoint::Token) > 40).await;
    app.stop();
    let mut given = 0;
    for client in clients {
        given += client.await.unwrap();
    }
    assert!(given >= 20, "{given}");
    let app = app.restarted(&[]).await;
    let stored = app.app.sources.store.sessions_of(id(OWNER)).await.unwrap().len();
    assert_eq!(stored, given, "every session that was made was also handed out");
}

#[tokio::test]
async fn sessions_and_their_last_use_are_there_after_a_restart() {
    let app = TestApp::start().await;
    let tokens = [app.user("owner").await.token().to_owned(), app.user("member").await.token().to_owned()];
    app.clock.advance(Duration::from_hours(2));
    let seen = |client: Client| async move { client.get("/sessions").await.data()[0].clone() };
    for token in &tokens {
        seen(app.anon().with_token(token)).await;
    }
    let app = app.restarted(&[]).await;
    for token in &tokens {
        let before = app.clock.now();
        app.clock.advance(Duration::from_secs(30));
        let session = seen(app.anon().with_token(token)).await;
        assert_eq!(session["current"], true, "{session}");
        let last = session["last_seen"].as_u64().unwrap();
        assert!(last >= before.seconds() - 60, "{session}");
    }
}
