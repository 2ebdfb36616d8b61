//! Every limit that refuses something is counted by name; and where the admin listener listens.

use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use provider::idp::Endpoint;
use reqwest::Method;
use runtime::clock::Clock;
use sandbox::Fault;
use service::config::Config;
use telemetry::metrics::{Label, LimitName};

use crate::admin::Watcher;
use crate::harness::binary::{Running, command, config_file, run};
use crate::harness::{Folder, TestApp, Wire, eventually, sandbox};

/// Asserts that this limit was hit at least once, and no other.
async fn only(watcher: &Watcher<'_>, limit: LimitName) {
    let series = |limit: LimitName| format!("companion_limits_hit_total{{limit=\"{}\"}}", limit.text());
    eventually(limit.text(), async || watcher.scrape().await.value(&series(limit)).unwrap() >= 1.0).await;
    let scraped = watcher.scrape().await;
    for other in LimitName::ALL.iter().filter(|other| **other != limit) {
        assert_eq!(scraped.value(&series(*other)), Some(0.0), "{other:?} beside {limit:?}");
    }
}

#[tokio::test]
async fn limits_on_requests_and_connections_are_counted() {
    let app = TestApp::builder().set("[limits]\nrequests_per_second = 1\nrequests_burst = 1").start().await;
    app.anon().get("/").await;
    app.anon().get("/").await.refused(429, "rate_limited");
    only(&Watcher::of(&app), LimitName::Requests).await;

    let app = TestApp::builder().set("limits.concurrent_requests = 1").start().await;
    let permit = app.app.request_permits.try_acquire().unwrap();
    app.anon().get("/nowhere").await.refused(503, "overloaded");
    drop(permit);
    only(&Watcher::of(&app), LimitName::ConcurrentRequests).await;

    let app = TestApp::builder().set("limits.connections_per_address = 1").start().await;
    let _open = Wire::open(app.address).await;
    let second = Wire::open(app.address).await;
    let third = Wire::open(app.address).await;
    only(&Watcher::of(&app), LimitName::ConnectionsPerAddress).await;
    drop((second, third));

    let app = TestApp::builder().set("limits.connections = 1").start().await;
    let hold = app.sandbox.hold(Endpoint::Token);
    let busy = tokio::spawn(app.anon().post("/auth").header("Idp-Code", app.sandbox.issue_code("owner")).send());
    hold.arrived(1).await;
    let refused = Wire::open(app.address).await;
    only(&Watcher::of(&app), LimitName::Connections).await;
    drop(refused);
    hold.release();
    assert_eq!(busy.await.unwrap().status, 200);
}

#[tokio::test]
async fn limits_on_live_streams_are_counted() {
    for (configuration, limit) in
        [("limits.live = 1", LimitName::Live), ("limits.live_per_address = 1", LimitName::LivePerAddress)]
    {
        let app = TestApp::builder().set(configuration).start().await;
        let _open = app.anon().call(Method::GET, "/live").open().await;
        assert_ne!(app.anon().call(Method::GET, "/live").status().await, 200);
        only(&Watcher::of(&app), limit).await;
    }
}

#[tokio::test]
async fn limits_on_sign_ins_are_counted() {
    let app = TestApp::builder().set("limits.refused_sign_ins_per_minute = 1").start().await;
    app.sign_in("refused-1").await.refused(401, "idp_code_rejected");
    app.sign_in("refused-2").await.refused(429, "rate_limited");
    let watcher = Watcher::of(&app);
    only(&watcher, LimitName::RefusedSignIns).await;
    assert_eq!(watcher.scrape().await.value("companion_sign_ins_total{outcome=\"limited\"}"), Some(1.0));

    let app = TestApp::builder().set("limits.sign_ins_per_user = 1").start().await;
    app.user("owner").await;
    app.sign_in(&app.sandbox.issue_code("owner")).await.refused(429, "rate_limited");
    only(&Watcher::of(&app), LimitName::SignInsPerUser).await;

    let adjustments: [(fn(&mut Config), _); 2] = [
        (|config| config.limits.concurrent_exchanges = 1, LimitName::ConcurrentExchanges),
        (|config| config.limits.concurrent_exchanges_per_address = 1, LimitName::ConcurrentExchangesPerAddress),
    ];
    for (adjust, limit) in adjustments {
        let app = TestApp::builder().adjust(adjust).start().await;
        let hold = app.sandbox.hold(Endpoint::Token);
        let first = tokio::spawn(app.anon().post("/auth").header("Idp-Code", app.sandbox.issue_code("owner")).send());
        hold.arrived(1).await;
        assert_ne!(app.sign_in(&app.sandbox.issue_code("owner")).await.status, 200);
        hold.release();
        assert_eq!(first.await.unwrap().status, 200);
        only(&Watcher::of(&app), limit).await;
    }

    let app = TestApp::builder().set("idp.failure_budget = 1").start().await;
    app.sandbox.fail(Endpoint::Token, Fault::InvalidClient);
    for code in ["one", "two", "three"] {
        assert_ne!(app.sign_in(code).await.status, 200);
    }
    let watcher = Watcher::of(&app);
    only(&watcher, LimitName::FailureBudget).await;
    assert_eq!(watcher.scrape().await.value("companion_provider_failure_budget_remaining"), Some(0.0));
}

#[tokio::test]
async fn limits_of_bots_are_counted() {
    let app = TestApp::builder().set("feed.requests_per_second = 1").start().await;
    let bot = app.bot("one").await;
    let mut refused = 0;
    for _ in 0..4 {
        refused += u32::from(bot.call(Method::GET, "/bot/state").send().await.status == 429);
    }
    assert!(refused > 0);
    only(&Watcher::of(&app), LimitName::FeedRequests).await;

    let app = TestApp::builder().set("feed.refused_keys_per_minute = 1").start().await;
    for expected in [401, 429] {
        let call = app.anon().call(Method::GET, "/bot/state").header("Authorization", "Bearer nonsense");
        assert_eq!(call.send().await.status, expected);
    }
    only(&Watcher::of(&app), LimitName::RefusedKeys).await;
}

fn serve(folder: &Folder, configuration: &str) -> Command {
    let config = config_file(folder, &sandbox(Clock::system()), configuration);
    command(&["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()])
}

/// Where a process says its metrics are.
pub async fn announced(service: &Running) -> String {
    let mark = "metrics and health are on ";
    let is_end = |letter: char| letter.is_whitespace() || letter == '"';
    let told = || service.logged().split_once(mark).and_then(|(_, rest)| Some(rest.split_once(is_end)?.0.to_owned()));
    eventually("it says where its metrics are", async || told().is_some()).await;
    told().unwrap()
}

#[tokio::test]
async fn the_listener_is_where_it_was_told_to_be() {
    let folder = Folder::new();
    let service = Running::start(serve(&folder, "admin.listen = \"127.0.0.1:0\"")).await;
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = announced(&service).await;
    for path in ["metrics", "health", "livez", "readyz"] {
        assert_eq!(http.get(format!("{url}{path}")).send().await.unwrap().status(), 200, "{path}");
    }
}

#[tokio::test]
async fn a_port_that_was_set_and_is_taken_is_an_error_and_the_default_is_a_warning() {
    let folder = Folder::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let set = format!("admin.listen = \"{}\"", taken.local_addr().unwrap());
    let output = run(serve(&folder, &set)).await;
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{error}");
    assert!(error.contains("cannot listen on") && error.contains("set admin.listen"), "{error}");

    // Another program may already have the default port, which is fine, unless it leaves it to the service.
    let mut told = String::new();
    for _ in 0..20 {
        let ours = TcpListener::bind("127.0.0.1:9464");
        let service = Running::start(serve(&folder, "")).await;
        assert_eq!(service.client().get("/ready").await.status, 200);
        told = service.logged();
        if ours.is_ok() || !told.contains("metrics and health are on http://127.0.0.1:9464/") {
            break;
        }
    }
    assert!(told.contains("running without /metrics and /health, because 127.0.0.1:9464 is in use"), "{told}");

    for off in ["off", ""] {
        let service = Running::start(serve(&folder, &format!("admin.listen = \"{off}\""))).await;
        assert_eq!(service.client().get("/ready").await.status, 200);
        assert!(!service.logged().contains("metrics and health"), "{}", service.logged());
    }
}

#[tokio::test]
async fn several_devs_get_along_and_each_tells_where_its_metrics_are() {
    let folder = Folder::new();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let start = async |name: &str| {
        let data = folder.path().join(name);
        let arguments = ["dev", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()];
        Running::start(command(&arguments)).await
    };
    let (first, second) = (start("first").await, start("second").await);
    let metrics = |service: &Running| {
        let banner = std::fs::read_to_string(&service.output).unwrap();
        banner.lines().find_map(|line| line.trim().strip_prefix("metrics    ")).unwrap().to_owned()
    };
    let (first, second) = (metrics(&first), metrics(&second));
    assert_ne!(first, second);
    for url in [first, second] {
        let answer = tokio::time::timeout(Duration::from_mins(3), http.get(&url).send()).await.unwrap().unwrap();
        assert_eq!(answer.status(), 200, "{url}");
    }
}
