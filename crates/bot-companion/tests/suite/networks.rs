//! How much of what all clients share one network can take: an IPv6 customer has thousands of addresses, and an attacker many
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

#[tokio::test]
async fn an_ipv6_56_counts_as_one_client_with_four_times_the_allowance() {
    let app =
        proxied("[limits]\nrequests_per_second = 1\nrequests_burst = 3\n[feed]\nrefused_keys_per_minute = 2").await;
    for first in [0, 0x100] {
        let (mut requests, mut keys) = (0, 0);
        for number in first..first + 40 {
            let request = call_from(&app, &subnet(number), Method::GET, "/");
            requests += usize::from(request.status().await == 200);
            let guess =
                call_from(&app, &subnet(number), Method::GET, "/bot/state").header("Authorization", "Bearer bck_x");
            keys += usize::from(guess.status().await == 401);
        }
        assert_eq!((requests, keys), (12, 8), "{first}");
    }
}

#[tokio::test]
async fn an_ipv6_56_has_four_times_the_streams_and_exchanges_at_the_same_time() {
    let builder = TestApp::builder().set("http.trusted_proxies = [\"127.0.0.1\"]").set("limits.live_per_address = 1");
    let app = builder.adjust(|config| config.limits.concurrent_exchanges_per_address = 1).start().await;
    let hold = app.sandbox.hold(Endpoint::Token);
    let (mut streams, mut waiting) = (Vec::new(), Vec::new());
    for (started, number) in [0, 1, 2, 0xff, 0x100, 0x101, 0x102, 0x103].into_iter().enumerate() {
        streams.push(call_from(&app, &subnet(number), Method::GET, "/live").open().await);
        let call = call_from(&app, &subnet(number), Method::POST, "/auth");
        waiting.push(tokio::spawn(call.header("Idp-Code", app.sandbox.issue_code("member")).send()));
        hold.arrived(started + 1).await;
    }
    for number in [0, 9, 0x100, 0x109] {
        assert_eq!(call_from(&app, &subnet(number), Method::GET, "/live").status().await, 429, "{number}");
        sign_in_from(&app, &subnet(number), "early").await.refused(429, "rate_limited");
    }
    hold.release();
    for waiting in waiting {
        assert_eq!(waiting.await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn an_ipv6_48_counts_as_one_client_that_is_refused_sign_ins() {
    let app = proxied("[limits]\nrefused_sign_ins_per_minute = 2").await;
    for number in 0..64 {
        sign_in_from(&app, &subnet(number * 1_000), &format!("guess-{number}")).await;
    }
    assert_eq!(app.sandbox.calls(Endpoint::Token), 8, "four times as many as one address");
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
