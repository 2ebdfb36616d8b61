//! A bot on poise that keeps its companion up to date, by the framework's own event handler.
//!
//! ```console
//! $ DISCORD_TOKEN=… COMPANION_URL=http://127.0.0.1:8080 COMPANION_BOT_KEY=bck_… \
//!       cargo run --example poise --features serenity
//! ```
//!
//! `ClientBuilder::event_handler(companion.handler())`, as in the example for serenity, works as well, and needs no line in
//! the framework's options.

use std::env;

use bot_companion_feed::{CallbackError, Companion, Grants, Guild, Permission, SerenityCompanion};
use poise::serenity_prelude::{ClientBuilder, GatewayIntents, HttpBuilder};

type Error = Box<dyn std::error::Error + Send + Sync>;

struct Data {
    companion: SerenityCompanion,
}

/// Says how the companion is.
#[poise::command(slash_command)]
async fn companion(context: poise::Context<'_, Data, Error>) -> Result<(), Error> {
    let status = context.data().companion.status();
    context.say(format!("{}: {} guilds, {} staff", status.state.as_str(), status.guilds, status.staff)).await?;
    Ok(())
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

    let data = Data { companion: companion.clone() };
    let framework = poise::Framework::builder()
        .options(poise::FrameworkOptions {
            commands: vec![self::companion()],
            event_handler: |framework, event| {
                framework.user_data.companion.event(framework.serenity_context, event);
                Box::pin(async { Ok(()) })
            },
            ..Default::default()
        })
        .setup(|context, _, framework| {
            Box::pin(async move {
                poise::builtins::register_globally(context, &framework.options().commands).await?;
                Ok(data)
            })
        })
        .build();

    let mut http = HttpBuilder::new(env::var("DISCORD_TOKEN")?);
    if let Ok(proxy) = env::var("DISCORD_PROXY") {
        http = http.proxy(proxy).ratelimiter_disabled(true);
    }
    let mut client = ClientBuilder::new_with_http(http.build(), intents).framework(framework).await?;
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
