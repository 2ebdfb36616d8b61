//! The adapter for serenity, and for poise, which runs on it.
//!
//! serenity passes each event to its handlers in its own task, so two events may swap places. Who loses a role must not
//! depend on that: the handlers only begin a session, and everything after it comes from a collector, which the shard calls
//! in order.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures_util::future::BoxFuture;
use serenity::all::{
    Context, Event, EventHandler, FullEvent, GatewayIntents, GuildId, Http, RatelimitInfo, Ready, ShardManager,
    UnavailableGuild,
};
use serenity::gateway::CollectorCallback;

use crate::builder::Builder;
use crate::companion::{BotEvent, Companion};
use crate::configuration::ConfigurationError;
use crate::library::{Library, LibrarySource, PAGE, UNNAMED_LIMIT, page};
use crate::source::{Guild, ListingError, Member, Page, ShardHealth};
use crate::table::{Changed, Table};

/// A companion for a bot built with serenity or poise. It is cheap to clone.
#[derive(Clone)]
pub struct SerenityCompanion {
    companion: Companion,
    table: Arc<Table>,
    library: Arc<Serenity>,
}

/// Listens to the bot's events: `client_builder.event_handler(companion.handler())`.
pub struct SerenityHandler(SerenityCompanion);

struct Serenity {
    intents: GatewayIntents,
    http: OnceLock<Arc<Http>>,
    #[cfg(feature = "serenity-cache")]
    cache: OnceLock<Arc<serenity::all::Cache>>,
    manager: OnceLock<Arc<ShardManager>>,
    /// The session whose collector counts, by shard.
    sessions: Mutex<HashMap<u32, u64>>,
}

impl Builder {
    /// Starts the feed. Pass the same intents as to the client.
    pub fn serenity(self, intents: GatewayIntents) -> Result<SerenityCompanion, ConfigurationError> {
        let table = Arc::new(Table::default());
        let library = Arc::new(Serenity {
            intents,
            http: OnceLock::new(),
            #[cfg(feature = "serenity-cache")]
            cache: OnceLock::new(),
            manager: OnceLock::new(),
            sessions: Mutex::default(),
        });
        let source = LibrarySource { table: Arc::clone(&table), library: Arc::clone(&library) };
        let companion = self.start(Arc::new(source))?;
        if !intents.contains(GatewayIntents::GUILDS) {
            companion.core.say_guilds_intent_is_missing();
        }
        Ok(SerenityCompanion { companion, table, library })
    }
}

impl Deref for SerenityCompanion {
    type Target = Companion;

    fn deref(&self) -> &Companion {
        &self.companion
    }
}

impl SerenityCompanion {
    /// An event handler for the client's builder, next to the bot's own.
    pub fn handler(&self) -> SerenityHandler {
        SerenityHandler(self.clone())
    }

    /// The same for a bot whose framework receives the events: call it with every event, for example in poise's
    /// `event_handler`.
    pub fn event(&self, context: &Context, event: &FullEvent) {
        match event {
            FullEvent::Ready { data_about_bot } => self.ready(context, data_about_bot),
            FullEvent::GuildCreate { guild, .. } => self.table.guild_here_late(&self.companion, guild_of(guild)),
            FullEvent::GuildDelete { incomplete, .. } if !incomplete.unavailable => {
                self.table.guild_gone_late(&self.companion, incomplete.id.get());
            }
            FullEvent::Ratelimit { data } => self.limited(data),
            _ => {}
        }
    }

    /// Also reports the shards' latencies, which only the client's shard manager knows.
    pub fn watch(&self, manager: &Arc<ShardManager>) {
        let _ = self.library.manager.set(Arc::clone(manager));
    }

    fn ready(&self, context: &Context, ready: &Ready) {
        let _ = self.library.http.set(Arc::clone(&context.http));
        #[cfg(feature = "serenity-cache")]
        let _ = self.library.cache.set(Arc::clone(&context.cache));
        let (shard, count) = ready.shard.map_or((0, 1), |shard| (shard.id.0, shard.total));
        self.collect(context, shard);
        let guilds: Vec<u64> = ready.guilds.iter().map(|guild| guild.id.get()).collect();
        let session = self.table.begin_session(&self.companion, shard, count, &ready.user.name, &guilds);
        let this = self.clone();
        tokio::spawn(async move { this.table.await_guilds(&this.companion, shard, session).await });
    }

    /// After a 429, serenity waits and retries on its own.
    fn limited(&self, limit: &RatelimitInfo) {
        if is_from_discord(limit) {
            self.companion.tell(&BotEvent::Limited { time: limit.timeout });
        }
    }

    /// Receives the shard's events in order from now on, until its next session.
    fn collect(&self, context: &Context, shard: u32) {
        let next = |sessions: &mut HashMap<u32, u64>| {
            let session = sessions.entry(shard).or_default();
            *session += 1;
            *session
        };
        let session = next(&mut self.library.sessions.lock().unwrap_or_else(PoisonError::into_inner));
        let this = self.clone();
        context.shard.add_collector(CollectorCallback(Box::new(move |event| {
            let sessions = this.library.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            let is_current = sessions.get(&shard) == Some(&session);
            drop(sessions);
            if is_current {
                this.see(event);
            }
            is_current
        })));
    }

    fn see(&self, event: &Event) {
        let (companion, table) = (&self.companion, &self.table);
        match event {
            Event::GuildCreate(event) if event.guild.unavailable => {
                table.guild_unavailable(companion, event.guild.id.get());
            }
            Event::GuildCreate(event) => table.guild_here(companion, guild_of(&event.guild)),
            Event::GuildDelete(event) => match event.guild {
                UnavailableGuild { id, unavailable: true, .. } => table.guild_unavailable(companion, id.get()),
                UnavailableGuild { id, .. } => table.guild_gone(companion, id.get()),
            },
            Event::GuildUpdate(event) => table.guild_changed(
                companion,
                Changed {
                    id: event.guild.id.get(),
                    name: event.guild.name.clone(),
                    icon: event.guild.icon.map(|icon| icon.to_string()),
                    owner: event.guild.owner_id.get(),
                },
            ),
            Event::GuildRoleCreate(event) => companion.role_changed(event.role.guild_id.get()),
            Event::GuildRoleUpdate(event) => companion.role_changed(event.role.guild_id.get()),
            Event::GuildRoleDelete(event) => companion.role_gone(event.guild_id.get(), event.role_id.get()),
            Event::GuildMemberAdd(event) => {
                let (member, roles) = (&event.member, role_ids(&event.member.roles));
                table.member_joined(companion, member.guild_id.get(), member.user.id.get(), roles);
            }
            Event::GuildMemberUpdate(event) => {
                companion.member_changed(event.guild_id.get(), event.user.id.get(), role_ids(&event.roles));
            }
            Event::GuildMemberRemove(event) => {
                table.member_gone(companion, event.guild_id.get(), event.user.id.get());
            }
            _ => {}
        }
    }
}

#[serenity::async_trait]
impl EventHandler for SerenityHandler {
    async fn ready(&self, context: Context, ready: Ready) {
        self.0.ready(&context, &ready);
    }

    async fn guild_create(&self, _: Context, guild: serenity::all::Guild, _: Option<bool>) {
        self.0.table.guild_here_late(&self.0.companion, guild_of(&guild));
    }

    async fn guild_delete(&self, _: Context, guild: UnavailableGuild, _: Option<serenity::all::Guild>) {
        if !guild.unavailable {
            self.0.table.guild_gone_late(&self.0.companion, guild.id.get());
        }
    }

    async fn ratelimit(&self, limit: RatelimitInfo) {
        self.0.limited(&limit);
    }
}

/// serenity also reports its own waits, which avoid a 429. Those do not mean that the bot sends too many requests. They last
/// until a moment of the clock, while Discord names whole seconds or milliseconds.
fn is_from_discord(limit: &RatelimitInfo) -> bool {
    limit.timeout.subsec_nanos().is_multiple_of(1_000_000)
}

impl Library for Serenity {
    fn name(&self) -> String {
        "serenity 0.12".to_owned()
    }

    fn has_members_intent(&self) -> bool {
        self.intents.contains(GatewayIntents::GUILD_MEMBERS)
    }

    #[cfg(not(feature = "serenity-cache"))]
    fn cached_holders(&self, _: u64, _: &[u64]) -> Option<Vec<Member>> {
        None
    }

    #[cfg(feature = "serenity-cache")]
    fn cached_holders(&self, guild: u64, roles: &[u64]) -> Option<Vec<Member>> {
        let guild = self.cache.get()?.guild(GuildId::new(guild))?;
        if (guild.members.len() as u64) < guild.member_count {
            return None;
        }
        // A cached member keeps deleted roles.
        let holders = guild.members.values().map(member_of).map(|mut member| {
            member.roles.retain(|role| guild.roles.contains_key(&serenity::all::RoleId::new(*role)));
            member
        });
        Some(holders.filter(|member| member.roles.iter().any(|role| roles.contains(role))).collect())
    }

    fn list_members(&self, guild: u64, after: u64) -> BoxFuture<'static, Result<Page, ListingError>> {
        let http = self.http.get().cloned();
        Box::pin(async move {
            let http = http.ok_or_else(|| ListingError::Failed("the client is not connected".to_owned()))?;
            let members = http.get_guild_members(GuildId::new(guild), Some(PAGE.into()), Some(after)).await;
            let members = members.map_err(|error| {
                let status = match &error {
                    serenity::Error::Http(error) => error.status_code().map(|status| status.as_u16()),
                    _ => None,
                };
                match status {
                    Some(401 | 403) => ListingError::Forbidden,
                    // serenity's rate limiter is off, and the error does not say for how long.
                    Some(429) => ListingError::Limited(UNNAMED_LIMIT),
                    _ => ListingError::Failed(error.to_string()),
                }
            })?;
            Ok(page(members.iter().map(member_of).collect()))
        })
    }

    fn look_at(&self, shards: &mut [ShardHealth]) {
        let Some(runners) = self.manager.get().and_then(|manager| manager.runners.try_lock().ok()) else { return };
        for shard in shards {
            let runner = runners.get(&serenity::all::ShardId(shard.id));
            shard.latency = runner.and_then(|runner| runner.latency).map(|latency| latency.as_secs_f64() * 1_000.0);
        }
    }
}

fn guild_of(guild: &serenity::all::Guild) -> Guild {
    Guild::new(guild.id.get(), guild.name.clone(), guild.owner_id.get(), guild.member_count)
        .with_icon(guild.icon.map(|icon| icon.to_string()))
}

fn member_of(member: &serenity::all::Member) -> Member {
    Member { user: member.user.id.get(), roles: role_ids(&member.roles) }
}

fn role_ids(roles: &[serenity::all::RoleId]) -> Vec<u64> {
    roles.iter().map(|role| role.get()).collect()
}

#[cfg(test)]
mod tests {
    use serenity::http::{LightMethod, Ratelimit, Request, Route};

    use super::*;

    /// What serenity reports about a response with these headers, and about the request after it.
    async fn told(status: u16, headers: &[(&str, &str)]) -> Vec<RatelimitInfo> {
        let (sender, receiver) = std::sync::mpsc::channel();
        let request = Request::new(Route::GuildMembers { guild_id: GuildId::new(1) }, LightMethod::Get);
        let mut response = hyper::Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let response = response.body("").unwrap().into();
        let tell = move |limit| sender.send(limit).unwrap();
        let mut limit = Ratelimit::default();
        limit.post_hook(&response, &request, &tell, false).await.unwrap();
        limit.pre_hook(&request, &tell).await;
        drop(tell);
        receiver.iter().collect()
    }

    fn slowdown(companion: &Companion) -> f64 {
        companion.core.lock().budget.slowdown()
    }

    #[tokio::test(start_paused = true)]
    async fn a_429_slows_listings_down_and_a_wait_of_the_library_does_not() {
        let builder = Companion::builder("http://companion.example", "bck_test").unwrap();
        let companion = builder.serenity(GatewayIntents::GUILDS).unwrap();
        let handler = companion.handler();
        let used_up = [("x-ratelimit-limit", "5"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset-after", "9.5")];
        let waits = told(200, &used_up).await;
        assert_eq!(waits.len(), 1, "{waits:?}");
        for wait in waits {
            handler.ratelimit(wait).await;
        }
        assert!((slowdown(&companion) - 1.0).abs() < 1e-9, "nothing was answered with 429");
        for limit in told(429, &[("retry-after", "2")]).await {
            handler.ratelimit(limit).await;
        }
        assert!((slowdown(&companion) - 2.0).abs() < 1e-9);
    }
}
