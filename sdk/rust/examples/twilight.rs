//! A bot on twilight that keeps its companion up to date.
//!
//! ```console
//! $ DISCORD_TOKEN=… COMPANION_URL=http://127.0.0.1:8080 COMPANION_BOT_KEY=bck_… \
//!       cargo run --example twilight --features twilight
//! ```

use std::env;
use std::sync::Arc;

use bot_companion_feed::{CallbackError, Companion, Grants, Guild, Permission, TwilightCompanion};
use twilight_gateway::{ConfigBuilder, Intents, Shard, StreamExt as _};
use twilight_http::Client;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// What the guild's roles grant. A bot asks its database here.
async fn grants(guild: Guild) -> Result<Grants, CallbackError> {
    tracing::debug!("asked for {}", guild.name);
    Ok(match env::var("MODERATOR_ROLE") {
        Ok(role) => Grants::new().role(role, [Permission::Mod]),
        Err(_) => Grants::new(),
    })
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    tracing_subscriber::fmt::init();
    drop(rustls::crypto::ring::default_provider().install_default());
    let token = env::var("DISCORD_TOKEN")?;
    let mut http = Client::builder().token(token.clone());
    if let Ok(proxy) = env::var("DISCORD_PROXY") {
        let host = proxy.trim_start_matches("https://").trim_start_matches("http://");
        http = http.proxy(host.to_owned(), proxy.starts_with("http://"));
    }
    let http = Arc::new(http.build());
    let companion = Companion::from_env()?.grants(grants).setup(async |_| Ok(true)).twilight(Arc::clone(&http))?;

    let gateway = http.gateway().authed().await?.model().await?;
    // Who holds a role is told only to bots with the privileged intent GUILD_MEMBERS.
    let mut config = ConfigBuilder::new(token, Intents::GUILDS | Intents::GUILD_MEMBERS);
    if env::var("DISCORD_PROXY").is_ok() {
        config = config.proxy_url(gateway.url);
    }
    let config = config.build();
    let shards: Vec<_> = twilight_gateway::bucket(0, 1, gateway.shards)
        .map(|id| tokio::spawn(run(Shard::with_config(id, config.clone()), companion.clone())))
        .collect();
    asked_to_end().await;
    // What has not been sent yet is sent now, for at most five seconds.
    companion.close().await;
    shards.iter().for_each(tokio::task::JoinHandle::abort);
    Ok(())
}

async fn run(mut shard: Shard, companion: TwilightCompanion) {
    while let Some(event) = shard.next_event(TwilightCompanion::EVENTS).await {
        match event {
            Ok(event) => companion.update(&shard, &event),
            Err(error) => tracing::warn!(?error, "a message of the gateway cannot be read"),
        }
    }
}

/// Ctrl-C, or the SIGTERM of a service manager or a container.
async fn asked_to_end() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
