//! How much of what all clients share one network can take: an IPv6 customer has thousands of /64s, and an attacker many
//! networks.

use provider::idp::Endpoint;
use reqwest::Method;
use sandbox::Fault;

use crate::harness::client::Call;
use crate::harness::{Answer, TestApp};

/// A service with these limits, behind a proxy on this machine, so that a test can be any client.
async fn proxied(limits: &str) -> TestApp {
    let proxy = "[http]\ntrusted_proxies = [\"127.0.0.1\"]";
    TestApp::builder().set(proxy).set(limits).start().await
}

/// An address in a /64 of `2001:db8::/48`. The first 256 of them share a /56.
fn subnet(number: u16) -> String {
    format!("2001:db8:0:{number:x}::7")
}

fn call_from(app: &TestApp, client: &str, method: Method, path: &str) -> Call {
    app.anon().call(method, path).header("X-Forwarded-For", client)
}

async fn sign_in_from(app: &TestApp, client: &str, code: &str) -> Answer {
    call_from(app, client, Method::POST, "/auth").header("Idp-Code", code).send().await
}

/// How many of these clients' requests do not get a 429.
async fn passed(app: &TestApp, clients: impl Iterator<Item = u16>) -> usize {
    let mut passed = 0;
    for number in clients {
        let answer = call_from(app, &subnet(number), Method::GET, "/").send().await;
        passed += usize::from(answer.status == 200);
    }
    passed
}

#[tokio::test]
async fn the_64s_of_a_56_get_four_times_the_requests_of_one_and_those_of_a_48_eight_times() {
    let app = proxied("[limits]\nrequests_per_second = 1\nrequests_burst = 3").await;
    assert_eq!(passed(&app, (0..256).cycle().take(600)).await, 12);
    assert_eq!(passed(&app, 0x100..0x200).await, 12, "another /56 of the same /48");
    assert_eq!(passed(&app, (0x200..0x1000).step_by(16)).await, 0, "the /48 has no more");
    for (client, count) in [("2001:db8:1::7", 3), ("203.0.113.1", 3)] {
        for request in 0..4 {
            let answer = call_from(&app, client, Method::GET, "/").send().await;
            assert_eq!(answer.status == 200, request < count, "{client}");
        }
    }
}

#[tokio::test]
async fn the_64s_of_a_56_cannot_take_all_live_streams() {
    let app = proxied("[limits]\nlive = 64\nlive_per_address = 2").await;
    let mut streams = Vec::new();
    let open = async |number: u16| call_from(&app, &subnet(number), Method::GET, "/live").open().await;
    // Two for each of 32 /64s would be all of them.
    for number in 0..4 {
        streams.push((open(number).await, open(number).await));
    }
    for number in (0..32).chain(0..32) {
        let call = call_from(&app, &subnet(number), Method::GET, "/live");
        assert_eq!(call.status().await, 429, "{number}");
    }
    for number in 0x100..0x104 {
        streams.push((open(number).await, open(number).await));
    }
    for number in (0x100..0x1000).step_by(64) {
        let call = call_from(&app, &subnet(number), Method::GET, "/live");
        assert_eq!(call.status().await, 429, "{number}");
    }
    assert_eq!(app.app.live.count(), 16, "eight times as many as one address");
    let other = call_from(&app, "203.0.113.1", Method::GET, "/live").open().await;
    drop((streams, other));
    crate::harness::eventually("all ended", async || app.app.live.count() == 0).await;
    open(0x300).await;
}

#[tokio::test]
async fn the_64s_of_a_56_share_refused_sign_ins_exchanges_and_guessed_keys() {
    let limits = "limits.refused_sign_ins_per_minute = 2\nfeed.refused_keys_per_minute = 2";
    let builder = TestApp::builder().set("http.trusted_proxies = [\"127.0.0.1\"]").set(limits);
    let app = builder.adjust(|config| config.limits.concurrent_exchanges_per_address = 1).start().await;
    let hold = app.sandbox.hold(Endpoint::Token);
    let mut waiting = Vec::new();
    for number in 0..4 {
        let call = call_from(&app, &subnet(number), Method::POST, "/auth");
        waiting.push(tokio::spawn(call.header("Idp-Code", app.sandbox.issue_code("member")).send()));
        hold.arrived(usize::from(number) + 1).await;
    }
    sign_in_from(&app, &subnet(9), "early").await.refused(429, "rate_limited");
    hold.release();
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap().status, 200);
    }
    let before = app.sandbox.calls(Endpoint::Token);
    let mut keys = 0;
    for number in (0..256).step_by(4) {
        sign_in_from(&app, &subnet(number), &format!("guess-{number}")).await;
        let guess = call_from(&app, &subnet(number), Method::GET, "/bot/state").header("Authorization", "Bearer bck_x");
        keys += usize::from(guess.send().await.status == 401);
    }
    assert_eq!(app.sandbox.calls(Endpoint::Token) - before, 8, "four times as many as one address");
    assert_eq!(keys, 8);
    assert_eq!(sign_in_from(&app, "2001:db8:1::7", &app.sandbox.issue_code("member")).await.status, 200);
}

#[tokio::test]
async fn a_hundred_networks_whose_codes_the_providers_edge_refuses_shut_nobody_out() {
    let app = proxied("").await;
    let blocked = Fault::Status { code: 403, body: "<html>blocked</html>".to_owned(), headers: Vec::new() };
    app.sandbox.fail(Endpoint::Token, blocked);
    for network in 0..102 {
        for attempt in 0..10 {
            let code = format!("odd-{network}-{attempt}");
            let answer = sign_in_from(&app, &format!("198.51.{network}.1"), &code).await;
            assert!(matches!(answer.error().as_str(), "idp_unavailable" | "idp_rate_limited"), "{}", answer.text());
        }
    }
    assert_eq!(app.sandbox.calls(Endpoint::Token), 327, "a quarter of the budget, and then one of each network");
    app.sandbox.heal(Endpoint::Token);
    let member = sign_in_from(&app, "203.0.113.1", &app.sandbox.issue_code("member")).await;
    assert_eq!(member.status, 200, "{}", member.text());
    let refused = sign_in_from(&app, "198.51.101.99", &app.sandbox.issue_code("member")).await;
    assert_eq!(refused.refused(503, "idp_rate_limited").retry_after(), 600, "a network that caused refusals");
    app.clock.advance(std::time::Duration::from_mins(10));
    assert_eq!(sign_in_from(&app, "198.51.101.99", &app.sandbox.issue_code("member")).await.status, 200);
}
