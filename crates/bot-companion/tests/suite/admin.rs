//! The admin listener: metrics and health, as requested by operators and Prometheus.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use provider::idp::Endpoint;
use reqwest::Method;
use sandbox::Fault;
use serde_json::Value;
use service::admin::{self, AdminServer};
use telemetry::metrics::list::{self, MetricKind};

use crate::harness::{Disk, START, TestApp, Wire, eventually, on_postgres, request, sqlite_only};
use crate::repository::read;

const SECOND: Duration = Duration::from_secs(1);

/// Someone who monitors a service.
pub struct Watcher<'a> {
    app: &'a TestApp,
    server: AdminServer,
    http: reqwest::Client,
}

/// The text of all metrics.
pub struct Scraped(String);

impl<'a> Watcher<'a> {
    pub fn of(app: &'a TestApp) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = admin::start(listener, Arc::clone(&app.app)).unwrap();
        Self { app, server, http: reqwest::Client::builder().no_proxy().build().unwrap() }
    }

    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("http://{}{path}", self.server.address))
    }

    /// The answer. Retries, because a machine that stalls may not send its request within two seconds.
    async fn asked(&self, path: &str) -> reqwest::Response {
        let mut answer = None;
        eventually("the listener answers", async || {
            answer = self.request(Method::GET, path).send().await.ok();
            answer.is_some()
        })
        .await;
        answer.unwrap()
    }

    /// The current metrics, not cached ones.
    pub async fn scrape(&self) -> Scraped {
        self.app.clock.advance(SECOND);
        self.scrape_again().await
    }

    /// The same, without advancing the clock.
    async fn scrape_again(&self) -> Scraped {
        let response = self.asked("/metrics").await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
        Scraped(response.text().await.unwrap())
    }

    pub async fn health(&self) -> (u16, Value) {
        self.app.clock.advance(SECOND);
        let response = self.asked("/health").await;
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// Waits until a series has this value.
    pub async fn sees(&self, series: &str, expected: f64) {
        let is_so = |scraped: &Scraped| scraped.value(series).is_some_and(|value| (value - expected).abs() < 1e-9);
        eventually(&format!("{series} {expected}"), async || is_so(&self.scrape().await)).await;
    }
}

impl Scraped {
    /// The value of a series, written as in the text.
    pub fn value(&self, series: &str) -> Option<f64> {
        let found = self.0.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        found.map(|value| value.parse().unwrap())
    }

    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.lines()
    }

    /// How many series a family has.
    pub fn series(&self, family: &str) -> usize {
        self.0.lines().filter(|line| line.starts_with(&format!("{family}{{"))).count()
    }
}

#[tokio::test]
async fn every_metric_is_there_from_the_start() {
    let app = TestApp::builder().secure().start().await;
    let watcher = Watcher::of(&app);
    let expiry = "companion_tls_certificate_expiry_timestamp_seconds";
    eventually("the certificate was checked", async || watcher.scrape().await.value(expiry).is_some()).await;
    let scraped = watcher.scrape().await;
    for family in list::FAMILIES {
        let is_expected = match *family {
            // No bot process has reported yet.
            list::BOT_REPORT_AGE => false,
            list::DISK_FREE | list::DISK_SIZE => !on_postgres(),
            _ => true,
        };
        let kind = match family.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let header = format!("# HELP {} {}\n# TYPE {} {kind}\n", family.name, family.help, family.name);
        assert_eq!(scraped.0.contains(&header), is_expected, "{}", family.name);
    }
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(scraped.value(&format!("companion_build_info{{version=\"{version}\"}}")), Some(1.0));
    assert_eq!(scraped.value("companion_store_up"), Some(1.0));
    for above_zero in ["process_resident_memory_bytes", "process_open_fds", "process_max_fds"] {
        assert!(scraped.value(above_zero).unwrap() > 0.0, "{above_zero}");
    }
    let expires = app.tls.as_ref().unwrap().expires().unwrap().seconds();
    assert_eq!(scraped.value(expiry).map(|at| format!("{at}")), Some(expires.to_string()));
}

#[tokio::test]
async fn requests_are_counted_by_route_and_status_on_both_paths() {
    let app = TestApp::start().await;
    let watcher = Watcher::of(&app);
    eventually("the status is cached", async || app.app.views.are_warm()).await;
    let client = app.anon();
    for path in ["/", "/", "/openapi.json", "/guilds/123", "/nowhere"] {
        client.get(path).await;
    }
    client.call(Method::HEAD, "/").send().await;
    client.post("/team").send().await;
    let counted = |method: &str, route: &str, status: u16| {
        format!("companion_http_requests_total{{method=\"{method}\",route=\"{route}\",status=\"{status}\"}}")
    };
    let scraped = watcher.scrape().await;
    for (method, route, status, times) in [
        ("GET", "/", 200, 2.0),
        ("HEAD", "/", 200, 1.0),
        ("GET", "/openapi.json", 200, 1.0),
        ("GET", "/guilds/{id}", 401, 1.0),
        ("GET", "unknown", 404, 1.0),
        ("POST", "/team", 405, 1.0),
    ] {
        assert_eq!(
            scraped.value(&counted(method, route, status)),
            Some(times),
            "{method} {route} {status}\n{}",
            scraped.0
        );
    }
    let durations = "companion_http_request_duration_seconds_count{route=\"/\"}";
    assert_eq!(scraped.value(durations), Some(3.0));
    assert!(scraped.value("companion_cache_requests_total{cache=\"status\",outcome=\"hit\"}").unwrap() >= 3.0);
    // A request that the middleware refuses counts, too.
    let mut odd = Wire::open(app.address).await;
    odd.send("GET / HTTP/1.1\r\n\r\n").await;
    assert_eq!(odd.answer().await.unwrap().status, 400);
    watcher.sees(&counted("GET", "/", 400), 1.0).await;
}

#[tokio::test]
async fn a_client_that_leaves_is_counted_when_its_request_ends() {
    let app = TestApp::start().await;
    let watcher = Watcher::of(&app);
    let hold = app.sandbox.hold(Endpoint::Token);
    let mut leaving = Wire::open(app.address).await;
    let code = app.sandbox.issue_code("owner");
    leaving.send(request("POST", "/auth", &format!("Idp-Code: {code}\r\n"))).await;
    hold.arrived(1).await;
    drop(leaving);
    watcher.sees("companion_http_requests_total{method=\"POST\",route=\"/auth\",status=\"499\"}", 1.0).await;
    let signed_in = "companion_sign_ins_total{outcome=\"signed_in\"}";
    assert_eq!(watcher.scrape().await.value(signed_in), Some(0.0), "the exchange goes on");
    hold.release();
    watcher.sees(signed_in, 1.0).await;
}

#[tokio::test]
async fn hostile_paths_and_methods_make_no_new_series() {
    let app = TestApp::start().await;
    let watcher = Watcher::of(&app);
    let mut series = 0;
    for round in 0..60 {
        for (method, path) in [
            ("GET", format!("/nowhere/{round}")),
            ("GET", format!("/guilds/{round}")),
            ("GET", format!("/sessions/{round}\"}}%0a{{")),
            ("GET", format!("/bot/{round}")),
            (format!("BREW{round}").as_str(), "/".to_owned()),
        ] {
            let mut wire = Wire::open(app.address).await;
            wire.send(request(method, &path, "Connection: close\r\n")).await;
            wire.answer().await.unwrap();
        }
        if round == 0 {
            series = watcher.scrape().await.series("companion_http_requests_total");
        }
    }
    let scraped = watcher.scrape().await;
    assert_eq!(scraped.series("companion_http_requests_total"), series, "{}", scraped.0);
    let odd = "companion_http_requests_total{method=\"other\",route=\"/\",status=\"405\"}";
    assert_eq!(scraped.value(odd), Some(60.0));
}

#[tokio::test]
async fn sign_ins_provider_calls_and_sessions_are_counted() {
    let app = TestApp::start().await;
    let watcher = Watcher::of(&app);
    assert_eq!(watcher.scrape().await.value("companion_sessions"), Some(0.0));
    let owner = app.user("owner").await;
    owner.guilds().await;
    owner.guilds().await;
    app.sign_in("refused").await.refused(401, "idp_code_rejected");
    app.sandbox.fail(Endpoint::Guilds, Fault::Status { code: 500, body: String::new(), headers: vec![] });
    app.user("member").await;
    let scraped = watcher.scrape().await;
    for (series, times) in [
        ("companion_sign_ins_total{outcome=\"signed_in\"}", 2.0),
        ("companion_sign_ins_total{outcome=\"rejected\"}", 1.0),
        ("companion_provider_calls_total{call=\"token\",outcome=\"answered\"}", 3.0),
        ("companion_provider_calls_total{call=\"user\",outcome=\"answered\"}", 2.0),
        ("companion_provider_failure_budget_remaining", 1000.0),
        ("companion_provider_circuit_open", 0.0),
        ("companion_cache_entries{cache=\"guilds\"}", 1.0),
    ] {
        assert_eq!(scraped.value(series), Some(times), "{series}");
    }
    assert!(scraped.value("companion_cache_requests_total{cache=\"guilds\",outcome=\"hit\"}").unwrap() >= 1.0);
    assert!(scraped.value("companion_cache_requests_total{cache=\"sessions\",outcome=\"miss\"}").unwrap() >= 1.0);
    assert!(scraped.value("companion_store_operations_total{kind=\"write\",outcome=\"done\"}").unwrap() >= 2.0);
    watcher.sees("companion_provider_calls_total{call=\"guilds\",outcome=\"failed\"}", 1.0).await;
    // Whole tables are counted once per minute.
    assert_eq!(scraped.value("companion_sessions"), Some(0.0));
    app.clock.advance(Duration::from_mins(1));
    watcher.sees("companion_sessions", 2.0).await;
    // Five failures in a row open the circuit, which health reports without failing.
    for _ in 0..5 {
        app.clock.advance(16 * SECOND);
        app.anon().with_token(app.user("member").await.token()).get("/guilds").await;
    }
    watcher.sees("companion_provider_circuit_open", 1.0).await;
    let (status, health) = watcher.health().await;
    assert_eq!((status, &health["status"], &health["provider"]["status"]), (200, &"ok".into(), &"failing".into()));
    assert_eq!(health["provider"]["circuits_open"], serde_json::json!(["guilds"]));
}

#[tokio::test]
async fn grants_under_a_key_that_is_gone_are_counted() {
    let app = TestApp::start().await;
    app.user("owner").await;
    Watcher::of(&app).sees("companion_grants_unreadable", 0.0).await;
    let other = format!("[secrets]\nkeys = [\"other:{}=\"]", "A".repeat(43));
    let app = app.restarted(&[&other]).await;
    Watcher::of(&app).sees("companion_grants_unreadable", 1.0).await;
}

#[tokio::test]
async fn shards_have_their_ages_and_above_a_thousand_one_for_all() {
    let app = TestApp::start().await;
    let watcher = Watcher::of(&app);
    assert_eq!(watcher.health().await.1["bot"]["status"], "unknown");
    let bot = app.bot("one").await;
    assert_eq!(bot.beats(START.seconds(), 3).await.status, 200);
    let shards = async || watcher.scrape_again().await.value("companion_feed_shards");
    eventually("the shards are known", async || shards().await == Some(3.0)).await;
    app.clock.advance(40 * SECOND);
    let scraped = watcher.scrape_again().await;
    for shard in 0..3 {
        let series = format!("companion_feed_age_seconds{{shard=\"{shard}\"}}");
        assert_eq!(scraped.value(&series), Some(40.0), "{series}");
    }
    assert_eq!(
        scraped.value("companion_bot_report_age_seconds"),
        scraped.value("companion_feed_age_seconds{shard=\"0\"}")
    );
    assert_eq!(watcher.health().await.1["bot"]["status"], "ok");
    app.clock.advance(60 * SECOND);
    let (status, health) = watcher.health().await;
    assert_eq!((status, &health["bot"]["status"]), (200, &"silent".into()), "{health}");
    assert_eq!(bot.beats(START.seconds(), 1_001).await.status, 200);
    eventually("all shards are known", async || shards().await == Some(1_001.0)).await;
    let scraped = watcher.scrape_again().await;
    assert_eq!(scraped.series("companion_feed_age_seconds"), 1);
    assert_eq!(scraped.value("companion_feed_age_seconds{shard=\"all\"}"), Some(0.0));
}

#[tokio::test]
async fn live_streams_and_connections_are_counted_while_they_are_open() {
    let app = TestApp::start().await;
    let watcher = Watcher::of(&app);
    let owner = app.user("owner").await;
    let public = app.anon().call(Method::GET, "/live").open().await;
    let private = owner.call(Method::GET, "/me/live").open().await;
    watcher.sees("companion_live_streams{kind=\"public\"}", 1.0).await;
    watcher.sees("companion_live_streams{kind=\"user\"}", 1.0).await;
    watcher.sees("companion_connections", 2.0).await;
    assert!(watcher.scrape().await.value("companion_connections_total").unwrap() >= 3.0);
    drop((public, private));
    watcher.sees("companion_live_streams{kind=\"public\"}", 0.0).await;
    watcher.sees("companion_live_streams{kind=\"user\"}", 0.0).await;
    watcher.sees("companion_connections", 0.0).await;
}

#[tokio::test]
async fn a_store_that_fails_is_told_and_so_is_its_recovery() {
    let app = TestApp::start().await;
    let disk = Disk::under(&app).await;
    let watcher = Watcher::of(&app);
    let (status, health) = watcher.health().await;
    assert_eq!((status, &health["status"]), (200, &"ok".into()), "{health}");
    assert_eq!(health["store"], serde_json::json!({"read": "ok", "write": "ok", "error": null, "problem": null}));
    let lost = disk.fails().await;
    eventually("the health is bad", async || watcher.health().await.0 == 503).await;
    let (status, health) = watcher.health().await;
    assert_eq!((status, &health["status"], &health["store"]["write"]), (503, &"failing".into(), &"failed".into()));
    assert!(health["store"]["error"].as_str().is_some_and(|why| why.contains("store")), "{health}");
    watcher.sees("companion_store_up", 0.0).await;
    if on_postgres() {
        watcher.sees("companion_store_circuit_open", 1.0).await;
    }
    assert_eq!(watcher.request(Method::GET, "/readyz").send().await.unwrap().status(), 200, "replicas share a store");
    disk.recovers(lost).await;
    watcher.sees("companion_store_up", 1.0).await;
    assert_eq!(watcher.health().await.0, 200);
}

#[tokio::test]
async fn many_who_ask_at_once_share_one_probe() {
    let app = TestApp::start().await;
    let watcher = Watcher::of(&app);
    // Each probe writes the current time, or a later one if that time is already stored.
    let last_probe_was = async |at: u64| app.folder.count(&format!("probe WHERE at = {at}")).await == 1;
    for _ in 0..2 {
        assert_eq!(watcher.health().await.0, 200);
        let now = app.clock.now().millis();
        assert!(last_probe_was(now).await);
        for _ in 0..20 {
            assert_eq!(watcher.request(Method::GET, "/health").send().await.unwrap().status(), 200);
        }
        watcher.scrape_again().await;
        assert!(last_probe_was(now).await, "the clock has not moved");
    }
}

#[tokio::test]
async fn only_its_own_names_are_answered_and_no_page_may_read_it() {
    let app = TestApp::start().await;
    let watcher = Watcher::of(&app);
    for (host, status) in
        [("localhost", 200), ("127.0.0.1:9464", 200), ("[::1]", 200), ("rebound.example", 403), ("192.0.2.1", 403)]
    {
        for path in ["/metrics", "/health", "/livez", "/readyz"] {
            let request = watcher.request(Method::GET, path).header("Host", host).header("Origin", "http://localhost");
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), status, "{host} {path}");
            assert!(!response.headers().keys().any(|name| name.as_str().starts_with("access-control")), "{path}");
            assert_eq!(
                (&response.headers()["cache-control"], &response.headers()["x-content-type-options"]),
                (&"no-store".parse().unwrap(), &"nosniff".parse().unwrap())
            );
        }
    }
    for (method, path, status) in [
        (Method::POST, "/metrics", 405),
        (Method::OPTIONS, "/health", 405),
        (Method::HEAD, "/livez", 200),
        (Method::GET, "/", 404),
        (Method::GET, "/metrics/", 404),
    ] {
        assert_eq!(watcher.request(method.clone(), path).send().await.unwrap().status(), status, "{method} {path}");
    }
    let mut long = Wire::open(watcher.server.address).await;
    long.send(request("GET", &format!("/{}", "x".repeat(20_000)), "")).await;
    let refused = long.answer().await.map(|answer| answer.status);
    assert!(matches!(refused, Some(414 | 431) | None), "{refused:?}");
    assert_eq!(watcher.health().await.0, 200, "and nobody else notices");
}

#[tokio::test]
async fn connections_that_say_nothing_shut_nobody_out_of_the_admin_listener() {
    let app = TestApp::start().await;
    let watcher = Watcher::of(&app);
    // Several times as many as there can be at once; the rest wait to be accepted.
    let mut silent = Vec::new();
    for _ in 0..150 {
        silent.push(Wire::open(watcher.server.address).await);
    }
    let mut answered = 0;
    for path in ["/livez", "/metrics", "/readyz", "/health"].into_iter().cycle().take(13) {
        // As patient as a real probe or scrape.
        let asked = watcher.request(Method::GET, path).timeout(5 * SECOND).send().await;
        answered += u32::from(asked.is_ok_and(|response| response.status() == 200));
    }
    assert_eq!(answered, 13);
    assert_eq!(silent.swap_remove(0).rest().await, "", "the oldest had to go");
}

#[tokio::test]
async fn a_probe_that_is_being_answered_keeps_its_place() {
    sqlite_only!("there one lock holds up the probe's write");
    let app = TestApp::start().await;
    let watcher = Watcher::of(&app);
    let held = app.folder.keep_out().await;
    let mut waiting = Wire::open(watcher.server.address).await;
    waiting.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    // More than there can be at once, and each is silent.
    let mut silent = Vec::new();
    for _ in 0..64 {
        silent.push(Wire::open(watcher.server.address).await);
    }
    // Each of these took the place of a silent one, not of the one that waits.
    assert_eq!(watcher.request(Method::GET, "/livez").send().await.unwrap().status(), 200);
    drop(held);
    assert!(waiting.answer().await.is_some(), "it is answered");
}

#[tokio::test]
async fn it_answers_while_the_service_drains() {
    let mut app = TestApp::builder().set("limits.drain_timeout = \"10m\"").start().await;
    let hold = app.sandbox.hold(Endpoint::Token);
    let mut busy = Wire::open(app.address).await;
    let code = app.sandbox.issue_code("owner");
    busy.send(request("POST", "/auth", &format!("Idp-Code: {code}\r\n"))).await;
    hold.arrived(1).await;
    app.stop();
    let watcher = Watcher::of(&app);
    let ready = async || watcher.request(Method::GET, "/readyz").send().await.unwrap().status().as_u16();
    eventually("it is not ready any more", async || ready().await == 503).await;
    assert_eq!(watcher.request(Method::GET, "/livez").send().await.unwrap().status(), 200);
    assert_eq!(watcher.health().await.0, 200);
    assert_eq!(watcher.scrape().await.value("companion_connections"), Some(1.0));
    hold.release();
    assert_eq!(busy.answer().await.unwrap().status, 200);
}

#[test]
fn the_page_about_metrics_names_all_of_them_and_no_other() {
    let page = read("docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let mut named: Vec<&str> = rows.map(|(name, _)| name.split('{').next().unwrap()).collect();
    named.sort_unstable();
    let all: Vec<&str> = list::FAMILIES.iter().map(|family| family.name).collect();
    assert_eq!(named, all);
}
