//! `bot-companion dev`: everything on this machine, nothing to configure.

use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use secrecy::{ExposeSecret, SecretString};

use super::{demo, logging, print, runtime, serve};
use crate::app::App;
use crate::clock::Clock;
use crate::config::{Config, Layer, keyfile};
use crate::domain::token::{self, random_text};
use crate::http::HttpService;
use crate::random::{Random, secret_bytes};
use crate::sandbox::{Sandbox, SandboxOptions, people};
use crate::server;
use crate::version::Version;

const CLIENT_ID: &str = "sandbox";

pub(super) fn run(listen: SocketAddr, data: &Path, store: Option<&SecretString>) -> anyhow::Result<()> {
    ensure_loopback(listen)?;
    std::fs::create_dir_all(data).with_context(|| format!("cannot make the data folder {}", data.display()))?;
    runtime()?.block_on(async {
        let clock = Clock::system();
        let secret = SecretString::from(random_text(32, secret_bytes));
        let socket = sandbox_socket(listen)?;
        let sandbox_address = socket.local_addr()?;
        let mut config = configuration(listen, data, sandbox_address, &secret, std::env::vars_os())?;
        if let Some(url) = store {
            // Where it is no file there is no key beside it.
            config.secrets = vec![keyfile::load_or_create(&data.join("bot-companion.db"))?];
            config.store.url = url.clone();
        }
        logging::start(&config.log)?;

        let listeners = serve::open(&mut config)?;
        let service = format!("http://{}{}", serve::address(&listeners)?, config.http.base_path);
        let sandbox = Sandbox::start(
            socket,
            SandboxOptions {
                client_id: CLIENT_ID.to_owned(),
                client_secret: secret,
                people: people::demo(),
                service_url: Some(service.clone()),
                clock: clock.clone(),
            },
        )?;
        let app = App::build(config, clock, Random::from_system()).await?;
        demo::admit_key(&app).await?;
        let bot = demo::DemoBot::new(Arc::clone(&app), service.clone())?;
        let shown = async {
            // The banner promises data, so it comes after it.
            bot.introduce().await;
            print(&banner(&service, &sandbox, data))?;
            bot.live().await;
            anyhow::Ok(())
        };
        tokio::select! {
            () = server::run(listeners, None, HttpService::new(app), serve::asked_to_stop()) => Ok(()),
            failed = shown => failed,
        }
    })
}

fn ensure_loopback(listen: SocketAddr) -> anyhow::Result<()> {
    ensure!(
        listen.ip().is_loopback(),
        "`dev` has a sign-in without passwords, so it listens on loopback only: give --listen 127.0.0.1:PORT, and unset \
         COMPANION_HTTP_LISTEN"
    );
    Ok(())
}

/// The port after the service's, so that a dashboard can be set up with it; any free one if that is taken.
fn sandbox_socket(listen: SocketAddr) -> anyhow::Result<TcpListener> {
    let next = listen.port().checked_add(1).filter(|_| listen.port() != 0).unwrap_or(0);
    TcpListener::bind((listen.ip(), next))
        .or_else(|_| TcpListener::bind((listen.ip(), 0)))
        .context("no free port for the sandbox")
}

/// What `dev` sets; the environment still wins, but not where that would open the sandbox's door to others or write demo data
/// over somebody's own: a shell in which `serve` is set up must be safe to try `dev` in.
fn configuration(
    listen: SocketAddr,
    data: &Path,
    sandbox: SocketAddr,
    secret: &SecretString,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> anyhow::Result<Config> {
    let database = toml::Value::from(format!("sqlite:{}", data.join("bot-companion.db").display()));
    let secret = secret.expose_secret();
    let text = format!(
        r#"
        [http]
        listen = "{listen}"
        allowed_origins = ["http://localhost:3000", "http://localhost:5173", "http://localhost:8000"]
        [store]
        url = {database}
        [idp]
        base_url = "http://{sandbox}/api/v10"
        authorize_url = "http://{sandbox}/oauth2/authorize"
        client_id = "{CLIENT_ID}"
        client_secret = "{secret}"
        redirect_uri = ["http://localhost:3000/callback", "http://localhost:5173/callback", "http://localhost:8000/callback"]
        # A person's name is a code that works again and again.
        code_memory = "0s"
        [limits]
        exempt = ["127.0.0.0/8", "::1"]
        # A developer signs in as the same few people all day.
        sign_ins_per_user = 0
        [feed]
        requests_per_second = 0
        [log]
        filter = "warn,bot_companion=info"
        "#
    );
    let environment: Vec<_> = environment.into_iter().collect();
    ensure!(
        !environment.iter().any(|(name, _)| name == "COMPANION_STORE_URL" || name == "COMPANION_STORE_URL_FILE"),
        "`dev` fills its store with demo data, so it takes none that is set elsewhere: unset COMPANION_STORE_URL and \
         COMPANION_STORE_URL_FILE, and give --data or --store"
    );
    let mut config = Config::load_over(&[Layer::new("dev", text)], None, environment)?;
    ensure_loopback(config.http.listen)?;
    // A page elsewhere that lets its own name lead to this machine (DNS rebinding) must not sign in here.
    config.http.loopback_names_only = true;
    Ok(config)
}

fn banner(service: &str, sandbox: &Sandbox, data: &Path) -> String {
    let names: Vec<_> = sandbox.people().into_iter().map(|person| person.name).collect();
    format!(
        r#"
bot-companion {version}, for trying out. All of it runs on this machine; Ctrl-C stops it.

  service    {service}/
  API        {service}/openapi.json
  sign-in    {authorize}
  people     {people}
  bot key    {key}
  data       {data}

Sign in as one of the people and list their guilds:

  TOKEN=$(curl -s -X POST -H 'Idp-Code: owner' {service}/auth | grep -o 'bcs_[0-9A-Za-z]*')
  curl -s -H "Token: $TOKEN" {service}/guilds

Be the bot that says something, and see what the service holds of it; the demo bot steps aside once yours sends heartbeats:

  curl -s -X POST -H 'Authorization: Bearer {key}' -H 'Feed-Instance: mine' -H 'Feed-Sequence: 1' \
    -d '{{"type": "guild_gone", "id": "1"}}' {service}/bot/events
  curl -s -H 'Authorization: Bearer {key}' {service}/bot/state

The codes refused, no-scope, slow, rate-limited, edge-limited, down and nonsense show what your dashboard does when a sign-in fails.

"#,
        version = Version::NAME,
        authorize = sandbox.authorize_url(),
        key = token::DEMO_KEY,
        people = names.join(", "),
        data = data.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(environment: &[(&str, &str)]) -> anyhow::Result<Config> {
        let loopback = "127.0.0.1:1".parse()?;
        let environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        configuration(loopback, Path::new("data"), loopback, &SecretString::from("s"), environment)
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
