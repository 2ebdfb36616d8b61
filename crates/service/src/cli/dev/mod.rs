//! `bot-companion dev`: everything on this machine, nothing to configure. It wraps the service from outside: the demo bot
//! (`demo_bot`, `demo_data`, `demo_history`) is middleware around the routes, and the `switchboard` does what the sandbox's page `/control`
//! asks for.

mod demo_bot;
mod demo_data;
mod demo_history;
mod guests;
mod switchboard;
mod unreleased;

use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use axum::middleware;
use domain::token::random_text;
use runtime::clock::Clock;
use runtime::random::{Random, secret_bytes};
use sandbox::{Sandbox, SandboxOptions, people};
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;
use telemetry::Version;

use super::exit::UsageError;
use super::{logging, print, runtime, serve};
use crate::admin::{self, AdminServer};
use crate::app::App;
use crate::config::{AdminConfig, Config, Layer, ListenAddress, keyfile, origin_of};
use crate::http::HttpService;
use crate::server;
use crate::site::dashboard;
use demo_bot::DemoBot;
use switchboard::Switchboard;

const CLIENT_ID: &str = "sandbox";
/// The file in the data folder. The names of those next to it begin like this, too.
const DATABASE: &str = "bot-companion.db";
/// The redirect addresses that are always registered: those of the usual development servers.
const REDIRECT_URIS: [&str; 3] =
    ["http://localhost:3000/callback", "http://localhost:5173/callback", "http://localhost:8000/callback"];

/// The picture that chat apps show with a link to the site.
static PREVIEW: &[u8] = include_bytes!("preview.png");
static FEATURES: &[u8] = include_bytes!("features.md");

fn features(data: &Path) -> PathBuf {
    data.join("features.md")
}

fn preview(data: &Path) -> PathBuf {
    data.join("preview.png")
}

#[derive(Debug, clap::Args)]
pub(super) struct DevOptions {
    /// Listen here; loopback only. Port 0 picks a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Keep the data in this folder.
    #[arg(long, value_name = "FOLDER", default_value = ".bot-companion-dev")]
    data: PathBuf,
    /// Keep the demo data in this PostgreSQL database instead. It must not contain anything else.
    #[arg(long, value_name = "URL")]
    store: Option<SecretString>,
    /// Also register this redirect address, and allow pages from its origin. It replaces one with the same origin. Can be
    /// repeated.
    #[arg(long = "redirect-uri", value_name = "URL")]
    redirect_uris: Vec<String>,
    /// Turn rate limits off, for tests and benchmarks.
    #[arg(long)]
    no_limits: bool,
    /// Print the addresses and the bot key as one line of JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(options: &DevOptions, version: Version) -> anyhow::Result<()> {
    super::log_lines::note_environment();
    let DevOptions { listen, data, store, .. } = options;
    ensure_loopback(Some(*listen))?;
    std::fs::create_dir_all(data).with_context(|| format!("cannot create the data folder {}", data.display()))?;
    runtime()?.block_on(async {
        for (file, content) in [(preview(data), PREVIEW), (features(data), FEATURES)] {
            std::fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
        }
        let bot_key = demo_bot::own_key(data)?;
        let clock = Clock::system();
        let started_at = clock.now();
        let secret = SecretString::from(random_text(32, secret_bytes));
        let socket = sandbox_socket(*listen)?;
        let sandbox_address = socket.local_addr()?;
        let mut config = configuration(options, sandbox_address, &secret, std::env::vars_os())?;
        if let Some(url) = store {
            // If it isn't a file, there is no key next to it.
            config.secrets = vec![keyfile::load_or_create(&data.join(DATABASE))?.key];
            config.store.url = url.clone();
        }
        logging::start(&config.log)?;

        let listeners = serve::open(&mut config)?;
        let address = listeners.addresses().iter().find_map(ListenAddress::tcp).context("nothing to listen on")?;
        if store.is_none() {
            unreleased::move_aside(data)?;
        }
        let service = format!("http://{address}{}", config.http.base_path);
        register_dashboard(&mut config, address);
        // Link previews and the incident feed need absolute addresses.
        config.site.url.get_or_insert_with(|| service.clone());
        let sandbox = Sandbox::start(
            socket,
            SandboxOptions {
                client_id: CLIENT_ID.to_owned(),
                client_secret: secret,
                redirect_uris: config.idp.redirect_uri.clone(),
                people: people::with_pictures(people::demo()),
                service_url: Some(service.clone()),
                clock: clock.clone(),
                // It is secret and stays with the data, as do the sessions.
                token_key: bot_key.clone(),
            },
        )?;
        let admin = admin_socket(config.admin)?;
        let mut app = App::build(config, clock, Random::from_system(), version).await?;
        // The demo bot may fall silent immediately, and the pages must believe it.
        app.site.listening_since = started_at.before(demo_bot::LONG_SILENT);
        let app = Arc::new(app);
        let admin = serve::answer_operators(admin, &app)?;
        let bot = Arc::new(DemoBot::new(Arc::clone(&app), &bot_key, started_at).await?);
        let service_with_bot = HttpService::new(Arc::clone(&app)).wrap({
            let bot = Arc::clone(&bot);
            |routes| routes.layer(middleware::from_fn_with_state(bot, demo_bot::make_room))
        });
        let guests = guests::join(Arc::clone(&app), Arc::clone(&bot), Arc::clone(&sandbox));
        sandbox.connect(Arc::new(Switchboard::new(Arc::clone(&app), Arc::clone(&bot))));
        let shown = async {
            // The banner promises data, so it is printed after the data is there.
            bot.introduce().await;
            print(&if options.json {
                let admin = admin.as_ref().map(|admin| format!("http://{}", admin.address));
                let sandbox = format!("http://{sandbox_address}");
                format!(
                    "{}\n",
                    json!({ "service": service, "admin": admin, "sandbox": sandbox, "bot_key": demo_bot::PUBLISHED_KEY })
                )
            } else {
                banner(&service, &sandbox, admin.as_ref(), data)
            })?;
            bot.live().await;
            anyhow::Ok(())
        };
        tokio::select! {
            served = server::run(listeners, None, service_with_bot, serve::asked_to_stop(serve::OnHangup::Stop)) => Ok(served?),
            failed = shown => failed,
            () = guests => Ok(()),
        }
    })
}

fn ensure_loopback(listen: Option<SocketAddr>) -> anyhow::Result<()> {
    let advice = "`dev` has a sign-in without passwords, so it only listens on loopback: use --listen 127.0.0.1:PORT, and \
    unset COMPANION_HTTP_LISTEN";
    let is_loopback = listen.is_some_and(|listen| listen.ip().is_loopback());
    if is_loopback { Ok(()) } else { Err(UsageError(advice.to_owned()).into()) }
}

/// The port after the service's, so that a dashboard can rely on it; any free one if that is in use.
fn sandbox_socket(listen: SocketAddr) -> anyhow::Result<TcpListener> {
    // 0 means any free port.
    let next = listen.port().checked_add(1).filter(|_| listen.port() != 0).unwrap_or(0);
    TcpListener::bind((listen.ip(), next))
        .or_else(|_| TcpListener::bind((listen.ip(), 0)))
        .context("no free port for the sandbox")
}

/// The default port if it is free, otherwise any other, so that several `dev`s, or one next to a `serve`, get along.
fn admin_socket(config: AdminConfig) -> anyhow::Result<Option<TcpListener>> {
    let Some(listen) = config.listen.filter(|_| !config.is_set) else { return Ok(admin::bind(config)?) };
    Ok(TcpListener::bind(listen).or_else(|_| TcpListener::bind((listen.ip(), 0))).ok())
}

/// The configuration of `dev`. The environment can override them, except where that would open the sandbox to others or write demo
/// data over someone's own: it must be safe to try `dev` in a shell that is set up for `serve`.
fn configuration(
    options: &DevOptions,
    sandbox: SocketAddr,
    secret: &SecretString,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> anyhow::Result<Config> {
    let DevOptions { listen, data, .. } = options;
    let database = toml::Value::from(format!("sqlite:{}", data.join(DATABASE).display()));
    let preview = toml::Value::from(preview(data).display().to_string());
    let features = toml::Value::from(features(data).display().to_string());
    let secret = secret.expose_secret();
    let (redirect_uris, origins) = redirect_uris(&options.redirect_uris);
    let limits = if options.no_limits { NO_LIMITS } else { LIMITS };
    let text = format!(
        r#"
        [http]
        listen = "{listen}"
        allowed_origins = {origins}
        # The example dashboards on a server say whom they call for.
        trusted_proxies = ["127.0.0.0/8", "::1"]
        [store]
        url = {database}
        [site]
        name = "Lantern"
        tagline = "A demo bot that keeps a light on for your server."
        preview = {preview}
        features = {features}
        # The provider does not know this bot, so the sandbox has a page in place of its own.
        invite_url = "http://{sandbox}/invite?client_id={{client_id}}"
        [idp]
        base_url = "http://{sandbox}/api/v10"
        authorize_url = "http://{sandbox}/oauth2/authorize"
        client_id = "{CLIENT_ID}"
        client_secret = "{secret}"
        redirect_uri = {redirect_uris}
        invite_url = "http://{sandbox}/invite?client_id={{client_id}}&guild_id={{guild}}"
        # The sandbox draws pictures, so that none is missing without a network.
        cdn_url = "http://{sandbox}"
        # A person's name is a code that works again and again.
        code_memory = "0s"
        [log]
        filter = "warn,bot_companion=info"
        {limits}
        "#
    );
    let environment: Vec<_> = environment.into_iter().collect();
    ensure!(
        !environment.iter().any(|(name, _)| name == "COMPANION_STORE_URL" || name == "COMPANION_STORE_URL_FILE"),
        "`dev` fills its store with demo data, so it won't use the one set in the environment: unset COMPANION_STORE_URL and \
         COMPANION_STORE_URL_FILE, and pass --data or --store"
    );
    let mut config = Config::load_over(&[Layer::new("dev", text)], None, environment)?;
    ensure_loopback(config.http.listen.tcp())?;
    // A page elsewhere that points its own name at this machine (DNS rebinding) must not sign in here, because the bot key is
    // published.
    config.http.loopback_names_only = true;
    Ok(config)
}

/// The same as in production, with one exception: the sandbox's few people stand for all users, so each may sign in ten times
/// as often. A dashboard that keeps signing in by mistake still hits the limit.
const LIMITS: &str = "[limits]\nsign_ins_per_user = 200";
const NO_LIMITS: &str = r#"
        [limits]
        exempt = ["127.0.0.0/8", "::1"]
        sign_ins_per_user = 0
        [feed]
        requests_per_second = 0
"#;

/// The redirect addresses, the requested ones first, and their origins. One per origin.
fn redirect_uris(asked: &[String]) -> (toml::Value, toml::Value) {
    let origins_asked: Vec<_> = asked.iter().filter_map(|uri| origin_of(uri)).collect();
    let usual =
        REDIRECT_URIS.into_iter().filter(|uri| !origin_of(uri).is_some_and(|origin| origins_asked.contains(&origin)));
    let all: Vec<String> = asked.iter().cloned().chain(usual.map(str::to_owned)).collect();
    let origins: Vec<String> = all.iter().filter_map(|uri| origin_of(uri)).collect();
    (all.into(), origins.into())
}

/// Lets people sign in on the service's own page, under both names of this machine. The port is only known once the socket is
/// bound. There is one redirect address per origin, so a requested one stays.
fn register_dashboard(config: &mut Config, address: SocketAddr) {
    if !config.site.enabled {
        return;
    }
    for host in [address.to_string(), format!("localhost:{}", address.port())] {
        let page = format!("http://{host}{}{}", config.http.base_path, dashboard::PATH);
        let Some(origin) = origin_of(&page) else { continue };
        if config.idp.redirect_uri.iter().any(|known| origin_of(known).as_ref() == Some(&origin)) {
            continue;
        }
        config.idp.redirect_uri.push(page);
        if !config.http.allowed_origins.contains(&origin) {
            config.http.allowed_origins.push(origin);
        }
    }
}

fn banner(service: &str, sandbox: &Sandbox, admin: Option<&AdminServer>, data: &Path) -> String {
    let names: Vec<_> = sandbox.people().into_iter().map(|person| person.name).collect();
    format!(
        r#"
bot-companion {version}, development mode. Everything runs on this machine; press Ctrl-C to stop.

  site       {service}/site/
  dashboard  {service}{dashboard}
  service    {service}/
  reference  {service}/docs
  API        {service}/openapi.json
  sign-in    {authorize}
  failures   {control}
  metrics    {metrics}
  people     {people}
  bot key    {key}
  data       {data}

Sign in as one of the people and list their guilds:

  TOKEN=$(curl -s -X POST -H 'Idp-Code: owner' {service}/auth | grep -o 'bcs_[0-9A-Za-z]*')
  curl -s -H "Token: $TOKEN" {service}/guilds

Act as the bot: your first call replaces the demo bot and its data. Then see what the service has stored:

  curl -s -X PUT -H 'Authorization: Bearer {key}' {service}/bot/heartbeat \
    -d '{{"instance": "mine", "started_at": '$(date +%s)', "memory": 50000000, "shard_count": 1, "shards": [{{"id": 0}}]}}'
  curl -s -H 'Authorization: Bearer {key}' {service}/bot/state

The status page shows 90 days of demo data until your bot reports. Then the people above join its servers: owner owns one of them, if
possible one with staff, administrator and moderator are two of its staff, and the others are members.

Simulate a failure, here of the guild list; DELETE instead of PUT ends it:

  curl -s -X PUT {control}/guilds-fail

The codes refused, no-scope, slow, rate-limited, edge-limited, down and nonsense show what your dashboard does when a sign-in fails.

"#,
        version = Version::NAME,
        dashboard = dashboard::PATH,
        authorize = sandbox.authorize_url(),
        control = sandbox.control_url(),
        metrics = admin.map_or_else(|| "off".to_owned(), |admin| format!("http://{}/metrics", admin.address)),
        key = demo_bot::PUBLISHED_KEY,
        people = names.join(", "),
        data = data.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(environment: &[(&str, &str)]) -> anyhow::Result<Config> {
        loaded_with(&[], false, environment)
    }

    fn loaded_with(redirects: &[&str], no_limits: bool, environment: &[(&str, &str)]) -> anyhow::Result<Config> {
        let listen = "127.0.0.1:1".parse()?;
        let environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let redirect_uris = redirects.iter().map(|uri| (*uri).to_owned()).collect();
        let options = DevOptions { listen, data: "data".into(), store: None, redirect_uris, no_limits, json: false };
        configuration(&options, listen, &SecretString::from("s"), environment)
    }

    #[test]
    fn redirect_addresses_are_added_with_their_origins_and_replace_those_of_the_same() {
        let config = loaded_with(&["http://localhost:4200/back", "http://localhost:3000/auth"], false, &[]).unwrap();
        let expected = ["http://localhost:4200/back", "http://localhost:3000/auth", REDIRECT_URIS[1], REDIRECT_URIS[2]];
        assert_eq!(config.idp.redirect_uri, expected);
        assert!(config.http.allowed_origins.contains(&"http://localhost:4200".to_owned()));
        assert_eq!(config.http.allowed_origins.len(), 4);
        let refused = loaded_with(&["localhost:3000"], false, &[]).unwrap_err().to_string();
        assert!(refused.contains("idp.redirect_uri") && refused.contains("the scheme is missing"), "{refused}");
    }

    #[test]
    fn the_sites_own_page_is_registered_at_the_port_that_was_found() {
        let address = "127.0.0.1:4321".parse().unwrap();
        let mut config = loaded(&[]).unwrap();
        register_dashboard(&mut config, address);
        let own = ["http://127.0.0.1:4321/site/dashboard", "http://localhost:4321/site/dashboard"];
        assert_eq!(config.idp.redirect_uri, [&REDIRECT_URIS[..], &own].concat());
        let origins = ["http://127.0.0.1:4321".to_owned(), "http://localhost:4321".to_owned()];
        assert_eq!(config.http.allowed_origins[REDIRECT_URIS.len()..], origins);

        let mut config = loaded_with(&["http://localhost:4321/mine"], false, &[]).unwrap();
        register_dashboard(&mut config, address);
        let last = &config.idp.redirect_uri[1 + REDIRECT_URIS.len()..];
        assert_eq!(last, [own[0]], "the one that was asked for stays");

        let mut config = loaded(&[("COMPANION_HTTP_BASE_PATH", "/api"), ("COMPANION_SITE_NAME", "Mine")]).unwrap();
        register_dashboard(&mut config, "[::1]:4321".parse().unwrap());
        assert!(config.idp.redirect_uri.contains(&"http://[::1]:4321/api/site/dashboard".to_owned()));

        let mut config = loaded(&[("COMPANION_SITE_ENABLED", "false")]).unwrap();
        register_dashboard(&mut config, address);
        assert_eq!(config.idp.redirect_uri, REDIRECT_URIS);
    }

    #[test]
    fn limits_are_those_of_production_unless_there_are_to_be_none() {
        let usual = Config::load(None, Vec::<(String, String)>::new()).unwrap();
        let config = loaded(&[]).unwrap();
        assert_eq!(config.limits.requests_per_second, usual.limits.requests_per_second);
        assert_eq!(config.feed.requests_per_second, usual.feed.requests_per_second);
        assert!(config.limits.exempt.is_empty() && config.limits.sign_ins_per_user == 200);
        assert_eq!(config.http.trusted_proxies.len(), 2);
        let config = loaded_with(&[], true, &[]).unwrap();
        assert_eq!((config.limits.exempt.len(), config.limits.sign_ins_per_user), (2, 0));
        assert_eq!(config.feed.requests_per_second, 0);
    }

    #[test]
    fn the_environment_neither_opens_the_door_nor_lends_its_store() {
        assert_eq!(loaded(&[("COMPANION_LOG_FILTER", "debug")]).unwrap().log.filter, "debug");
        assert!(loaded(&[("COMPANION_HTTP_LISTEN", "127.0.0.1:2")]).is_ok());
        for (name, value) in [
            ("COMPANION_HTTP_LISTEN", "0.0.0.0:1"),
            ("COMPANION_STORE_URL", "sqlite:production.db"),
            ("COMPANION_STORE_URL_FILE", "/run/secrets/url"),
        ] {
            let refused = loaded(&[(name, value)]).unwrap_err().to_string();
            assert!(refused.contains("unset ") && refused.contains(name), "{refused}");
        }
    }
}
