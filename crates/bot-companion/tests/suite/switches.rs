//! `dev` and its switches, as used by a dashboard's developer: with curl, through the page, and seen at the service's routes.

use std::sync::Arc;

use domain::token::{self, TokenKind};
use reqwest::Method;
use runtime::clock::Clock;
use runtime::random::secret_bytes;
use secrecy::ExposeSecret as _;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::harness::binary::{Running, command};
use crate::harness::{Answer, Client, Folder, eventually, on_postgres};

/// A running `dev`.
pub struct Dev {
    pub service: Running,
    pub client: Client,
    /// The sandbox.
    pub sandbox: Client,
    pub sandbox_url: String,
    folder: Arc<Folder>,
}

impl Dev {
    /// With these arguments, on a machine that may be slow.
    pub async fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[("IDP_LIST_TIMEOUT", "2m"), ("IDP_SIGN_IN_TIMEOUT", "2m")]).await
    }

    async fn start_with(arguments: &[&str], configuration: &[(&str, &str)]) -> Self {
        Self::start_in(Arc::new(Folder::new()), arguments, configuration).await
    }

    async fn start_in(folder: Arc<Folder>, arguments: &[&str], configuration: &[(&str, &str)]) -> Self {
        let data = folder.path().join("dev");
        let mut dev =
            command(&[&["dev", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()], arguments].concat());
        if on_postgres() {
            dev.args(["--store", &folder.server_url()]).env("COMPANION_STORE_CONNECTIONS", "4");
        }
        dev.env("COMPANION_LIMITS_REQUEST_TIMEOUT", "5m").env("COMPANION_GUILDS_REFRESH_WAIT", "1m");
        for (name, value) in configuration {
            dev.env(format!("COMPANION_{name}"), value);
        }
        let service = Running::start(dev).await;
        let banner = std::fs::read_to_string(&service.output).unwrap();
        let line = banner.lines().find_map(|line| line.trim().strip_prefix("failures   ")).unwrap();
        let sandbox_url = line.strip_suffix("/control").unwrap().to_owned();
        let (client, sandbox) = (service.client(), Client::new(sandbox_url.clone()));
        Self { service, client, sandbox, sandbox_url, folder }
    }

    pub async fn sign_in(&self, person: &str) -> Answer {
        self.client.post("/auth").header("Idp-Code", person).send().await
    }

    pub async fn user(&self, person: &str) -> Client {
        let answer = self.sign_in(person).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        self.client.with_token(answer.data()["token"].as_str().unwrap())
    }

    pub async fn control(&self, method: Method, path: &str) -> Answer {
        self.sandbox.call(method, &format!("/control{path}")).send().await
    }

    async fn on(&self, switch: &str) {
        let answer = self.control(Method::PUT, &format!("/{switch}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(json(&answer)["on"], true, "{}", answer.text());
    }

    async fn off(&self, switch: &str) {
        let answer = self.control(Method::DELETE, &format!("/{switch}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(json(&answer)["on"], false, "{}", answer.text());
    }
}

pub fn json(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap()
}

fn age(answer: &Answer) -> u64 {
    answer.headers["age"].to_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn guild_lists_fail_for_everybody_or_for_one_and_heal_at_once() {
    let dev = Dev::start(&[]).await;
    let (owner, manager) = (dev.user("owner").await, dev.user("manager").await);
    assert_eq!((owner.guilds().await.len(), manager.guilds().await.len()), (3, 3));

    dev.on("guilds-fail/owner").await;
    // More often than the circuit breaker lets through.
    for _ in 0..3 {
        owner.get("/guilds").await.refused(502, "idp_unavailable");
    }
    assert_eq!(manager.guilds().await.len(), 3);
    let late = dev.user("owner").await;
    late.get("/guilds").await.refused(502, "idp_unavailable");
    dev.off("guilds-fail/owner").await;
    assert_eq!((owner.guilds().await.len(), late.guilds().await.len()), (3, 3));

    dev.on("guilds-fail").await;
    for user in [&owner, &manager, &dev.user("member").await, &dev.user("administrator").await, &late] {
        user.get("/guilds").await.refused(502, "idp_unavailable");
    }
    dev.off("guilds-fail").await;
    let healed = owner.get("/guilds").await;
    assert_eq!((healed.status, age(&healed) < 600), (200, true));
    assert_eq!(manager.guilds().await.len(), 3);
}

#[tokio::test]
async fn a_stale_list_is_served_with_its_age_until_it_heals() {
    let dev = Dev::start(&[]).await;
    let owner = dev.user("owner").await;
    dev.on("guilds-stale").await;
    for _ in 0..3 {
        let stale = owner.get("/guilds").await;
        assert_eq!((stale.status, stale.data().as_array().unwrap().len()), (200, 3));
        assert!(age(&stale) >= 900, "{}", age(&stale));
    }
    // Someone who signs in now gets one list, and no other.
    let member = dev.user("member").await;
    assert_eq!(member.guilds().await.len(), 3);
    let call = member.call(Method::GET, "/guilds").header("Cache-Control", "no-cache");
    assert_eq!(call.send().await.status, 200, "it cannot be refreshed");
    dev.off("guilds-stale").await;
    assert!(age(&owner.get("/guilds").await) < 600);
}

#[tokio::test]
async fn a_list_that_never_comes_is_given_up_and_healed_while_somebody_waits() {
    let dev = Dev::start_with(&[], &[("IDP_LIST_TIMEOUT", "2s")]).await;
    let owner = dev.user("owner").await;
    dev.on("guilds-hang").await;
    owner.get("/guilds").await.refused(504, "idp_timeout");
    dev.off("guilds-hang").await;
    assert_eq!(owner.guilds().await.len(), 3);

    let dev = Dev::start(&[]).await;
    let owner = dev.user("owner").await;
    dev.on("guilds-hang/owner").await;
    let waiting = tokio::spawn({
        let owner = owner.clone();
        async move { owner.get("/guilds").await }
    });
    // It only ends because the switch is turned.
    dev.off("guilds-hang/owner").await;
    assert_eq!(waiting.await.unwrap().status, 200);
    dev.on("guilds-slow").await;
    assert_eq!(owner.get("/guilds").await.status, 200);
}

#[tokio::test]
async fn the_provider_goes_down_limits_and_refuses_and_all_is_well_afterwards() {
    let dev = Dev::start(&[]).await;
    let owner = dev.user("owner").await;
    let again = async || dev.sign_in("member").await;
    for (switch, status, error) in
        [("provider-down", 502, "idp_unavailable"), ("provider-limits", 503, "idp_rate_limited")]
    {
        dev.on(switch).await;
        for _ in 0..7 {
            again().await.refused(status, error);
        }
        let refused = owner.get("/guilds").await.refused(status, error);
        assert!(status == 502 || refused.retry_after() > 0);
        dev.off(switch).await;
        assert_eq!((again().await.status, owner.get("/guilds").await.status), (200, 200), "{switch}");
    }
    dev.on("provider-refuses").await;
    again().await.refused(502, "idp_misconfigured");
    dev.off("provider-refuses").await;
    assert_eq!(again().await.status, 200);

    let dev = Dev::start_with(&[], &[("IDP_SIGN_IN_TIMEOUT", "2s"), ("IDP_LIST_TIMEOUT", "2s")]).await;
    dev.on("provider-hangs").await;
    dev.sign_in("member").await.refused(504, "idp_timeout");
    let off = dev.control(Method::DELETE, "").await;
    assert_eq!(off.status, 200);
    assert!(json(&off)["switches"].as_array().unwrap().iter().all(|switch| switch["on"] == false));
    assert_eq!(dev.sign_in("member").await.status, 200);
}

#[tokio::test]
async fn people_are_blocked_signed_out_and_take_their_consent_back() {
    let dev = Dev::start(&[]).await;
    let (owner, member) = (dev.user("owner").await, dev.user("member").await);
    dev.on("blocked/owner").await;
    owner.get("/guilds").await.refused(401, "token_invalid");
    dev.sign_in("owner").await.refused(403, "user_blocked");
    let listed = json(&dev.control(Method::GET, "").await);
    let blocked = listed["switches"].as_array().unwrap().iter().find(|switch| switch["name"] == "blocked").unwrap();
    assert_eq!((&blocked["on"], &blocked["people"][0]), (&Value::from(true), &Value::from("owner")));
    dev.off("blocked/owner").await;

    let owner = dev.user("owner").await;
    for act in ["end-sessions", "withdraw-consent"] {
        let owner = dev.user("owner").await;
        assert_eq!(dev.control(Method::POST, &format!("/{act}/owner")).await.status, 200);
        owner.get("/guilds").await.refused(401, "token_invalid");
        owner.get("/me").await.refused(401, "token_invalid");
        assert_eq!(dev.user("owner").await.guilds().await.len(), 3, "they can sign in again");
    }
    owner.get("/me").await.refused(401, "token_invalid");
    assert_eq!(member.get("/me").await.status, 200, "nobody else is touched");
}

#[tokio::test]
async fn the_bot_goes_offline_and_the_service_has_no_room() {
    let dev = Dev::start(&[]).await;
    let uptime = async || dev.client.get("/").await.data()["health"]["bot"]["uptime"].clone();
    assert_ne!(uptime().await["readable"], "offline");
    let epoch = uptime().await["epoch"].as_u64().unwrap();
    dev.on("bot-offline").await;
    assert_eq!((&uptime().await["readable"], &uptime().await["epoch"]), (&"offline".into(), &0.into()));
    assert_eq!(dev.client.get("/").await.data()["health"]["bot"]["shards"].as_object().unwrap().len(), 2);
    dev.off("bot-offline").await;
    assert_eq!(uptime().await["epoch"].as_u64(), Some(epoch), "it has run all the time");

    dev.on("overloaded").await;
    assert!(dev.sign_in("owner").await.refused(503, "overloaded").retry_after() > 0);
    dev.off("overloaded").await;
    let owner = dev.user("owner").await;

    dev.on("rate-limited").await;
    for call in [dev.client.get("/").await, owner.get("/guilds").await, dev.sign_in("owner").await] {
        assert!((1..=30).contains(&call.refused(429, "rate_limited").retry_after()));
    }
    dev.off("rate-limited").await;
    assert_eq!(owner.get("/guilds").await.status, 200);
}

#[tokio::test]
async fn limits_are_on_unless_there_are_to_be_none() {
    let dev = Dev::start(&[]).await;
    let mut refused = Vec::new();
    for _ in 0..11 {
        refused.push(dev.sign_in("nobody").await.status);
    }
    assert_eq!((refused[9], refused[10]), (401, 429));
    // The same few people all day.
    for _ in 0..30 {
        assert_eq!(dev.sign_in("owner").await.status, 429, "refused sign-ins are counted per address");
    }
    dev.off("rate-limited").await;
    for _ in 0..60 {
        assert_eq!(dev.sign_in("owner").await.status, 200);
    }

    let dev = Dev::start(&["--no-limits"]).await;
    for _ in 0..20 {
        assert_eq!(dev.sign_in("nobody").await.status, 401);
    }
    let answer = dev.control(Method::PUT, "/rate-limited").await;
    assert_eq!(answer.status, 409, "{}", answer.text());
}

#[tokio::test]
async fn switches_are_for_the_own_page_and_for_command_lines_only() {
    let dev = Dev::start(&[]).await;
    let form = "switch=bot-offline&to=on";
    let send = async |headers: &[(&str, &str)]| {
        let call = dev.sandbox.post("/control").header("Content-Type", "application/x-www-form-urlencoded").body(form);
        headers.iter().fold(call, |call, (name, value)| call.header(name, value)).send().await.status
    };
    for elsewhere in [
        [("Origin", "https://evil.example"), ("Sec-Fetch-Site", "cross-site")],
        [("Origin", "http://localhost:3000"), ("Sec-Fetch-Site", "same-site")],
        [("Origin", "http://localhost:3000"), ("Accept", "text/html")],
        [("Origin", "null"), ("Accept", "text/html")],
    ] {
        assert_eq!(send(&elsewhere).await, 403, "{elsewhere:?}");
        let put = dev.sandbox.call(Method::PUT, "/control/bot-offline").header(elsewhere[0].0, elsewhere[0].1);
        assert_eq!(put.header(elsewhere[1].0, elsewhere[1].1).send().await.status, 403);
    }
    assert_ne!(dev.client.get("/").await.data()["health"]["bot"]["uptime"]["readable"], "offline");
    let preflight = dev.sandbox.call(Method::OPTIONS, "/control/bot-offline").header("Origin", "http://localhost:3000");
    let preflight = preflight.header("Access-Control-Request-Method", "PUT").send().await;
    assert!(!preflight.has("access-control-allow-origin") && preflight.status >= 400);
    let got = dev.control(Method::GET, "/bot-offline").await;
    assert_eq!(got.status, 405, "a link switches nothing");
    for own in [("Origin", dev.sandbox_url.as_str()), ("Sec-Fetch-Site", "same-origin")] {
        assert_eq!(send(&[own]).await, 303);
    }
    assert_eq!(dev.client.get("/").await.data()["health"]["bot"]["uptime"]["readable"], "offline");
}

#[tokio::test]
async fn the_page_works_with_forms_alone() {
    let dev = Dev::start(&[]).await;
    let page = async || {
        let answer = dev.sandbox.call(Method::GET, "/control").header("Accept", "text/html,*/*;q=0.8").send().await;
        assert_eq!(answer.status, 200);
        assert!(answer.headers["content-security-policy"].to_str().unwrap().contains("form-action 'self'"));
        answer.text()
    };
    let html = page().await;
    assert!(!html.contains("<script") && !html.contains("src=") && html.contains("On now: <strong>nothing</strong>"));
    // Every switch that curl knows has a section with a form.
    let listed = json(&dev.control(Method::GET, "").await);
    let all = ["switches", "acts"].iter().flat_map(|kind| listed[kind].as_array().unwrap());
    let names: Vec<_> = all.map(|each| each["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names.len(), 14);
    for name in &names {
        let section =
            html.split(&format!("<section id=\"{name}\">")).nth(1).unwrap().split("</section>").next().unwrap();
        assert!(section.contains(&format!("<input type=\"hidden\" name=\"switch\" value=\"{name}\">")), "{section}");
        assert!(section.contains("<button name=\"to\"") && section.contains(&dev.sandbox_url), "{section}");
    }
    let submit = async |form: &str| {
        let call = dev.sandbox.post("/control").header("Content-Type", "application/x-www-form-urlencoded");
        call.header("Sec-Fetch-Site", "same-origin").body(form.to_owned()).send().await
    };
    let sent = submit("switch=guilds-fail&person=owner&to=on").await;
    assert_eq!((sent.status, sent.headers["location"].to_str().unwrap()), (303, "/control#guilds-fail"));
    let html = page().await;
    assert!(html.contains("On now: <strong>guilds-fail for owner</strong>") && html.contains("Turn off for owner"));
    dev.user("owner").await.get("/guilds").await.refused(502, "idp_unavailable");
    assert_eq!(submit("to=all-off").await.status, 303);
    assert!(page().await.contains("On now: <strong>nothing</strong>"));
    let wrong = submit("switch=%3Cscript%3E&to=on").await;
    assert!(wrong.status == 404 && wrong.text().contains("role=\"alert\"") && !wrong.text().contains("<script"));
    for (method, path, status) in [
        (Method::PUT, "/nothing", 404),
        (Method::PUT, "/guilds-fail/nobody", 404),
        (Method::PUT, "/blocked", 400),
        (Method::PUT, "/provider-down/owner", 400),
        (Method::POST, "/end-sessions", 400),
        (Method::PUT, "/end-sessions/owner", 405),
    ] {
        let answer = dev.control(method, path).await;
        assert_eq!(answer.status, status, "{path}");
        assert!(json(&answer)["error"].is_string());
    }
}

#[tokio::test]
async fn no_picture_is_missing_without_a_network() {
    let dev = Dev::start(&[]).await;
    let signed_in = dev.sign_in("owner").await;
    let owner = dev.client.with_token(signed_in.data()["token"].as_str().unwrap());
    let collector = dev.user("collector").await;
    let guilds = collector.guilds().await;
    assert_eq!(guilds.len(), 150, "as many as can be, without those that have no bot");
    let mut seen = vec![signed_in.text()];
    for path in ["/guilds", "/guilds/invitable", "/me", "/team", "/feedback"] {
        seen.push(owner.get(path).await.text());
        seen.push(collector.get(path).await.text());
    }
    let mut urls: Vec<String> = Vec::new();
    for text in &seen {
        for key in ["\"avatar\":\"", "\"icon\":\""] {
            urls.extend(text.split(key).skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()));
        }
    }
    urls.sort();
    urls.dedup();
    assert!(urls.len() > 150, "{}", urls.len());
    for url in urls {
        let path = url.strip_prefix(&dev.sandbox_url).unwrap_or_else(|| panic!("{url}"));
        let picture = dev.sandbox.get(path).await;
        assert!(picture.status == 200 && picture.body.starts_with(b"\x89PNG"), "{url}");
    }
}

#[tokio::test]
async fn a_redirect_address_is_checked_and_another_is_registered_on_the_command_line() {
    let dev = Dev::start(&["--redirect-uri", "http://localhost:4200/back"]).await;
    let authorize = async |redirect: &str, more: &str| {
        let encoded = redirect.replace(':', "%3A").replace('/', "%2F");
        let path = format!(
            "/oauth2/authorize?response_type=code&client_id=sandbox&scope=identify+guilds&redirect_uri={encoded}"
        );
        dev.sandbox.get(&(path + more)).await
    };
    let unknown = authorize("http://localhost:4200/back/", "&choice=owner").await;
    assert_eq!(unknown.status, 400);
    let said = unknown.text();
    assert!(
        said.contains("http://localhost:4200/back/</pre>") && said.contains("<code>http://localhost:4200/back</code>")
    );

    let code = async |redirect: &str| {
        let answer = authorize(redirect, "&choice=owner").await;
        assert_eq!(answer.status, 302, "{}", answer.text());
        let to = answer.headers["location"].to_str().unwrap().to_owned();
        to.split("code=").nth(1).unwrap().split('&').next().unwrap().to_owned()
    };
    let own = code("http://localhost:4200/back").await;
    let call = dev.client.post("/auth").header("Idp-Code", &own).header("Origin", "http://localhost:4200");
    let answer = call.send().await;
    assert_eq!(
        (answer.status, answer.headers["access-control-allow-origin"].as_bytes()),
        (200, &b"http://localhost:4200"[..])
    );
    // The page that requested the code isn't the one that sends it.
    let other = code("http://localhost:5173/callback").await;
    let call = dev.client.post("/auth").header("Idp-Code", &other).header("Origin", "http://localhost:4200");
    let refused = call.send().await.refused(502, "idp_misconfigured");
    assert!(refused.envelope()["message"].as_str().unwrap().contains("character for character"));
}

#[tokio::test]
async fn the_demo_bot_tells_its_uptime_and_is_gone_with_the_first_word_of_a_real_one() {
    let status = async |dev: &Dev| dev.client.get("/").await.data()["health"]["bot"].clone();
    let dev = Dev::start(&[]).await;
    let banner = std::fs::read_to_string(&dev.service.output).unwrap();
    let key = banner.lines().find_map(|line| line.trim().strip_prefix("bot key    ")).unwrap().to_owned();
    let started = status(&dev).await["uptime"]["epoch"].as_u64().unwrap();
    // The next start reports its own.
    let seconds = || Clock::system().now().seconds();
    let now = seconds();
    eventually("another second", async || seconds() > now).await;
    let Dev { mut service, folder, .. } = dev;
    service.kill();
    let dev = Dev::start_in(folder, &[], &[]).await;
    let bot = status(&dev).await;
    let again = bot["uptime"]["epoch"].as_u64().unwrap();
    assert!(again > started && again <= seconds(), "{started}, then {again}");
    assert_eq!(bot["shards"].as_object().unwrap().len(), 2);
    let started = again;
    let owner = dev.user("owner").await;
    // Neither someone without a valid key nor someone who only looks makes it go.
    let wrong = token::generate(TokenKind::BotKey, secret_bytes);
    let calls = [(Method::PUT, "/bot/heartbeat", wrong.expose_secret()), (Method::GET, "/bot/state", &key)];
    for (method, path, key) in calls {
        dev.client.call(method, path).header("Authorization", format!("Bearer {key}")).send().await;
        assert_eq!(owner.guilds().await.len(), 3, "{path}");
    }

    // One that started long before this service: a bot that was running while `dev` was restarted.
    let heartbeat = format!(
        r#"{{"instance": "mine", "started_at": {}, "memory": 5000000, "shard_count": 1, "shards": [{{"id": 0, "latency": 7}}]}}"#,
        started - 86_400
    );
    let call = dev.client.call(Method::PUT, "/bot/heartbeat").header("Authorization", format!("Bearer {key}"));
    assert_eq!(call.body(heartbeat).send().await.status, 200);
    let bot = status(&dev).await;
    assert_eq!(bot["shards"].as_object().unwrap().len(), 1, "{bot}");
    assert_eq!((&bot["shards"]["0"]["latency"], &bot["uptime"]["epoch"]), (&7.0.into(), &(started - 86_400).into()));
    assert_eq!(owner.guilds().await, Vec::<Value>::new());
    for path in ["/team", "/feedback"] {
        assert_eq!(dev.client.get(path).await.data(), Value::Array(vec![]), "{path}");
    }
    assert_eq!(dev.client.get("/stats").await.data()["guilds"], 0);
    let send = async |method: Method, path: &str, body: &str| {
        let call = dev.client.call(method, path).header("Authorization", format!("Bearer {key}"));
        call.header("Feed-Instance", "mine").header("Feed-Sequence", "1").body(body.to_owned()).send().await
    };
    let harbour = r#""id": "871203344918732833", "name": "Mine", "owner": "280114907635220483", "members": 2"#;
    // It has not sent its guilds since the demo bot was there, and is asked to.
    let event = send(Method::POST, "/bot/events", &format!(r#"{{"type": "guild", {harbour}}}"#)).await;
    event.refused(409, "resync_required");
    let snapshot = format!("{{{harbour}}}\n{{\"end\": 1}}\n");
    assert_eq!(send(Method::PUT, "/bot/shards/1/0/guilds", &snapshot).await.status, 200);
    assert_eq!(owner.guilds().await[0]["name"], "Mine");
    assert!(dev.service.logged().contains("a real bot is reporting, so the demo bot and its data are gone"));
    let refused = dev.control(Method::PUT, "/bot-offline").await;
    assert_eq!(refused.status, 409, "{}", refused.text());
}

#[tokio::test]
async fn a_switch_that_is_turned_twice_is_turned_once() {
    let dev = Dev::start(&[]).await;
    for _ in 0..2 {
        dev.on("overloaded").await;
        dev.on("guilds-slow/owner").await;
    }
    dev.off("overloaded").await;
    dev.off("guilds-slow/owner").await;
    assert_eq!(dev.user("owner").await.guilds().await.len(), 3);
}

#[tokio::test]
async fn a_switch_is_turned_though_nobody_waits_for_it() {
    let dev = Dev::start_with(&[], &[("IDP_LIST_TIMEOUT", "2s")]).await;
    // The next switch waits for lists that are being fetched, and this one is not coming.
    dev.on("guilds-hang/owner").await;
    let _owner = dev.user("owner").await;
    let address = dev.sandbox_url.strip_prefix("http://").unwrap();
    let mut wire = TcpStream::connect(address).await.unwrap();
    let request = format!("PUT /control/guilds-fail HTTP/1.1\r\nHost: {address}\r\n\r\n");
    wire.write_all(request.as_bytes()).await.unwrap();
    // A connection that is closed before its request was read has asked for nothing.
    eventually("it is being turned", async || dev.service.logged().contains("guilds-fail")).await;
    drop(wire);
    eventually("it is switched on", async || {
        let all = json(&dev.control(Method::GET, "").await);
        let switches = all["switches"].as_array().unwrap().clone();
        switches.iter().any(|switch| switch["name"] == "guilds-fail" && switch["on"] == true)
    })
    .await;
}
