//! The sandbox, as seen by a browser, a service and an attacker.

use std::time::Duration;

use domain::Time;
use http::StatusCode;
use reqwest::{Client, Response, Url, redirect};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::*;

const REDIRECT: &str = "https://dash.example/callback?tab=1";
const QUOTED_REDIRECT: &str = "https://dash.example/?q=\"><script>";

struct World {
    sandbox: Arc<Sandbox>,
    client: Client,
    clock: Clock,
}

fn world() -> World {
    let clock = Clock::manual(Time::from_seconds(1_700_000_000));
    let options = SandboxOptions {
        client_id: "417".to_owned(),
        client_secret: "s3cret".into(),
        redirect_uris: vec![REDIRECT.to_owned(), QUOTED_REDIRECT.to_owned()],
        people: people::demo(),
        service_url: Some("http://127.0.0.1:8080/".to_owned()),
        clock: clock.clone(),
        token_key: SecretString::from("token key"),
    };
    let sandbox = Sandbox::start(TcpListener::bind("127.0.0.1:0").unwrap(), options).unwrap();
    let client = Client::builder().no_proxy().redirect(redirect::Policy::none()).build().unwrap();
    World { sandbox, client, clock }
}

impl World {
    async fn page(&self, asked: &[(&str, &str)]) -> Response {
        let usual = [("client_id", "417"), ("response_type", "code"), ("scope", "identify guilds")];
        let missing = usual.into_iter().filter(|(name, _)| asked.iter().all(|(given, _)| given != name));
        let path = query("/oauth2/authorize", missing.chain(asked.iter().copied()));
        self.client.get(format!("http://{}{path}", self.sandbox.address)).send().await.unwrap()
    }

    async fn token(&self, form: &[(&str, &str)]) -> (u16, Value) {
        self.token_as("417", "s3cret", form).await
    }

    async fn token_as(&self, id: &str, secret: &str, form: &[(&str, &str)]) -> (u16, Value) {
        let url = format!("{}/oauth2/token", self.sandbox.base_url());
        let response = self.client.post(url).basic_auth(id, Some(secret)).form(form).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    async fn code(&self, code: &str) -> (u16, Value) {
        self.token(&[("grant_type", "authorization_code"), ("code", code)]).await
    }

    async fn get(&self, path: &str, access: &str) -> (u16, Value) {
        let url = format!("{}{path}", self.sandbox.base_url());
        let response = self.client.get(url).bearer_auth(access).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }
}

fn location(response: &Response) -> Url {
    assert_eq!(response.status(), StatusCode::FOUND);
    Url::parse(response.headers()["location"].to_str().unwrap()).unwrap()
}

fn parameters(url: &Url) -> Vec<(String, String)> {
    url.query_pairs().into_owned().collect()
}

/// The links of a page, unescaped as a browser would.
fn links(html: &str) -> Vec<String> {
    let hrefs = html.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    hrefs.map(|href| href.replace("&amp;", "&")).collect()
}

#[tokio::test]
async fn a_browser_chooses_a_person_and_comes_back_with_a_code() {
    let world = world();
    let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
    let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    let asked = [
        ("redirect_uri", REDIRECT),
        ("scope", "identify guilds"),
        ("state", "a b&c=d"),
        ("code_challenge", challenge),
        ("code_challenge_method", "S256"),
    ];
    let page = world.page(&asked).await;
    assert_eq!(page.status(), StatusCode::OK);
    assert!(page.headers()["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    let url = page.url().clone();
    let html = page.text().await.unwrap();
    let links = links(&html);
    assert_eq!(links.len(), 8, "seven people and a way out");

    let chosen = world.client.get(url.join(&links[1]).unwrap()).send().await.unwrap();
    let back = location(&chosen);
    assert_eq!(back.origin().ascii_serialization(), "https://dash.example");
    let parameters = parameters(&back);
    assert_eq!((value(&parameters, "tab"), value(&parameters, "state")), (Some("1"), Some("a b&c=d")));
    let code = value(&parameters, "code").unwrap();
    assert!(code.starts_with("sandboxcode_"));

    let form =
        [("grant_type", "authorization_code"), ("code", code), ("redirect_uri", REDIRECT), ("code_verifier", verifier)];
    let (status, grant) = world.token(&form).await;
    assert_eq!((status, &grant["scope"], &grant["expires_in"]), (200, &json!("identify guilds"), &json!(604_800)));
    let (_, user) = world.get("/users/@me", grant["access_token"].as_str().unwrap()).await;
    assert_eq!(user["username"], "inez_brandt");
    assert_eq!(world.token(&form).await.0, 400, "a code works once");

    let cancelled = world.client.get(url.join(&links[7]).unwrap()).send().await.unwrap();
    let parameters = self::parameters(&location(&cancelled));
    assert_eq!((value(&parameters, "error"), value(&parameters, "state")), (Some("access_denied"), Some("a b&c=d")));
}

#[tokio::test]
async fn without_a_redirect_address_the_page_explains_the_command_line() {
    let world = world();
    let root = world.client.get(format!("http://{}/", world.sandbox.address)).send().await.unwrap();
    let page = root.url().join(root.headers()["location"].to_str().unwrap()).unwrap();
    assert_eq!(page.as_str(), world.sandbox.authorize_url());
    let html = world.client.get(page.clone()).send().await.unwrap().text().await.unwrap();
    assert!(html.contains("curl -X POST &quot;http://127.0.0.1:8080/auth&quot; -H 'Idp-Code: moderator'"));
    assert!(html.contains("edge-limited") && html.contains("Tobias &quot;Toby&quot; Fenn"));
    assert!(!html.contains("src=") && !html.contains("<script"), "nothing is loaded, nothing runs");

    let html = world.client.get(page.join(&links(&html)[0]).unwrap()).send().await.unwrap().text().await.unwrap();
    let start = html.find("sandboxcode_").unwrap();
    let code: String = html[start..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    assert_eq!(world.code(&code).await.0, 200);
}

#[tokio::test]
async fn hostile_text_stays_text() {
    let world = world();
    world.sandbox.edit("owner", |owner| {
        owner.global_name = Some("<img src=x onerror=alert(1)>".to_owned());
        owner.about = "</style><script>".to_owned();
    });
    let evil = "\"><script>alert(1)</script>";
    let state = format!("{evil}\r\nSet-Cookie: a=b");
    let asked = [("redirect_uri", QUOTED_REDIRECT), ("state", &state), ("scope", evil), (evil, evil)];
    let page = world.page(&asked).await;
    let url = page.url().clone();
    let html = page.text().await.unwrap();
    assert!(!html.contains("<script") && !html.contains("<img"), "{html}");

    let chosen = world.client.get(url.join(&links(&html)[0]).unwrap()).send().await.unwrap();
    assert!(!chosen.headers().contains_key("set-cookie"));
    assert_eq!(value(&parameters(&location(&chosen)), "state"), Some(state.as_str()));
    let unknown = "https://dash.example/\"><script>'";
    for problem in [[("client_id", evil)], [("redirect_uri", evil)], [("redirect_uri", unknown)]] {
        let page = world.page(&problem).await;
        assert_eq!(page.status(), StatusCode::BAD_REQUEST);
        assert!(!page.text().await.unwrap().contains("<script"));
    }
}

#[tokio::test]
async fn what_cannot_be_granted_is_said_on_the_page_and_goes_nowhere() {
    let world = world();
    let long = format!("https://a.example/{}", "a".repeat(3000));
    for problem in [
        ("client_id", "1"),
        ("response_type", "token"),
        ("response_type", ""),
        ("scope", " "),
        ("redirect_uri", "https://dash.example/callback?tab=2"),
        ("redirect_uri", "https://dash.example/callback?tab=1&x"),
        ("redirect_uri", "https://DASH.example/callback?tab=1"),
        ("redirect_uri", "http://dash.example/callback?tab=1"),
        ("redirect_uri", "javascript:alert(1)"),
        ("redirect_uri", "data:text/html,x"),
        ("redirect_uri", "file:///etc/passwd"),
        ("redirect_uri", "/relative"),
        ("redirect_uri", "https://user:password@a.example/"),
        ("redirect_uri", "https://a.example/#fragment"),
        ("redirect_uri", long.as_str()),
    ] {
        let response = world.page(&[problem, ("choice", "owner")]).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{problem:?}");
        assert!(!response.headers().contains_key("location"));
    }
    let response = world.page(&[("code_challenge", "x"), ("code_challenge_method", "S512")]).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!(world.page(&[("choice", "stranger")]).await.status(), StatusCode::BAD_REQUEST);
    assert_eq!(world.page(&[("cancel", "1")]).await.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn an_unknown_redirect_address_is_shown_beside_the_known_ones() {
    let world = world();
    let sent = "http://localhost:3000/callback/";
    let page = world.page(&[("redirect_uri", sent)]).await;
    assert_eq!(page.status(), StatusCode::BAD_REQUEST);
    let html = page.text().await.unwrap();
    assert!(html.contains(&format!("dev --redirect-uri '{sent}'")) && html.contains("idp.redirect_uri"), "{html}");
    assert!(html.contains(REDIRECT), "{html}");
    world.sandbox.register_redirect_uri(sent);
    assert_eq!(world.page(&[("redirect_uri", sent)]).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn pictures_are_drawn_for_any_page() {
    let world = world();
    let get =
        async |path: &str| world.client.get(format!("http://{}{path}", world.sandbox.address)).send().await.unwrap();
    for path in ["/avatars/1/abc.png?size=64", "/icons/1/abc.webp?animated=true", "/embed/avatars/0.png"] {
        let picture = get(path).await;
        assert_eq!(picture.status(), StatusCode::OK, "{path}");
        let header = |name: &str| picture.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(
            (header("content-type").as_str(), header("access-control-allow-origin").as_str()),
            ("image/png", "*")
        );
        assert!(header("cache-control").starts_with("public") && header("x-content-type-options") == "nosniff");
        assert!(picture.bytes().await.unwrap().starts_with(b"\x89PNG"));
    }
    assert_eq!(get("/embed/avatars/9.png").await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_token_endpoint_checks_who_asks_and_for_what() {
    let world = world();
    let form = [("grant_type", "authorization_code"), ("code", "owner")];
    assert_eq!(world.token_as("417", "wrong", &form).await, (401, json!({ "error": "invalid_client" })));
    assert_eq!(world.token_as("418", "s3cret", &form).await.0, 401);
    let url = format!("{}/oauth2/token", world.sandbox.base_url());
    let secret = world.sandbox.state.options.client_secret.expose_secret();
    let in_body = [form[0], form[1], ("client_id", "417"), ("client_secret", secret)];
    assert_eq!(world.client.post(&url).form(&in_body).send().await.unwrap().status(), 200);
    assert_eq!(world.client.post(&url).form(&in_body[..3]).send().await.unwrap().status(), 401);

    assert_eq!(world.token(&[("grant_type", "password")]).await.1["error"], "unsupported_grant_type");
    assert_eq!(world.code("no-such-code").await.1["error"], "invalid_grant");
    let other = world.page(&[("redirect_uri", REDIRECT), ("choice", "owner")]).await;
    let parameters = parameters(&location(&other));
    let (status, body) = world.code(value(&parameters, "code").unwrap()).await;
    assert_eq!((status, &body["error_description"]), (400, &json!("Invalid \"redirect_uri\" in request.")));
    let expired = world.sandbox.issue_code("owner");
    world.clock.advance(Duration::from_secs(100));
    assert_eq!(world.code(&expired).await.0, 400);
}

#[tokio::test]
async fn special_codes_do_what_the_page_says() {
    let world = world();
    for _ in 0..3 {
        assert_eq!(world.code("owner").await.0, 200, "a name works any number of times");
    }
    assert_eq!(world.code("refused").await.1["error"], "invalid_grant");
    assert_eq!(world.code("down").await.0, 503);
    let (status, body) = world.code("rate-limited").await;
    assert_eq!((status, &body["retry_after"], &body["global"]), (429, &json!(2.0), &json!(false)));
    let (_, grant) = world.code("no-scope").await;
    assert_eq!(grant["scope"], "identify");
    let access = grant["access_token"].as_str().unwrap();
    assert_eq!(world.get("/users/@me", access).await.0, 200);
    assert_eq!(
        world.get("/users/@me/guilds", access).await,
        (401, json!({ "message": "401: Unauthorized", "code": 0 }))
    );
}

#[tokio::test]
async fn people_change_while_it_runs() {
    let world = world();
    let (_, grant) = world.code("newcomer").await;
    let access = grant["access_token"].as_str().unwrap();
    assert_eq!(world.get("/users/@me/guilds", access).await, (200, json!([])));
    let guild = world.sandbox.people()[0].guilds[0].clone();
    assert!(world.sandbox.edit("newcomer", |newcomer| newcomer.guilds.push(guild)));
    assert!(!world.sandbox.edit("stranger", |_| ()));
    let (_, guilds) = world.get("/users/@me/guilds", access).await;
    assert_eq!(
        (&guilds[0]["id"], &guilds[0]["permissions"]),
        (&json!("871203344918732833"), &json!("2251799813685247"))
    );

    world.sandbox.expire_access("newcomer");
    assert_eq!(world.get("/users/@me", access).await.0, 401);
    let refresh = [("grant_type", "refresh_token"), ("refresh_token", grant["refresh_token"].as_str().unwrap())];
    let (status, next) = world.token(&refresh).await;
    assert_eq!(status, 200);
    world.sandbox.revoke_all("newcomer");
    assert_eq!(world.get("/users/@me", next["access_token"].as_str().unwrap()).await.0, 401);
}

#[tokio::test]
async fn holds_gather_calls_and_faults_heal() {
    let world = Arc::new(world());
    let hold = world.sandbox.hold(Endpoint::User);
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let world = Arc::clone(&world);
            tokio::spawn(async move { world.get("/users/@me", "nobody").await.0 })
        })
        .collect();
    hold.arrived(3).await;
    assert!(calls.iter().all(|call| !call.is_finished()));
    world.sandbox.fail_times(Endpoint::User, Fault::Status { code: 418, body: "{}".to_owned(), headers: vec![] }, 2);
    drop(hold);
    let mut statuses = Vec::new();
    for call in calls {
        statuses.push(call.await.unwrap());
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [401, 418, 418]);
    assert_eq!(world.sandbox.calls(Endpoint::User), 3);

    world.sandbox.fail(Endpoint::User, Fault::InvalidClient);
    assert_eq!(world.get("/users/@me", "nobody").await.1, json!({ "error": "invalid_client" }));
    world.sandbox.heal(Endpoint::User);
    assert_eq!(world.get("/users/@me", "nobody").await.1["code"], 0);
}

#[tokio::test]
async fn odd_requests_get_answers_and_a_stopped_sandbox_none() {
    let world = world();
    assert_eq!(world.get("/users/@everybody", "x").await.0, 404);
    let token = format!("{}/oauth2/token", world.sandbox.base_url());
    assert_eq!(world.client.get(&token).send().await.unwrap().status(), 405);
    let large = world.client.post(&token).body(vec![b'a'; 65 * 1024]).send().await.unwrap();
    assert_eq!(large.status(), 413);

    let World { sandbox, client, .. } = world;
    let stop = sandbox.stop.token().clone();
    drop(sandbox);
    assert!(stop.is_cancelled());
    assert!(client.get(&token).send().await.is_err());
}
