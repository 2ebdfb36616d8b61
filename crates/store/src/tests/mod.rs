//! The tests of the trait, which run on every store; what they share; and the tests that need more than one store.

/// Turns each of these functions, which take a [`Fixture`], into two tests: one per store.
macro_rules! on_each_store {
    ($($test:ident),+ $(,)?) => {$(
        mod $test {
            use crate::tests::Fixture;

            #[tokio::test]
            async fn on_sqlite() {
                super::$test(Fixture::on_sqlite().await).await;
            }

            #[tokio::test]
            async fn on_postgres() {
                if let Some(fixture) = Fixture::on_postgres().await {
                    super::$test(fixture).await;
                }
            }
        }
    )+};
}

mod bot_history;
mod consistency;
mod data;
mod feed;
mod feedback;
mod fixture;
mod history;
mod parity;
mod people;
mod person_places;
mod proxy;
mod read_only;
mod replicas;
mod server;
mod slow_server;
mod snapshots;
mod speed;
mod totals;
mod upkeep;
mod watch;

use std::time::Duration;

use domain::feed::{GuildLine, InstanceId, LostShards, Scope, ShardKey};
use domain::{Guild, ListedGuild, Permission, PermissionSet, Session, SessionId, Snowflake, Time, TokenHash, User};

use crate::{BatchOutcome, BotKey, CodeHash, SealedGrant, Store, StoredList, UnownedEvents};
pub(crate) use test_support::TestFolder;

pub(crate) use self::fixture::{Fixture, Replica, new_freshness};
pub(crate) use self::server::{Database, connect};

pub(crate) const NOW: Time = Time::from_seconds(1_000_000);

/// The SQLite file in the folder of its test, inside another folder that does not exist yet.
pub(crate) const FILE: &str = "deep/store.db";

pub(crate) fn id(number: u64) -> Snowflake {
    Snowflake::new(number).unwrap()
}

pub(crate) fn person(number: u64) -> User {
    User { username: format!("u{number}"), name: format!("U {number}"), id: id(number), avatar: "https://a".into() }
}

pub(crate) fn grant(number: u8) -> SealedGrant {
    SealedGrant(vec![number; 8])
}

pub(crate) fn token(number: u8) -> TokenHash {
    TokenHash([number; 32])
}

pub(crate) fn code(number: u8) -> CodeHash {
    CodeHash([number; 32])
}

pub(crate) fn session_id(number: u8) -> SessionId {
    SessionId::parse(&format!("{number:016}")).unwrap()
}

/// Device `n` signed in `n` seconds after `NOW`.
pub(crate) fn session(user: u64, device: u8) -> Session {
    let created = NOW.after(Duration::from_secs(device.into()));
    Session { id: session_id(device), user: id(user), created, last_seen: created, agent: "test".to_owned() }
}

pub(crate) fn list(guilds: &[u64]) -> StoredList {
    let guilds = guilds
        .iter()
        .map(|guild| ListedGuild { id: id(*guild), permissions: 8, name: format!("guild {guild}"), icon: None })
        .collect();
    StoredList { fetched: NOW, guilds }
}

pub(crate) fn guild(number: u64) -> Guild {
    Guild {
        id: id(number),
        name: format!("G {number}"),
        icon: None,
        owner: id(1),
        members: 10,
        setup: true,
        linked: false,
        grants: None,
        staff: None,
    }
}

/// A guild whose position among shards is `number`.
pub(crate) fn placed(number: u64) -> Snowflake {
    id(number << 22)
}

/// The key of every instance that does not name another, and its stored form.
pub(crate) const KEY: &str = "bot";

/// Makes the key valid.
pub(crate) async fn admit(store: &Store) {
    let key = BotKey { id: KEY.to_owned(), label: String::new(), created: NOW, revoked: None };
    store.add_key(key, token(200)).await.unwrap();
}

pub(crate) fn instance(name: &str) -> InstanceId {
    InstanceId::parse(KEY, name).unwrap()
}

pub(crate) fn applied(applied: u64, ignored: u64, next: u64) -> BatchOutcome {
    BatchOutcome::Applied { applied, ignored, next, unowned: UnownedEvents::default(), lost: LostShards::default() }
}

/// The same, with this many that belong to another instance, which has taken the only shard.
pub(crate) fn overruled(applied: u64, overruled: u64, by: &str, next: u64) -> BatchOutcome {
    let unowned = UnownedEvents { overruled, owner: Some(instance(by)), unclaimed: 0 };
    let lost = LostShards { replaced: vec![ShardKey { count: 1, id: 0 }], free: Vec::new() };
    BatchOutcome::Applied { applied, ignored: overruled, next, unowned, lost }
}

pub(crate) fn shard(id: u32, count: u32) -> Scope {
    Scope::Shard(ShardKey::new(count, id).unwrap())
}

/// A guild with that place and name, whose only moderator is this user.
pub(crate) fn line(place: u64, name: &str, moderator: u64) -> GuildLine {
    let grants = [(id(70), PermissionSet::of(&[Permission::Mod]))];
    GuildLine::Guild(Guild {
        id: placed(place),
        name: name.to_owned(),
        grants: Some(grants.into()),
        staff: Some([(id(moderator), vec![id(70)])].into()),
        ..guild(1)
    })
}
