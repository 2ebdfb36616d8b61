//! A bot on serenity that keeps its companion up to date.
//!
//! ```console
//! $ DISCORD_TOKEN=… COMPANION_URL=http://127.0.0.1:8080 COMPANION_BOT_KEY=bck_… \
//!       cargo run --example serenity --features serenity
//! ```

use std::env;

use bot_companion_feed::{CallbackError, Companion, Grants, Guild, Permission};
use serenity::all::{ClientBuilder, Context, EventHandler, GatewayIntents, HttpBuilder, Ready};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The bot's own handler, as it was before.
struct Lantern;

#[serenity::async_trait]
impl EventHandler for Lantern {
    async fn ready(&self, _: Context, ready: Ready) {
        tracing::info!("{} is ready", ready.user.name);
    }
}

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
    // Who holds a role is told only to bots with the privileged intent GUILD_MEMBERS.
    let intents = GatewayIntents::GUILDS | GatewayIntents::GUILD_MEMBERS;
    let companion = Companion::from_env()?.grants(grants).setup(async |_| Ok(true)).serenity(intents)?;

    let mut http = HttpBuilder::new(env::var("DISCORD_TOKEN")?);
    if let Ok(proxy) = env::var("DISCORD_PROXY") {
        http = http.proxy(proxy).ratelimiter_disabled(true);
    }
    let mut client = ClientBuilder::new_with_http(http.build(), intents)
        .event_handler(Lantern)
        .event_handler(companion.handler())
        .await?;
    companion.watch(&client.shard_manager);

    let result = tokio::select! {
        result = client.start_autosharded() => result,
        () = asked_to_end() => Ok(()),
    };
    // What has not been sent yet is sent now, for at most five seconds.
    companion.close().await;
    client.shard_manager.shutdown_all().await;
    Ok(result?)
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
