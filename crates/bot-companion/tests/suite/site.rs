//! The pages that people see: the home page, badges, and what all pages have in common.

use http::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Client, Folder, START, TestApp};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' https://cdn.discordapp.com; connect-src \
                      'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

async fn page(client: &Client, path: &str) -> Answer {
    let answer = client.get(path).await;
    assert_eq!(answer.header("content-type"), "text/html; charset=utf-8", "{path}");
    answer
}

/// What is between the first of these two texts and the next of the second.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let rest = text.split_once(from).unwrap_or_else(|| panic!("no {from} in {text}")).1;
    rest.split_once(to).unwrap().0
}

#[tokio::test]
async fn the_home_page_shows_what_the_api_tells_anybody() {
    let app = TestApp::builder().set("[site]\nname = \"Lantern & <b>\"\ntagline = \"Keeps a light on.\"").start().await;
    let empty = page(&app.anon(), "/site/").await.text();
    assert!(empty.contains("The bot hasn't reported yet") && empty.contains("once the bot reports"), "{empty}");
    assert!(empty.contains("<title>Lantern &amp; &lt;b&gt;</title>") && empty.contains("Keeps a light on."));

    let bot = app.bot("lantern").await;
    assert_eq!(bot.beats(START.seconds(), 1).await.status, 200);
    let ann = json!({"type": "team", "members": [{"discord_id": "1", "name": "Ann <i>", "username": "ann", "role": "Lead",
        "color": "#FFFF00", "category": "direction", "position": 1, "avatar": "https://tracker.example/a.png"}]});
    assert_eq!(bot.events(1, &[ann]).await.status, 200);
    let shown = page(&app.anon(), "/site/").await.text();
    assert!(shown.contains("The bot is up") && shown.contains("class=\"shape up\""), "{shown}");
    assert!(shown.contains("Ann &lt;i&gt;") && shown.contains("c-ffff00") && !shown.contains("tracker.example"));
    let colours = app.anon().get("/site/roles.css").await;
    assert_eq!(colours.header("content-type"), "text/css; charset=utf-8");
    assert!(
        colours.text().starts_with(".c-ffff00{--role-light:#") && colours.text().ends_with("--role-dark:#ffff00}\n")
    );

    app.clock.advance(std::time::Duration::from_secs(100));
    let down = page(&app.anon(), "/site/").await.text();
    assert!(down.contains("The bot is down") && down.contains("Last seen 1 minute ago") && down.contains("shape down"));
}

#[tokio::test]
async fn a_page_is_safe_to_show_and_small_and_known_by_its_tag() {
    let app = TestApp::start().await;
    for path in ["/site/", "/site/status", "/site/dashboard", "/docs", "/site/nowhere", "/docs/nowhere"] {
        let answer = page(&app.anon(), path).await;
        assert_eq!(answer.status, if path.ends_with("nowhere") { 404 } else { 200 }, "{path}");
        assert_eq!(answer.header("content-security-policy"), POLICY, "{path}");
        assert_eq!(answer.header("x-frame-options"), "DENY");
        assert_eq!(answer.header("referrer-policy"), "no-referrer");
        assert!(!answer.has("access-control-allow-origin"), "no page elsewhere reads it");
        let text = answer.text();
        assert!(text.starts_with("<!DOCTYPE html><html lang=\"en\""), "{text}");
        for inline in [" style=", "<style", " onclick=", "javascript:"] {
            assert!(!text.contains(inline), "{path}: {inline}");
        }
        if answer.status == 200 {
            assert_eq!(answer.header("cache-control"), "no-cache");
            let again = app.anon().call(Method::GET, path).header("If-None-Match", answer.header("etag")).send().await;
            assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
            assert_eq!(again.header("content-security-policy"), POLICY);
        }
    }
    let text = page(&app.anon(), "/site/").await.text();
    let style = between(&text, "rel=\"stylesheet\" href=\"", "\"");
    let sheet = app.anon().get(style).await;
    assert_eq!((sheet.status, sheet.header("content-type")), (200, "text/css; charset=utf-8"));
    assert_eq!(sheet.header("cache-control"), "public, max-age=31536000, immutable");
    let gone = page(&app.anon(), "/site/assets/style.0000000000000000.css").await;
    assert_eq!(gone.status, 404);
}

#[tokio::test]
async fn a_page_speaks_the_visitors_language() {
    let app = TestApp::start().await;
    let ask = async |accepted: &'static str| {
        let answer = app.anon().call(Method::GET, "/site/").header("Accept-Language", accepted).send().await;
        assert_eq!(answer.header("vary"), "accept-encoding, accept-language, cookie");
        answer.text()
    };
    let (german, english) = (ask("de-AT,de;q=0.9").await, ask("fr").await);
    assert!(
        german.contains("<html lang=\"de\"") && german.contains("Der Bot hat sich noch nicht gemeldet"),
        "{german}"
    );
    assert!(english.contains("<html lang=\"en\"") && english.contains("The bot hasn't reported yet"));
}

#[tokio::test]
async fn the_site_can_be_switched_off_and_stands_below_the_base_path() {
    let off = TestApp::builder().set("[site]\nenabled = false").start().await;
    for path in ["/site", "/site/", "/site/status", "/docs", "/badge/status.svg"] {
        off.anon().get(path).await.refused(404, "not_found");
    }
    let app = TestApp::builder().set("[http]\nbase_path = \"/api\"").start().await;
    let moved = app.anon().get("/api/site").await;
    assert_eq!((moved.status, moved.header("location")), (308, "/api/site/"));
    let text = page(&app.anon(), "/api/site/").await.text();
    for link in text.split("href=\"/").skip(1).chain(text.split("src=\"/").skip(1)) {
        assert!(link.starts_with("api/"), "{link}");
    }
    assert_eq!(app.anon().get(between(&text, "rel=\"stylesheet\" href=\"", "\"")).await.status, 200);
    app.anon().get("/site/").await.refused(404, "not_found");
}

#[tokio::test]
async fn errors_on_pages_are_pages() {
    let app = TestApp::builder().set("[limits]\nrequests_per_second = 1\nrequests_burst = 3").start().await;
    let client = app.anon();
    for _ in 0..3 {
        assert_eq!(client.get("/site/").await.status, 200);
    }
    let refused = page(&client, "/site/").await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("retry-after"), "1");
    let text = refused.text();
    assert!(text.contains("too many requests.") && text.contains("Try again in 1 second."), "{text}");
    // The retry leads to the same page.
    assert!(text.contains("<a class=\"button primary\" href=\"\">Try again</a>"), "{text}");
    assert!(refused.text().contains(refused.header("x-request-id")));
    client.get("/team").await.refused(429, "rate_limited");
    let wrong = TestApp::start().await;
    let method = wrong.anon().call(Method::POST, "/site/").send().await;
    assert_eq!((method.status, method.header("content-type")), (405, "text/html; charset=utf-8"));
}

#[tokio::test]
async fn badges_are_pictures_and_json_for_any_site() {
    let app = TestApp::start().await;
    let svg = app.anon().get("/badge/status.svg").await;
    assert_eq!((svg.header("content-type"), svg.header("access-control-allow-origin")), ("image/svg+xml", "*"));
    assert!(svg.text().contains("bot: unknown") && !svg.has("x-frame-options"));
    assert_eq!(svg.header("cache-control"), "public, max-age=60");
    let bot = app.bot("lantern").await;
    assert_eq!(bot.beats(START.seconds(), 2).await.status, 200);
    let json = |answer: Answer| serde_json::from_slice::<Value>(&answer.body).unwrap();
    let shards = json(app.anon().get("/badge/shards.json").await);
    assert_eq!(
        shards,
        json!({"schemaVersion": 1, "label": "shards", "message": "2/2", "color": "#23783f", "isError": false})
    );
    assert_eq!(json(app.anon().get("/badge/guilds.json").await)["message"], "0");
    app.clock.advance(std::time::Duration::from_secs(100));
    assert_eq!(json(app.anon().get("/badge/status.json").await)["message"], "down");
    for path in ["/badge/status", "/badge/status.png", "/badge/other.svg", "/badge/"] {
        app.anon().get(path).await.refused(404, "not_found");
    }
}

#[tokio::test]
async fn the_bots_picture_is_the_one_that_the_operator_gives() {
    let folder = Folder::new();
    let (file, picture) = (folder.path().join("icon"), b"\x89PNG\r\n\x1a\nand the rest of it");
    std::fs::write(&file, picture).unwrap();
    let app = TestApp::builder().set(&format!("[site]\nicon = {:?}", file.to_str().unwrap())).start().await;
    assert!(page(&app.anon(), "/site/").await.text().contains("src=\"/site/icon\""));
    let icon = app.anon().get("/site/icon").await;
    assert_eq!((icon.status, icon.header("content-type"), &icon.body[..]), (200, "image/png", &picture[..]));
    let again = app.anon().call(Method::GET, "/site/icon").header("If-None-Match", icon.header("etag")).send().await;
    assert_eq!(again.status, 304);

    let without = TestApp::start().await;
    assert!(!page(&without.anon(), "/site/").await.text().contains("/site/icon\""));
    assert_eq!(page(&without.anon(), "/site/icon").await.status, 404);
}
