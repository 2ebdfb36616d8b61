//! The adapter for twilight.

#[cfg(feature = "twilight-cache")]
use std::collections::HashSet;
use std::future::IntoFuture as _;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use twilight_gateway::{Event, EventTypeFlags, Intents, Shard};
use twilight_http::error::ErrorType;
use twilight_model::gateway::payload::incoming::GuildCreate;
use twilight_model::id::Id;
use twilight_model::id::marker::RoleMarker;

use crate::builder::Builder;
use crate::companion::Companion;
use crate::configuration::ConfigurationError;
use crate::library::{Library, LibrarySource, PAGE, UNNAMED_LIMIT, page};
use crate::source::{Guild, ListingError, Member, Page};
use crate::table::{Changed, Table};

/// A companion for a bot built with twilight. It is cheap to clone.
#[derive(Clone)]
pub struct TwilightCompanion {
    companion: Companion,
    table: Arc<Table>,
    library: Arc<Twilight>,
}

struct Twilight {
    http: Arc<twilight_http::Client>,
    /// The intents of the last shard seen.
    intents: AtomicU64,
    cached: OnceLock<CachedHolders>,
}

type CachedHolders = Box<dyn Fn(u64, &[u64]) -> Option<Vec<Member>> + Send + Sync>;

impl Builder {
    /// Starts the feed. The client is used to list members when staff is not known.
    pub fn twilight(
        self,
        http: impl Into<Arc<twilight_http::Client>>,
    ) -> Result<TwilightCompanion, ConfigurationError> {
        let table = Arc::new(Table::default());
        let intents = AtomicU64::new(Intents::all().bits());
        let library = Arc::new(Twilight { http: http.into(), intents, cached: OnceLock::new() });
        let source = LibrarySource { table: Arc::clone(&table), library: Arc::clone(&library) };
        let companion = self.start(Arc::new(source))?;
        Ok(TwilightCompanion { companion, table, library })
    }
}

impl Deref for TwilightCompanion {
    type Target = Companion;

    fn deref(&self) -> &Companion {
        &self.companion
    }
}

impl TwilightCompanion {
    /// The events that [`update`](Self::update) needs: `shard.next_event(MY_EVENTS | TwilightCompanion::EVENTS)`.
    pub const EVENTS: EventTypeFlags = EventTypeFlags::READY
        .union(EventTypeFlags::GATEWAY_HEARTBEAT_ACK)
        .union(EventTypeFlags::GUILD_CREATE)
        .union(EventTypeFlags::GUILD_DELETE)
        .union(EventTypeFlags::GUILD_UPDATE)
        .union(EventTypeFlags::ROLE_CREATE)
        .union(EventTypeFlags::ROLE_DELETE)
        .union(EventTypeFlags::ROLE_UPDATE)
        .union(EventTypeFlags::MEMBER_ADD)
        .union(EventTypeFlags::MEMBER_REMOVE)
        .union(EventTypeFlags::MEMBER_UPDATE);

    /// Also finds staff in this cache, for guilds whose members and roles are all in it.
    #[cfg(feature = "twilight-cache")]
    #[must_use]
    pub fn with_cache(self, cache: Arc<twilight_cache_inmemory::DefaultInMemoryCache>) -> Self {
        let _ = self.library.cached.set(Box::new(move |guild, roles| cached_holders(&cache, guild, roles)));
        self
    }

    /// Handles an event. Call it in the shard's own loop, not in a task per event, because the order of the events matters.
    pub fn update<Q>(&self, shard: &Shard<Q>, event: &Event) {
        let (companion, table) = (&self.companion, &self.table);
        self.look_at(shard);
        match event {
            Event::Ready(ready) => {
                let intents = shard.config().intents();
                if !intents.contains(Intents::GUILDS) {
                    companion.core.say_guilds_intent_is_missing();
                }
                let (id, count) = (shard.id().number(), shard.id().total());
                let guilds: Vec<u64> = ready.guilds.iter().map(|guild| guild.id.get()).collect();
                let session = table.begin_session(companion, id, count, &ready.user.name, &guilds);
                let this = self.clone();
                tokio::spawn(async move { this.table.await_guilds(&this.companion, id, session).await });
            }
            Event::GuildCreate(event) => match &**event {
                GuildCreate::Available(guild) => table.guild_here(companion, guild_of(guild)),
                GuildCreate::Unavailable(guild) => table.guild_unavailable(companion, guild.id.get()),
            },
            Event::GuildDelete(event) if event.unavailable == Some(true) => {
                table.guild_unavailable(companion, event.id.get());
            }
            Event::GuildDelete(event) => table.guild_gone(companion, event.id.get()),
            Event::GuildUpdate(event) => table.guild_changed(
                companion,
                Changed {
                    id: event.id.get(),
                    name: event.name.clone(),
                    icon: event.icon.map(|icon| icon.to_string()),
                    owner: event.owner_id.get(),
                },
            ),
            Event::RoleCreate(event) => companion.role_changed(event.guild_id.get()),
            Event::RoleUpdate(event) => companion.role_changed(event.guild_id.get()),
            Event::RoleDelete(event) => companion.role_gone(event.guild_id.get(), event.role_id.get()),
            Event::MemberAdd(event) => {
                let roles = role_ids(&event.member.roles);
                table.member_joined(companion, event.guild_id.get(), event.member.user.id.get(), roles);
            }
            Event::MemberUpdate(event) => {
                companion.member_changed(event.guild_id.get(), event.user.id.get(), role_ids(&event.roles));
            }
            Event::MemberRemove(event) => table.member_gone(companion, event.guild_id.get(), event.user.id.get()),
            _ => {}
        }
    }

    fn look_at<Q>(&self, shard: &Shard<Q>) {
        self.library.intents.store(shard.config().intents().bits(), Ordering::Relaxed);
        let latency = shard.latency();
        let last = latency.recent().first().map(|latency| latency.as_secs_f64() * 1_000.0);
        self.table.set_times(shard.id().number(), latency.sent(), latency.received(), last);
    }
}

impl Library for Twilight {
    fn name(&self) -> String {
        "twilight 0.18".to_owned()
    }

    fn has_members_intent(&self) -> bool {
        Intents::from_bits_truncate(self.intents.load(Ordering::Relaxed)).contains(Intents::GUILD_MEMBERS)
    }

    fn cached_holders(&self, guild: u64, roles: &[u64]) -> Option<Vec<Member>> {
        self.cached.get()?(guild, roles)
    }

    fn list_members(&self, guild: u64, after: u64) -> BoxFuture<'static, Result<Page, ListingError>> {
        let http = Arc::clone(&self.http);
        Box::pin(async move {
            let guild = Id::new_checked(guild).ok_or_else(|| ListingError::Failed("it has no id".to_owned()))?;
            let mut request = http.guild_members(guild).limit(PAGE);
            if let Some(after) = Id::new_checked(after) {
                request = request.after(after);
            }
            let mut request = request.into_future();
            // twilight retries after a 429 without saying so, and immediately if the limit is global. But it calls this before
            // each try, so the budget also limits the second try. Without a rate limiter in the client, a proxy has to
            // prevent the 429.
            let was_tried = AtomicBool::new(false);
            request.set_pre_flight(move || !was_tried.swap(true, Ordering::Relaxed));
            let response = request.await.map_err(|error| match error.kind() {
                ErrorType::RequestCanceled => ListingError::Limited(UNNAMED_LIMIT),
                ErrorType::Response { status, .. } if status.get() == 429 => ListingError::Limited(UNNAMED_LIMIT),
                ErrorType::Unauthorized => ListingError::Forbidden,
                ErrorType::Response { status, .. } if matches!(status.get(), 401 | 403) => ListingError::Forbidden,
                _ => ListingError::Failed(error.to_string()),
            })?;
            let members = response.models().await.map_err(|error| ListingError::Failed(error.to_string()))?;
            let members = members.iter();
            Ok(page(
                members.map(|member| Member { user: member.user.id.get(), roles: role_ids(&member.roles) }).collect(),
            ))
        })
    }
}

#[cfg(feature = "twilight-cache")]
fn cached_holders(
    cache: &twilight_cache_inmemory::DefaultInMemoryCache,
    guild: u64,
    roles: &[u64],
) -> Option<Vec<Member>> {
    let guild = Id::new_checked(guild)?;
    let count = cache.guild(guild)?.member_count()?;
    let users: Vec<_> = cache.guild_members(guild)?.iter().copied().collect();
    if (users.len() as u64) < count {
        return None;
    }
    // A cached member keeps deleted roles.
    let exist = cache.guild_roles(guild)?.iter().map(|role| role.get()).collect::<HashSet<_>>();
    let mut holders = Vec::new();
    for user in users {
        let member = cache.member(guild, user)?;
        let mut held = role_ids(member.roles());
        held.retain(|role| exist.contains(role));
        if held.iter().any(|role| roles.contains(role)) {
            holders.push(Member { user: user.get(), roles: held });
        }
    }
    Some(holders)
}

fn guild_of(guild: &twilight_model::guild::Guild) -> Guild {
    Guild::new(guild.id.get(), guild.name.clone(), guild.owner_id.get(), guild.member_count.unwrap_or_default())
        .with_icon(guild.icon.map(|icon| icon.to_string()))
}

fn role_ids(roles: &[Id<RoleMarker>]) -> Vec<u64> {
    roles.iter().map(|role| role.get()).collect()
}
