//! The operator's own look: link previews, colours, a style sheet, hidden parts, a features page, languages.

use std::path::PathBuf;

use domain::history::update::{NewUpdate, UpdatePhase, UpdateSubject};
use http::Method;

use crate::harness::{Folder, TestApp};
use crate::site_status::{announce, page};

/// The header of a PNG of this size.
fn png(width: u32, height: u32) -> Vec<u8> {
    [&b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"[..], &width.to_be_bytes(), &height.to_be_bytes(), b"\x08\x02\0\0\0"].concat()
}

fn written(folder: &Folder, name: &str, content: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// The content of a `meta` element.
fn meta<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = page.split_once(&format!("=\"{name}\" content=\""))?;
    rest.split_once('"').map(|(content, _)| content)
}

#[tokio::test]
async fn the_api_at_the_root_names_the_site() {
    let app = TestApp::start().await;
    let expected = "</site/>; rel=\"alternate\"; type=\"text/html\"";
    // From the router, and then from the cache.
    for _ in 0..2 {
        let status = app.anon().call(Method::GET, "/").header("Accept", "text/html").send().await;
        assert_eq!((status.header("content-type"), status.header("link")), ("application/json", expected));
    }
    assert!(!app.anon().get("/team").await.has("link"));
    let below = TestApp::builder().set("[http]\nbase_path = \"/api\"").start().await;
    assert_eq!(below.anon().get("/api/").await.header("link"), expected.replace("/site/", "/api/site/"));
    let without = TestApp::builder().set("[site]\nenabled = false").start().await;
    assert!(!without.anon().get("/").await.has("link"));
    for path in ["/favicon.ico", "/robots.txt", "/site/preview"] {
        without.anon().get(path).await.refused(404, "not_found");
    }
}

#[tokio::test]
async fn a_preview_is_the_operators_picture_or_the_icon_and_never_an_svg() {
    let folder = Folder::new();
    let (preview, icon) = (written(&folder, "preview", &png(1200, 630)), written(&folder, "icon", &png(64, 64)));
    let site = "[site]\nurl = \"https://bot.example\"\nname = \"Lantern\"\n";
    let started = async |more: String| TestApp::builder().set(&format!("{site}{more}")).start().await;

    let app = started(format!("preview = {preview:?}\nicon = {icon:?}")).await;
    let page = app.anon().get("/site/status").await.text();
    assert_eq!(meta(&page, "og:image"), Some("https://bot.example/site/preview"));
    assert_eq!((meta(&page, "og:image:width"), meta(&page, "og:image:height")), (Some("1200"), Some("630")));
    assert_eq!((meta(&page, "og:site_name"), meta(&page, "og:type")), (Some("Lantern"), Some("website")));
    assert_eq!(meta(&page, "twitter:card"), Some("summary_large_image"));
    assert!(page.contains("<link rel=\"apple-touch-icon\" href=\"/site/icon\">"), "{page}");
    let sent = app.anon().get("/site/preview").await;
    assert_eq!((sent.header("content-type"), &sent.body[..]), ("image/png", &png(1200, 630)[..]));
    assert_eq!(app.anon().get("/favicon.ico").await.body, png(64, 64));

    let app = started(format!("icon = {icon:?}")).await;
    let page = app.anon().get("/site/").await.text();
    assert_eq!(meta(&page, "og:image"), Some("https://bot.example/site/icon"));
    assert_eq!((meta(&page, "og:image:width"), meta(&page, "twitter:card")), (None, Some("summary")));

    let app = started(String::new()).await;
    let page = app.anon().get("/site/").await.text();
    let image = meta(&page, "og:image").unwrap().strip_prefix("https://bot.example").unwrap().to_owned();
    for path in [&*image, "/favicon.ico"] {
        let picture = app.anon().get(path).await;
        assert_eq!((picture.status, picture.header("content-type")), (200, "image/png"), "{path}");
        assert!(picture.body.starts_with(b"\x89PNG"), "{path}");
    }
    assert_eq!(app.anon().get("/site/preview").await.status, 404);
    let robots = app.anon().get("/robots.txt").await;
    assert_eq!(robots.text(), "User-agent: *\nAllow: /site/\nAllow: /badge/\nAllow: /docs\nDisallow: /\n");

    let without_address = TestApp::start().await.anon().get("/site/").await.text();
    assert_eq!(meta(&without_address, "og:image"), None, "chat apps need an absolute address");
}

#[tokio::test]
async fn the_look_is_one_style_sheet_with_the_accent_and_the_operators_rules() {
    let folder = Folder::new();
    let style = written(&folder, "style.css", b".hero { letter-spacing: 1px; }");
    let app = TestApp::builder().set(&format!("[site]\naccent = \"#FFD400\"\nstyle = {style:?}")).start().await;
    let page = app.anon().get("/site/").await.text();
    assert_eq!(meta(&page, "theme-color"), Some("#ffd400"));
    let (_, rest) = page.split_once("/site/assets/look.").unwrap();
    let address = format!("/site/assets/look.{}", rest.split_once('"').unwrap().0);
    let look = app.anon().get(&address).await;
    assert_eq!(look.header("content-type"), "text/css; charset=utf-8");
    assert_eq!(look.header("cache-control"), "public, max-age=31536000, immutable");
    assert!(look.text().starts_with(":where(:root){--accent:#"), "{}", look.text());
    assert_eq!(look.text().matches("--accent-fill:#ffd400;--accent-ink:#000000").count(), 3, "{}", look.text());
    assert!(look.text().ends_with(".hero { letter-spacing: 1px; }"));
    assert!(page.find("/site/assets/style.").unwrap() < page.find("/site/assets/look.").unwrap(), "it comes last");
    assert!(!TestApp::start().await.anon().get("/site/").await.text().contains("/look."));
}

#[tokio::test]
async fn hidden_parts_are_gone_and_nothing_links_to_them() {
    let app = TestApp::builder().set("[site]\nhide = [\"status\", \"dashboard\", \"docs\", \"team\"]").start().await;
    let id = announce(&app, "Moving", "From https://old.example to https://new.example.").await;
    let update = NewUpdate::new(UpdateSubject::Announcement(id), UpdatePhase::Monitoring, "Nearly there.").unwrap();
    app.app.sources.store.update_happening(update, app.clock.now()).await.unwrap();
    let home = page(&app.anon(), "/site/").await;
    assert!(home.contains("Moving") && home.contains("<a href=\"https://new.example\""), "{home}");
    assert!(home.contains("Nearly there."), "{home}");
    assert!(!home.contains("/site/status") && !home.contains("/docs"), "{home}");
    for (path, word) in [("/site/status", "Status"), ("/site/dashboard", "Dashboard"), ("/docs", "API")] {
        assert_eq!(app.anon().get(path).await.status, 404, "{path}");
        assert!(!home.contains(&format!("href=\"{path}\"")) && !home.contains(&format!(">{word}<")), "{path}: {home}");
    }
    assert_eq!(app.anon().get("/docs/feed").await.status, 404);
    assert_eq!(app.anon().get("/site/incidents.atom").await.status, 404);
    assert!(!home.contains("incidents.atom"));
    assert!(!app.anon().get("/robots.txt").await.text().contains("/docs"));
    assert_eq!(app.anon().get("/openapi.json").await.status, 200, "the API itself stays");
}

#[tokio::test]
async fn features_are_the_operators_text_without_its_html() {
    let folder = Folder::new();
    let text = "# What *Lantern* does\n\nHello <script>alert(1)</script> [site](https://bot.example) [no](javascript:alert(1)) \
                [no](//evil.example) [status](/site/status) <a@bot.example> [no](</\t/tab.example>) [no](</&#10;/line.example>)\n\n\
                ## Commands\n\n| command | does |\n|---|---|\n| `/lamp` | a *light* |\n\n1. one\n2. two\n";
    let features = written(&folder, "features.md", text.as_bytes());
    let app = TestApp::builder().set(&format!("[site]\nfeatures = {features:?}")).start().await;
    let page = app.anon().get("/site/features").await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    let page = page.text();
    assert!(page.contains("<h2 id=\"commands\">") && page.contains("<code>/lamp</code>"), "{page}");
    assert!(page.contains("<em>light</em>") && page.contains("<ol class=\"listed\"><li>one</li>"), "{page}");
    assert!(
        page.contains("&lt;script&gt;") && !page.contains("<script>alert") && !page.contains("javascript:"),
        "{page}"
    );
    assert!(page.contains("<a href=\"/site/status\">status</a> <a href=\"mailto:a@bot.example\">"), "{page}");
    for elsewhere in ["evil.example", "tab.example", "line.example"] {
        assert!(!page.contains(elsewhere), "{page}");
    }
    let home = app.anon().get("/site/").await.text();
    assert!(home.contains("<a href=\"/site/features\">Features</a>"), "{home}");
    let without = TestApp::start().await;
    assert_eq!(without.anon().get("/site/features").await.status, 404);
}

#[tokio::test]
async fn a_chosen_language_is_remembered_and_the_address_stays_the_pages_own() {
    let app = TestApp::builder().set("[http]\nbase_path = \"/api\"").start().await;
    for (path, to) in
        [("/api/site/", "."), ("/api/site/status", "status"), ("/api/docs", "docs"), ("/api/docs/feed", "feed")]
    {
        let other = app.anon().call(Method::POST, &format!("{path}?lang=de")).send().await;
        assert_eq!((other.status, other.header("allow")), (405, "GET, HEAD, OPTIONS"), "{path}");
        let chosen = app.anon().get(&format!("{path}?lang=de")).await;
        assert_eq!((chosen.status, chosen.header("location")), (303, to), "{path}");
        let cookie = chosen.header("set-cookie");
        assert!(cookie.starts_with("site_language=de; Path=/; Max-Age=31536000"), "{cookie}");
        let page = app.anon().call(Method::GET, path).header("Cookie", "a=b; site_language=de").send().await;
        assert!(page.text().starts_with("<!DOCTYPE html><html lang=\"de\""), "{path}");
        assert!(page.header("vary").contains("cookie") && !page.has("set-cookie"));
        let other = app.anon().get(&format!("{path}?lang=xx")).await;
        assert_eq!((other.status, other.has("set-cookie")), (200, false));
    }
}
