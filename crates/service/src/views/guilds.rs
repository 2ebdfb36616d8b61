//! `GET /guilds`, `GET /guilds/{id}` and `GET /guilds/invitable`: the cached responses per user.

use std::sync::Arc;
use std::time::Duration;

use api::guilds::{self, GuildList};
use domain::{Snowflake, Time, guild};
use store::freshness::Marking;
use store::{Account, Topic};
use telemetry::metrics::CacheName;

use super::cached::{CacheMap, CacheRead, Cached, Marked, Weigh};
use super::compressible::CompressibleBody;
use crate::accounts::{self, GuildLists, ListAge, ListError};
use crate::config::{Config, GuildsConfig};
use crate::sources::Sources;

/// How many bytes of responses are cached: for lists, and for guilds to invite the bot to, which fewer people request.
const CACHED_BYTES: u64 = 64 << 20;
const CACHED_INVITABLE_BYTES: u64 = 8 << 20;
const ESTIMATED_RESPONSES: usize = 16_384;

/// Which guilds of a user a response lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    WithBot,
    /// Those that the user may manage and that are known not to have it.
    Invitable,
}

pub struct GuildsView {
    sources: Sources,
    lists: Arc<GuildLists>,
    cache: CacheMap<Snowflake, GuildsResponse>,
    invitable: CacheMap<Snowflake, GuildsResponse>,
    invite_url: String,
    limits: GuildsConfig,
}

/// A user's response that is ready to send.
#[derive(Debug)]
pub struct GuildsResponse {
    pub list: GuildList,
    pub body: CompressibleBody,
    /// When the provider's list was fetched.
    fetched: Time,
    /// The version of the stored list it is built from.
    list_version: u64,
    listed: usize,
    /// When a subscription that it shows as active ends.
    expires: Option<Time>,
    /// What decides which guilds it contains, and when it expires.
    outline: Marked,
}

/// A response under construction: a user's account, and the marks it was read under.
struct AccountRead<'a> {
    read: CacheRead<'a>,
    outline: Marking<'a>,
    account: Account,
}

/// What a live stream watches about a user's list.
#[derive(Debug)]
pub struct WatchedList {
    /// Everything the list consists of.
    pub all: Marked,
    /// What decides which guilds those are, and when it expires. While this is unchanged, the list can be
    /// watched without reading it again.
    pub outline: Marked,
    /// When it expires on its own.
    pub expires: Option<Time>,
}

impl GuildsResponse {
    /// The age of the provider's list in it.
    pub fn age(&self, now: Time) -> Duration {
        accounts::age(self.fetched, now)
    }

    /// Whether a subscription that it shows as active has ended.
    fn has_expired(&self, now: Time) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }
}

impl Weigh for GuildsResponse {
    fn weight(&self) -> usize {
        self.body.largest_size() + self.list.index_size() + 4 * self.listed + 128
    }
}

impl GuildsView {
    pub(super) fn new(sources: &Sources, lists: Arc<GuildLists>, config: &Config) -> Self {
        Self {
            sources: sources.clone(),
            lists,
            cache: CacheMap::new(CacheName::Guilds, sources, ESTIMATED_RESPONSES, CACHED_BYTES),
            invitable: CacheMap::new(CacheName::Invitable, sources, ESTIMATED_RESPONSES / 8, CACHED_INVITABLE_BYTES),
            invite_url: config.idp.invite_url.replace("{client_id}", &encoded(&config.idp.client_id)),
            limits: config.guilds.clone(),
        }
    }

    /// A user's response, if it is cached and fresh and the provider's list in it needs no refresh.
    pub fn cached(&self, listing: Listing, user: Snowflake, now: Time) -> Option<Arc<Cached<GuildsResponse>>> {
        self.cached_of_any_age(listing, user, now).filter(|response| self.list_age(response, now) == ListAge::Recent)
    }

    /// A user's response; `forced` asks the provider first. Stale if the store cannot be reached.
    pub async fn get(
        &self,
        listing: Listing,
        user: Snowflake,
        forced: bool,
    ) -> Result<Arc<Cached<GuildsResponse>>, ListError> {
        if !forced && let Some(cached) = self.cached(listing, user, self.sources.clock.now()) {
            return Ok(cached);
        }
        match self.get_current(listing, user, forced).await {
            Err(ListError::Store(error)) => Ok(self.cache_of(listing).or_stale(error, &user, |stale| {
                let now = self.sources.clock.now();
                (!stale.has_expired(now) && self.list_age(&stale, now) != ListAge::Expired).then_some(stale)
            })?),
            outcome => outcome,
        }
    }

    async fn get_current(
        &self,
        listing: Listing,
        user: Snowflake,
        forced: bool,
    ) -> Result<Arc<Cached<GuildsResponse>>, ListError> {
        let mut read = self.read_account(user).await?;
        let fetched = read.account.list.as_ref().map(|list| list.fetched);
        // Even a failed refresh may have taken so long that the account has changed.
        if self.lists.ensure_usable(user, fetched, forced).await? || !read.outline.is_fresh() {
            read = self.read_account(user).await?;
        }
        // Another replica may have stored a list that this one does not know about yet, so the response must be built from the
        // stored one.
        match self.cached_of_any_age(listing, user, self.sources.clock.now()) {
            Some(cached) if read.account.list_version == cached.list_version => Ok(cached),
            _ => self.respond(listing, user, read).await,
        }
    }

    /// What the list of a user's guilds with the bot consists of. Does not ask the provider.
    pub async fn watch(&self, user: Snowflake) -> Result<WatchedList, ListError> {
        let response = match self.cached_of_any_age(Listing::WithBot, user, self.sources.clock.now()) {
            Some(cached) => cached,
            None => self.respond(Listing::WithBot, user, self.read_account(user).await?).await?,
        };
        Ok(WatchedList { all: response.marked(), outline: response.outline.clone(), expires: response.expires })
    }

    /// How many responses of this kind are cached.
    pub(super) fn entries(&self, listing: Listing) -> usize {
        self.cache_of(listing).len()
    }

    fn cache_of(&self, listing: Listing) -> &CacheMap<Snowflake, GuildsResponse> {
        match listing {
            Listing::WithBot => &self.cache,
            Listing::Invitable => &self.invitable,
        }
    }

    fn list_age(&self, response: &GuildsResponse, now: Time) -> ListAge {
        ListAge::of(&self.limits, response.fetched, now)
    }

    fn cached_of_any_age(&self, listing: Listing, user: Snowflake, now: Time) -> Option<Arc<Cached<GuildsResponse>>> {
        self.cache_of(listing).get_fresh(&user).filter(|response| !response.has_expired(now))
    }

    async fn read_account(&self, user: Snowflake) -> Result<AccountRead<'_>, ListError> {
        let mut read = CacheRead::begin(&self.sources);
        let mut outline = self.sources.freshness.marking();
        outline.depend_on([Topic::Id(user)]);
        let account = read.depend_on([Topic::Id(user)]).account(user).await?.ok_or(ListError::SignedOut)?;
        Ok(AccountRead { read, outline, account })
    }

    async fn respond(
        &self,
        listing: Listing,
        user: Snowflake,
        AccountRead { mut read, mut outline, account }: AccountRead<'_>,
    ) -> Result<Arc<Cached<GuildsResponse>>, ListError> {
        self.cache_of(listing).count_miss();
        let (stored, list_version) = (account.list.ok_or(ListError::SignedOut)?, account.list_version);

        let ids: Vec<Snowflake> = match listing {
            Listing::WithBot => stored.guilds.iter().map(|guild| guild.id).collect(),
            Listing::Invitable => guild::manageable(&stored.guilds, &provider::RULES).map(|guild| guild.id).collect(),
        };
        let listed = ids.len();
        if listing == Listing::WithBot {
            outline.depend_on(ids.iter().copied().map(Topic::PremiumEndOf));
        }
        let store = read.depend_on(ids.iter().copied().map(Topic::Id));
        let (list, expires) = match listing {
            Listing::WithBot => {
                let facts = store.person(user, ids).await?;
                let now = self.sources.clock.now();
                let expires = guild::expiry(&facts, now);
                let entries = guild::entries(user, &stored.guilds, facts, now, &provider::RULES);
                (GuildList::new(entries, &self.sources.pictures), expires)
            }
            Listing::Invitable => {
                let without_bot = store.without_bot(ids).await?;
                let invite = |guild: Snowflake| self.invite_url.replace("{guild}", &guild.to_string());
                let invitable = guild::invitable(&stored.guilds, &without_bot, &provider::RULES);
                (guilds::invitable(invitable, invite, &self.sources.pictures), None)
            }
        };
        let body = CompressibleBody::new(list.body.clone());
        let (fetched, outline) = (stored.fetched, Marked::end(outline));
        let response = GuildsResponse { list, body, fetched, list_version, listed, expires, outline };
        Ok(self.cache_of(listing).insert(user, read, response))
    }
}

/// Encodes a value for a URL's query.
fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
