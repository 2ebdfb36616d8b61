//! The bot's side: a world that is changed by the scenario.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bot_companion_feed::{
    CallbackError, Clock as _, Grants, Guild, GuildState, ListingError, Member, Page, ShardHealth, Source,
};
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;

use super::clock::SimulatedClock;

#[derive(Clone)]
pub struct WorldGuild {
    name: String,
    icon: Option<String>,
    owner: u64,
    members: u64,
    is_unavailable: bool,
    people: BTreeMap<u64, Vec<u64>>,
    is_cached: bool,
}

#[derive(Default)]
struct Inner {
    name: String,
    shard_count: u32,
    shards: Vec<u32>,
    has_members_intent: bool,
    order: Vec<u64>,
    guilds: HashMap<u64, WorldGuild>,
    /// The guilds that Discord named, by shard.
    named: HashMap<u32, Vec<u64>>,
}

#[derive(Clone)]
pub struct World {
    inner: Arc<Mutex<Inner>>,
    /// How listings end: in general, and by guild.
    listings: Arc<watch::Sender<(String, HashMap<u64, String>)>>,
}

/// An id, which is written as a string of digits.
pub fn id(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("not an id: {value}"))
}

pub fn ids(value: &Value) -> Vec<u64> {
    value.as_array().map(|ids| ids.iter().map(id).collect()).unwrap_or_default()
}

fn shard_of(guild: u64, count: u32) -> u32 {
    ((guild >> 22) % u64::from(count)) as u32
}

impl World {
    pub fn new(world: &Value) -> Self {
        let this = Self {
            inner: Arc::new(Mutex::new(Inner {
                name: world["name"].as_str().unwrap_or("lantern").to_owned(),
                shard_count: 1,
                shards: vec![0],
                has_members_intent: true,
                ..Inner::default()
            })),
            listings: Arc::new(watch::Sender::new(("ok".to_owned(), HashMap::new()))),
        };
        this.change(world);
        this
    }

    /// Applies a `world` step.
    pub fn change(&self, change: &Value) {
        let mut inner = self.inner.lock().unwrap();
        if let Some(count) = change["shard_count"].as_u64() {
            inner.shard_count = count as u32;
        }
        if let Some(shards) = change["shards"].as_array() {
            inner.shards = shards.iter().filter_map(Value::as_u64).map(|shard| shard as u32).collect();
        }
        if let Some(intents) = change["intents"].as_array() {
            inner.has_members_intent = intents.iter().any(|intent| intent == "members");
        }
        drop(inner);
        for guild in change["guilds"].as_array().into_iter().flatten() {
            self.change_guild(guild);
        }
        for guild in ids(&change["gone"]) {
            self.remove_guild(guild);
        }
    }

    /// Changes or adds a guild.
    pub fn change_guild(&self, change: &Value) -> u64 {
        let id_ = id(&change["id"]);
        let mut inner = self.inner.lock().unwrap();
        if !inner.guilds.contains_key(&id_) {
            inner.order.push(id_);
        }
        let guild = inner.guilds.entry(id_).or_insert_with(|| WorldGuild {
            name: format!("guild {id_}"),
            icon: None,
            owner: 10,
            members: 5,
            is_unavailable: false,
            people: BTreeMap::new(),
            is_cached: true,
        });
        for (field, value) in change.as_object().unwrap() {
            match field.as_str() {
                "name" => value.as_str().unwrap().clone_into(&mut guild.name),
                "icon" => guild.icon = value.as_str().map(str::to_owned),
                "owner" => guild.owner = id(value),
                "members" => guild.members = value.as_i64().unwrap().try_into().unwrap_or_default(),
                "unavailable" => guild.is_unavailable = value.as_bool().unwrap(),
                "cached" => guild.is_cached = value.as_bool().unwrap(),
                "people" => {
                    let people = value.as_object().unwrap().iter();
                    guild.people = people.map(|(user, roles)| (user.parse().unwrap(), ids(roles))).collect();
                }
                "id" => {}
                other => panic!("a guild has no field {other}"),
            }
        }
        id_
    }

    /// The guild was joined, or is available again.
    pub fn guild_here(&self, change: &Value) -> u64 {
        let guild = self.change_guild(change);
        let mut inner = self.inner.lock().unwrap();
        if change.get("unavailable").is_none() {
            inner.guilds.get_mut(&guild).unwrap().is_unavailable = false;
        }
        let shard = shard_of(guild, inner.shard_count);
        let named = inner.named.entry(shard).or_default();
        if !named.contains(&guild) {
            named.push(guild);
        }
        guild
    }

    pub fn remove_guild(&self, guild: u64) {
        let mut inner = self.inner.lock().unwrap();
        inner.guilds.remove(&guild);
        inner.order.retain(|one| *one != guild);
        inner.named.values_mut().for_each(|named| named.retain(|one| *one != guild));
    }

    pub fn begin_session(&self, shard: u32, named: &Value) {
        let mut inner = self.inner.lock().unwrap();
        let count = inner.shard_count;
        let named = match named.as_array() {
            Some(_) => ids(named),
            None => inner.order.iter().copied().filter(|guild| shard_of(*guild, count) == shard).collect(),
        };
        inner.named.insert(shard, named);
    }

    pub fn set_unavailable(&self, guild: u64) {
        self.with_guild(guild, |guild| guild.is_unavailable = true);
    }

    /// Sets the roles of a member, or removes them; the number of members grows by this.
    pub fn set_member(&self, guild: u64, user: u64, roles: Option<Vec<u64>>, growth: i64) {
        self.with_guild(guild, |guild| {
            guild.members = guild.members.saturating_add_signed(growth);
            match roles {
                Some(roles) => drop(guild.people.insert(user, roles)),
                None => drop(guild.people.remove(&user)),
            }
        });
    }

    /// A role was deleted: nobody holds it any more.
    pub fn remove_role(&self, guild: u64, role: u64) {
        self.with_guild(guild, |guild| guild.people.values_mut().for_each(|held| held.retain(|one| *one != role)));
    }

    pub fn set_listing(&self, how: &str, guild: Option<u64>) {
        self.listings.send_modify(|(general, by_guild)| {
            if let Some(guild) = guild {
                by_guild.insert(guild, how.to_owned());
            } else {
                how.clone_into(general);
                by_guild.clear();
            }
        });
    }

    fn with_guild(&self, guild: u64, change: impl FnOnce(&mut WorldGuild)) {
        if let Some(guild) = self.inner.lock().unwrap().guilds.get_mut(&guild) {
            change(guild);
        }
    }
}

impl Source for World {
    fn name(&self) -> Option<String> {
        Some(self.inner.lock().unwrap().name.clone())
    }

    fn library(&self) -> Option<String> {
        None
    }

    fn shard_count(&self) -> u32 {
        self.inner.lock().unwrap().shard_count
    }

    fn shards(&self) -> Vec<ShardHealth> {
        self.inner.lock().unwrap().shards.iter().map(|shard| ShardHealth::new(*shard)).collect()
    }

    fn guild_ids(&self, shard: u32) -> Vec<u64> {
        let inner = self.inner.lock().unwrap();
        let named = inner.named.get(&shard).cloned().unwrap_or_default();
        let known = inner.order.iter().copied().filter(|guild| named.contains(guild));
        let mut unknown: Vec<u64> = named.iter().copied().filter(|guild| !inner.guilds.contains_key(guild)).collect();
        unknown.sort_unstable();
        known.chain(unknown).collect()
    }

    fn guild(&self, id: u64) -> GuildState {
        let inner = self.inner.lock().unwrap();
        let shard = shard_of(id, inner.shard_count);
        if !inner.named.get(&shard).is_some_and(|named| named.contains(&id)) {
            return GuildState::Gone;
        }
        match inner.guilds.get(&id) {
            Some(guild) if !guild.is_unavailable => GuildState::Available(
                Guild::new(id, guild.name.clone(), guild.owner, guild.members).with_icon(guild.icon.clone()),
            ),
            _ => GuildState::Unavailable,
        }
    }

    fn has_members_intent(&self) -> bool {
        self.inner.lock().unwrap().has_members_intent
    }

    fn cached_holders(&self, guild: u64, roles: &[u64]) -> Option<Vec<Member>> {
        let inner = self.inner.lock().unwrap();
        let guild = inner.guilds.get(&guild).filter(|guild| guild.is_cached)?;
        let holders = guild.people.iter().filter(|(_, held)| held.iter().any(|role| roles.contains(role)));
        Some(holders.map(|(user, roles)| Member { user: *user, roles: roles.clone() }).collect())
    }

    fn list_members(&self, guild: u64, after: u64) -> BoxFuture<'static, Result<Page, ListingError>> {
        assert_eq!(after, 0, "a listing is one page");
        let inner = self.inner.lock().unwrap();
        let people = inner.guilds.get(&guild).map(|guild| guild.people.clone()).unwrap_or_default();
        let members = people.into_iter().map(|(user, roles)| Member { user, roles }).collect();
        let mut listings = self.listings.subscribe();
        Box::pin(async move {
            let how =
                |(general, by_guild): &(String, HashMap<u64, String>)| by_guild.get(&guild).unwrap_or(general).clone();
            let how = match listings.wait_for(|listings| how(listings) != "hang").await {
                Ok(listings) => how(&listings),
                Err(error) => panic!("{error}"),
            };
            match how.as_str() {
                "ok" => Ok(Page { members, is_last: true }),
                "forbidden" => Err(ListingError::Forbidden),
                _ => Err(ListingError::Failed("the listing fails".to_owned())),
            }
        })
    }
}

/// A mistake that Rust's types rule out.
const RULED_OUT: &str = "no callback in Rust can return this";

/// A callback whose result is set by the scenario.
#[derive(Clone)]
pub struct Callback(Arc<Mutex<(String, Value)>>, SimulatedClock);

impl Callback {
    pub fn new(value: &Value, clock: &SimulatedClock) -> Self {
        Self(Arc::new(Mutex::new(("answer".to_owned(), value.clone()))), clock.clone())
    }

    /// The wrong value that the callback returns, if any.
    fn slip(&self) -> Option<Value> {
        let inner = self.0.lock().unwrap();
        (inner.0 == "slip").then(|| inner.1.clone())
    }

    pub fn set(&self, does: &str, value: Option<&Value>) {
        let mut inner = self.0.lock().unwrap();
        does.clone_into(&mut inner.0);
        if let Some(value) = value {
            inner.1 = value.clone();
        }
    }

    async fn answer(&self) -> Result<Value, CallbackError> {
        let (does, value) = self.0.lock().unwrap().clone();
        match does.as_str() {
            "answer" => Ok(value),
            "fail" => Err("the callback fails".into()),
            "slow" => {
                self.1.sleep(Duration::from_secs(1)).await;
                Ok(value)
            }
            _ => std::future::pending().await,
        }
    }

    pub async fn grants(self, guild: u64) -> Result<Grants, CallbackError> {
        let roles = match self.slip() {
            Some(value) => value.as_object().cloned().ok_or(RULED_OUT)?,
            None => self.answer().await?[guild.to_string()].as_object().cloned().unwrap_or_default(),
        };
        roles.into_iter().try_fold(Grants::new(), |grants, (role, keys)| {
            let keys: Option<Vec<&str>> = keys.as_array().ok_or(RULED_OUT)?.iter().map(Value::as_str).collect();
            Ok(grants.role(role, keys.ok_or(RULED_OUT)?))
        })
    }

    pub async fn flag(self, guild: u64) -> Result<bool, CallbackError> {
        match self.slip() {
            Some(value) => Ok(value.as_bool().ok_or(RULED_OUT)?),
            None => Ok(self.answer().await?[guild.to_string()].as_bool().unwrap_or_default()),
        }
    }

    pub async fn entries(self) -> Result<Vec<Value>, CallbackError> {
        match self.slip() {
            Some(value) => Ok(value.as_array().cloned().ok_or(RULED_OUT)?),
            None => Ok(self.answer().await?.as_array().cloned().unwrap_or_default()),
        }
    }
}
