//! How domain values are stored in columns, in either store. Text that should be JSON is read as leniently as possible: broken
//! parts are skipped with a warning, and the rest still counts.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use domain::feed::InstanceName;
use domain::history::BotState;
use domain::history::update::UpdatePhase;
use domain::{ListedGuild, Permission, PermissionSet, Picture, SessionId, Snowflake, Time, User};
use runtime::clock::Clock;
use serde::Serialize;
use serde_json::Value as Json;

use crate::backup::value::CellValue;
use crate::sql::{FromCell, ToValue, Value};

/// Warns about broken data, at most once per minute and kind, because anyone can cause it to be read over and over.
macro_rules! warn_broken {
    ($($told:tt)*) => {{
        static THROTTLE: std::sync::LazyLock<telemetry::log_throttle::Throttle> =
            std::sync::LazyLock::new(telemetry::log_throttle::Throttle::default);
        if let Some(count) = THROTTLE.count(crate::columns::ticks()) {
            tracing::warn!(count, $($told)*);
        }
    }};
}
pub(super) use warn_broken;

/// The time for the throttles of [`warn_broken`].
pub(super) fn ticks() -> Duration {
    static CLOCK: LazyLock<Clock> = LazyLock::new(Clock::system);
    CLOCK.ticks()
}

/// A domain value that is stored in one column, as a number or text.
pub(super) trait Column: Sized {
    type Stored;

    fn stored(&self) -> Self::Stored;
}

/// Stores a type as the number or text that `$as` returns, and reads it back with `$from`.
macro_rules! column {
    ($type:ident, $stored:ty, $as:expr, $from:expr) => {
        impl Column for $type {
            type Stored = $stored;

            fn stored(&self) -> $stored {
                ($as)(self)
            }
        }

        impl ToValue for $type {
            fn value(&self) -> Value<'_> {
                Column::stored(self).into()
            }
        }

        impl FromCell for $type {
            const NAME: &'static str = stringify!($type);

            fn from_cell(cell: &CellValue) -> Option<Self> {
                <$stored>::from_cell(cell).and_then($from)
            }
        }
    };
}

column!(Snowflake, i64, |id: &Self| integer(id.get()), |number: i64| u64::try_from(number).ok().and_then(Self::new));
column!(Time, i64, |time: &Self| integer(time.millis()), |millis: i64| Some(Self::from_millis(unsigned(millis))));
column!(Picture, String, |picture: &Self| picture.stored().to_owned(), |text: String| Some(text.into()));
column!(SessionId, String, |id: &Self| id.as_str().to_owned(), |text: String| Self::parse(&text));
column!(BotState, String, |state: &Self| state.name().to_owned(), |name: String| Self::parse(&name));
column!(UpdatePhase, String, |phase: &Self| phase.name().to_owned(), |name: String| Self::parse(&name));
column!(InstanceName, String, |name: &Self| name.as_str().to_owned(), |text: String| Self::parse(&text));

impl<T: Column> Column for Option<T> {
    type Stored = Option<T::Stored>;

    fn stored(&self) -> Self::Stored {
        self.as_ref().map(T::stored)
    }
}

/// The number as stored in a column. A number with the top bit set, like the end of time, does not fit and becomes the largest.
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The number stored in a column; zero for a negative one, which we never write.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(super) fn json(value: &impl Serialize) -> String {
    // Our own plain types cannot fail; an empty text would be read as nothing, with a warning.
    serde_json::to_string(value).unwrap_or_default()
}

/// The grants of a guild's roles, as JSON text.
pub(super) fn grants_text(grants: &BTreeMap<Snowflake, PermissionSet>) -> String {
    let named: BTreeMap<_, Vec<_>> = grants.iter().map(|(role, keys)| (role, names(*keys))).collect();
    json(&named)
}

/// The grants of a guild's roles, without those that no guild may give.
pub(super) fn grants(text: &str) -> BTreeMap<Snowflake, PermissionSet> {
    let Ok(Json::Object(roles)) = serde_json::from_str(text) else {
        warn_broken!("ignored the stored grants of a guild: not a JSON object");
        return BTreeMap::new();
    };
    let mut grants = BTreeMap::new();
    for (role, keys) in roles {
        if let Ok(role) = role.parse() {
            grants.insert(role, key_set(keys).intersection(PermissionSet::GRANTABLE));
        } else {
            warn_broken!("ignored a stored grant of a guild: not a role id");
        }
    }
    grants
}

pub(super) fn keys_text(keys: PermissionSet) -> String {
    json(&names(keys))
}

/// What the roster grants a team member, without what no roster may grant.
pub(super) fn team_keys(text: &str) -> PermissionSet {
    key_set(serde_json::from_str(text).unwrap_or_default()).intersection(PermissionSet::TEAM)
}

pub(super) fn roles(text: &str) -> Vec<Snowflake> {
    elements("roles of a member", text)
}

/// The provider's list of a user's guilds.
pub(super) fn listed(text: &str) -> Vec<ListedGuild> {
    elements("list of a user's guilds", text)
}

/// The same list without a guild that the user has left.
pub(super) fn list_without(text: &str, guild: Snowflake) -> String {
    let mut list = listed(text);
    list.retain(|listed| listed.id != guild);
    json(&list)
}

/// The user of a settled claim. One that cannot be read counts as none, because the code is used up either way.
pub(super) fn claim_user(text: &str) -> Option<User> {
    serde_json::from_str(text).inspect_err(|_| warn_broken!("ignored the stored user of a code claim")).ok()
}

fn names(keys: PermissionSet) -> Vec<&'static str> {
    keys.keys().map(Permission::name).collect()
}

fn key_set(keys: Json) -> PermissionSet {
    let Json::Array(keys) = keys else {
        warn_broken!("ignored stored permission keys: not a JSON array");
        return PermissionSet::EMPTY;
    };
    let known = |key: &Json| {
        let permission = key.as_str().and_then(Permission::from_name);
        if permission.is_none() {
            warn_broken!("ignored a stored permission key: unknown");
        }
        permission
    };
    keys.iter().filter_map(known).collect()
}

fn elements<T: serde::de::DeserializeOwned>(what: &str, text: &str) -> Vec<T> {
    let Ok(Json::Array(values)) = serde_json::from_str(text) else {
        warn_broken!(what, "ignored stored text: not a JSON array");
        return Vec::new();
    };
    let read =
        |value| serde_json::from_value(value).inspect_err(|_| warn_broken!(what, "left out a stored element")).ok();
    values.into_iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> Snowflake {
        Snowflake::new(number).unwrap()
    }

    #[test]
    fn grants_come_back() {
        let given: BTreeMap<_, _> =
            [(id(1), PermissionSet::of(&[Permission::Mod, Permission::Admin])), (id(2), PermissionSet::EMPTY)].into();
        assert_eq!(grants(&grants_text(&given)), given);
    }

    #[test]
    fn a_broken_part_does_not_break_the_rest() {
        let of = |keys: &[Permission]| PermissionSet::of(keys);
        let read = grants(r#"{"1": ["MOD", 7, "NOPE", "FOUNDER"], "x": ["MOD"], "2": "MOD", "3": ["ADMIN"]}"#);
        let expected =
            [(id(1), of(&[Permission::Mod])), (id(2), PermissionSet::EMPTY), (id(3), of(&[Permission::Admin]))];
        assert_eq!(read, expected.into());
        for broken in ["", "[]", "{\"1\": ", "null"] {
            assert!(grants(broken).is_empty(), "{broken}");
            assert!(team_keys(broken).is_empty(), "{broken}");
        }
        assert_eq!(roles(r#"["5", "x", 6, "7"]"#), [id(5), id(7)]);
        assert_eq!(
            listed(r#"[{"id": "5"}, {"id": "7", "permissions": 8}]"#),
            [ListedGuild { id: id(7), permissions: 8, name: String::new(), icon: None }]
        );
        assert!(listed("{").is_empty());
        assert_eq!(claim_user(r#"{"id": "5"}"#), None);
    }

    #[test]
    fn only_the_team_has_the_keys_of_the_team() {
        assert_eq!(team_keys(r#"["SUPPORT", "MOD", "NOPE"]"#), PermissionSet::of(&[Permission::Support]));
    }

    #[test]
    fn a_guild_that_was_left_is_off_the_list() {
        let list = r#"[{"id":"5","permissions":8},{"id":"7","permissions":0}]"#;
        for (guild, left) in [(5, r#"[{"id":"7","permissions":0}]"#), (6, list), (7, r#"[{"id":"5","permissions":8}]"#)]
        {
            assert_eq!(list_without(list, id(guild)), left);
        }
    }

    #[test]
    fn numbers_beyond_a_column_become_the_largest() {
        assert_eq!(integer(u64::MAX), i64::MAX);
        assert_eq!(unsigned(-1), 0);
    }
}
