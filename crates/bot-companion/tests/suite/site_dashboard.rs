//! The server side of `/site/dashboard`: what it may load, its size, its words, and whether people can sign in on it. Its
//! script is tested in a browser (`tests/browser`).

use std::io::Read as _;

use flate2::read::GzDecoder;
use http::Method;
use serde_json::Value;

use crate::harness::{Answer, Client, TestApp};
use crate::switches::Dev;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' https://cdn.discordapp.com; connect-src \
                      'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The size limit of the page with everything it loads, compressed.
const LARGEST: usize = 60_000;

/// The page at this host, in this language.
async fn page(client: &Client, path: &str, host: &str, language: &str) -> Answer {
    let asked = client.call(Method::GET, path).header("Host", host).header("Accept-Language", language).send().await;
    assert_eq!((asked.status, asked.header("content-type")), (200, "text/html; charset=utf-8"));
    asked
}

/// A service with this redirect address in addition to the suite's own.
async fn with_redirect(address: &str, configuration: &str) -> TestApp {
    let origin = address.split('/').take(3).collect::<Vec<_>>().join("/");
    let redirects = format!(
        "[http]\nallowed_origins = [\"https://dashboard.example\", \"{origin}\"]\n[idp]\nredirect_uri = \
         [\"https://dashboard.example/callback\", \"{address}\"]"
    );
    TestApp::builder().set(&redirects).set(configuration).start().await
}

/// The addresses in the page's attributes with this name.
fn attributes<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    text.split(start.as_str()).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

#[tokio::test]
async fn the_page_loads_only_what_is_ours_and_little_of_it() {
    let app = with_redirect("https://bot.example/site/dashboard", "").await;
    let answer = page(&app.anon(), "/site/dashboard", "bot.example", "en").await;
    assert_eq!(answer.header("content-security-policy"), POLICY);
    assert_eq!((answer.header("x-frame-options"), answer.header("referrer-policy")), ("DENY", "no-referrer"));
    let text = answer.text();
    for inline in [" style=", "<style", " onclick=", " onload=", "javascript:"] {
        assert!(!text.contains(inline), "{inline}");
    }
    for script in text.split("<script").skip(1) {
        let tag = script.split('>').next().unwrap();
        assert!(tag.contains(" src=\"/site/assets/") || tag == " type=\"application/json\" id=\"words\"", "{tag}");
    }
    // What the script cannot know by itself.
    assert_eq!(attributes(&text, "data-pictures"), ["https://cdn.discordapp.com/"]);
    let words = text.split("id=\"words\">").nth(1).unwrap().split("</script>").next().unwrap();
    let words: Value = serde_json::from_str(words).unwrap();
    assert_eq!(words["permissionNames"]["MANAGE_SERVER"], "Manage this server");
    assert_eq!(words["roles"]["Member"], "Member");

    let loaded: Vec<_> = attributes(&text, "href").into_iter().chain(attributes(&text, "src")).collect();
    let mut assets: Vec<_> = loaded.into_iter().filter(|path| path.starts_with("/site/assets/")).collect();
    assets.sort_unstable();
    assets.dedup();
    let names: Vec<_> = assets.iter().map(|path| path.split(['/', '.']).nth(3).unwrap()).collect();
    assert_eq!(names, ["companion", "dashboard", "icon", "icon", "style", "theme", "times"]);
    let mut size = 0;
    for path in ["/site/dashboard"].into_iter().chain(assets) {
        let call = app.anon().call(Method::GET, path).header("Host", "bot.example").header("Accept-Encoding", "gzip");
        let answer = call.send().await;
        assert_eq!(answer.status, 200, "{path}");
        if answer.has("content-encoding") {
            let mut whole = String::new();
            GzDecoder::new(&*answer.body).read_to_string(&mut whole).unwrap();
            assert!(whole.len() > answer.body.len(), "{path}");
        }
        size += answer.body.len();
    }
    assert!(size <= LARGEST, "{size} bytes");
}

#[tokio::test]
async fn a_page_that_the_redirect_address_does_not_lead_to_says_so_in_place_of_the_button() {
    let table: &[(&str, &str, &str, Option<&str>)] = &[
        // The redirect address, other options, the requested host, and the message if nobody can sign in.
        ("https://bot.example/site/dashboard", "", "bot.example", None),
        ("https://bot.example/site/dashboard", "", "BOT.example", None),
        ("https://bot.example:8443/site/dashboard", "", "bot.example:8443", None),
        ("https://bot.example/api/site/dashboard", "[http]\nbase_path = \"/api\"", "bot.example", None),
        // A different path, a different host, a forgotten base path.
        ("https://bot.example/callback", "", "bot.example", Some("add this page's full address to idp.redirect_uri")),
        (
            "https://bot.example/callback",
            "[site]\nurl = \"https://bot.example\"",
            "bot.example",
            Some("add <code>https://bot.example/site/dashboard</code> to idp.redirect_uri"),
        ),
        (
            "https://bot.example/site/dashboard",
            "",
            "127.0.0.1:8080",
            Some("You can sign in at this address: <a href=\"https://bot.example/site/dashboard\">"),
        ),
        (
            "https://bot.example/site/dashboard",
            "[http]\nbase_path = \"/api\"",
            "bot.example",
            Some("If you run this service: add this page's full address"),
        ),
    ];
    for (redirect, configuration, host, said) in table {
        let app = with_redirect(redirect, configuration).await;
        let path = if configuration.contains("/api") { "/api/site/dashboard" } else { "/site/dashboard" };
        let text = page(&app.anon(), path, host, "en").await.text();
        let button = text.contains("id=\"sign-in\"") && text.contains("<script");
        assert_eq!(button, said.is_none(), "{redirect} at {host}");
        assert_eq!(text.contains("You can't sign in here yet"), said.is_some());
        assert!(said.is_none_or(|said| text.contains(said)), "{redirect} at {host}: {text}");
        // What the page says is what the service does.
        let auth = path.replace("/site/dashboard", "/auth");
        let call = app.anon().call(Method::GET, &auth).header("Host", host).header("Sec-Fetch-Site", "same-origin");
        let told = call.send().await.data()["redirect_uri"].as_str().unwrap().to_ascii_lowercase();
        assert_eq!(told.contains(&format!("//{}{path}", host.to_ascii_lowercase())), said.is_none(), "{told}");
    }
}

#[tokio::test]
async fn the_page_speaks_german_too() {
    let app = with_redirect("https://bot.example/site/dashboard", "").await;
    let text = page(&app.anon(), "/site/dashboard", "bot.example", "de").await.text();
    assert!(
        text.contains("<html lang=\"de\"") && text.contains("Anmelden") && text.contains("Warum fehlt mein Server?")
    );
    assert!(text.contains("Diese Seite braucht JavaScript") && text.contains("Diesen Server verwalten"), "{text}");
    for english in ["Sign in", "server is missing", "JavaScript on", "Try again"] {
        assert!(!text.contains(english), "{english}");
    }
    let missing = page(&app.anon(), "/site/dashboard", "elsewhere.example", "de").await.text();
    assert!(
        missing.contains("Hier kannst du dich noch nicht anmelden") && !missing.contains("<script type"),
        "{missing}"
    );
}

#[tokio::test]
async fn dev_prints_and_registers_the_page_and_has_a_page_for_invitations() {
    let dev = Dev::start(&[]).await;
    let (address, port) = (dev.service.address, dev.service.address.port());
    let banner = std::fs::read_to_string(&dev.service.output).unwrap();
    assert!(banner.contains(&format!("dashboard  http://{address}/site/dashboard\n")), "{banner}");
    for host in [address.to_string(), format!("localhost:{port}")] {
        let text = page(&dev.client, "/site/dashboard", &host, "en").await.text();
        assert!(text.contains("id=\"sign-in\""), "{host}");
        let call = dev.client.call(Method::GET, "/auth").header("Host", &host).header("Sec-Fetch-Site", "same-origin");
        let redirect = format!("http://{host}/site/dashboard");
        assert_eq!(call.send().await.data()["redirect_uri"], redirect.as_str());
        // The whole sign-in: the provider accepts the address, and the service sends the same one with the code.
        let encoded = redirect.replace(':', "%3A").replace('/', "%2F");
        let asked = format!(
            "/oauth2/authorize?response_type=code&client_id=sandbox&scope=identify+guilds&redirect_uri={encoded}"
        );
        let back = dev.sandbox.get(&(asked + "&choice=owner")).await;
        let location = back.headers["location"].to_str().unwrap();
        assert!(location.starts_with(&redirect), "{location}");
        let code = location.split("code=").nth(1).unwrap().split('&').next().unwrap();
        let origin = format!("http://{host}");
        let signed_in = dev.client.post("/auth").header("Idp-Code", code).header("Origin", &origin).send().await;
        assert_eq!(signed_in.status, 200, "{}", signed_in.text());
    }

    let owner = dev.user("owner").await;
    let invitable = owner.get("/guilds/invitable").await.data();
    let invite = invitable[0]["invite"].as_str().unwrap();
    let asked = dev.sandbox.get(invite.strip_prefix(&dev.sandbox_url).unwrap()).await;
    assert_eq!(asked.status, 200);
    let said = asked.text();
    assert!(said.contains("to confirm adding the bot to <strong><bdi>The Quiet Library</bdi></strong>"), "{said}");
    let home = dev.client.get("/site/").await.text();
    assert!(home.contains(&format!("{}/invite?client_id=sandbox", dev.sandbox_url)), "{home}");
    for hostile in
        ["/invite", "/invite?guild_id=%3Cscript%3E", "/invite?guild_id=0", "/invite?guild_id=99999999999999999999"]
    {
        let said = dev.sandbox.get(hostile).await;
        assert!(said.status == 200 && said.text().contains("which server to add the bot to"), "{hostile}");
        assert!(!said.text().contains("<script"), "{hostile}");
    }
}
