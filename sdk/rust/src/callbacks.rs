//! The bot's callbacks: their time limits and last answers.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::ser::{Error as _, SerializeStruct as _};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::clock::Clock;
use crate::source::Guild;
use crate::status::Reporter;

/// Why a callback failed. `?` converts every error to it.
pub type CallbackError = Box<dyn std::error::Error + Send + Sync>;

/// What a role can grant in a guild.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the service's own names")]
pub enum Permission {
    ErlcManager,
    ErlcAdmin,
    ErlcStaff,
    Admin,
    Mod,
    SessionStarter,
}

/// All keys that a role can grant.
const KEYS: [&str; 6] = ["ERLC_MANAGER", "ERLC_ADMIN", "ERLC_STAFF", "ADMIN", "MOD", "SESSION_STARTER"];

impl From<Permission> for String {
    fn from(permission: Permission) -> Self {
        KEYS[permission as usize].to_owned()
    }
}

/// What the roles of a guild grant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(BTreeMap<String, Vec<String>>);

impl Grants {
    /// Grants nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what a role grants. The role is an ID, as a number, a string, or the bot library's own type. You can also give
    /// permissions by name.
    ///
    /// If a role is not an ID, the whole answer is invalid: that is logged, and the guild's previous grants stay.
    #[must_use]
    pub fn role<P: Into<String>>(mut self, role: impl Display, permissions: impl IntoIterator<Item = P>) -> Self {
        self.0.entry(role.to_string()).or_default().extend(permissions.into_iter().map(Into::into));
        self
    }
}

/// Who pays for premium, and for which guilds. Several of one user become one: their guilds together, their slots added, and the
/// latest end; those that have ended are left out, unless all have. The service refuses more than 1,000,000 slots, more than 10,000 guilds, an ID
/// of 0, and a time before 1970 or after the year 9999.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscription {
    /// Who pays.
    pub user: u64,
    /// How many guilds it covers. For display only: the service shows premium in every guild listed below.
    pub slots: u32,
    /// The guilds it covers.
    pub guilds: Vec<u64>,
    /// Epoch seconds; `None` if it never ends.
    pub active_until: Option<f64>,
}

impl Serialize for Subscription {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.active_until.is_some_and(|time| !time.is_finite()) {
            // JSON has no such number: it would become `null`, which means premium that never ends.
            return Err(S::Error::custom("active_until is not a finite number"));
        }
        let guilds: Vec<String> = self.guilds.iter().map(u64::to_string).collect();
        let mut fields = serializer.serialize_struct("Subscription", 4)?;
        fields.serialize_field("userid", &self.user.to_string())?;
        fields.serialize_field("slots", &self.slots)?;
        fields.serialize_field("guilds", &guilds)?;
        fields.serialize_field("active_until", &self.active_until)?;
        fields.end()
    }
}

/// A member of the bot's team, as in `GET /team`, plus permissions. The service refuses the whole team if one member has
/// an invalid field.
#[derive(Clone, Debug, Serialize)]
pub struct TeamMember {
    /// The user's ID, in digits.
    pub discord_id: String,
    /// The username on the platform, 1 to 100 characters.
    pub username: String,
    /// The name to show, 1 to 100 characters; `None` for the username.
    pub name: Option<String>,
    /// An https URL, or the hash of the user's avatar; `None` for the default one.
    pub avatar: Option<String>,
    /// A title, 1 to 100 characters.
    pub role: String,
    /// `#RRGGBB`.
    pub color: String,
    /// A lower-case word of 1 to 64 characters.
    pub category: String,
    /// The position in the list.
    pub position: u32,
    /// Any of `FOUNDER`, `EXECUTIVE`, `MANAGEMENT`, `SERVICE_STAFF`, `SUPPORT`, `QUALITY_ASSURANCE`, `DOCWRITER`,
    /// `WEB_DEVELOPER` and `BOT_DEVELOPER`.
    pub permissions: Vec<String>,
}

type Answer<T> = BoxFuture<'static, Result<T, CallbackError>>;
type GuildCallback<T> = Arc<dyn Fn(Guild) -> Answer<T> + Send + Sync>;
type ListCallback = Arc<dyn Fn() -> Answer<Vec<String>> + Send + Sync>;

/// The bot's callbacks.
#[derive(Clone, Default)]
pub(crate) struct Callbacks {
    pub(crate) grants: Option<GuildCallback<Grants>>,
    pub(crate) setup: Option<GuildCallback<bool>>,
    pub(crate) linked: Option<GuildCallback<bool>>,
    pub(crate) subscriptions: Option<ListCallback>,
    pub(crate) team: Option<ListCallback>,
}

/// Turns a closure into a callback about a guild.
pub(crate) fn guild_callback<T, F, A>(callback: F) -> GuildCallback<T>
where
    F: Fn(Guild) -> A + Send + Sync + 'static,
    A: Future<Output = Result<T, CallbackError>> + Send + 'static,
{
    Arc::new(move |guild| Box::pin(callback(guild)))
}

/// Checks an entry; the error says what is missing.
pub(crate) type Check = fn(&Value) -> Result<(), &'static str>;

/// Turns a closure that returns entries into a callback; each entry becomes a line. If one entry is incomplete, the whole
/// answer is invalid: a slip must not take anything away.
pub(crate) fn list_callback<T, F, A>(callback: F, check: Check) -> ListCallback
where
    T: Serialize,
    F: Fn() -> A + Send + Sync + 'static,
    A: Future<Output = Result<Vec<T>, CallbackError>> + Send + 'static,
{
    Arc::new(move || {
        let answer = callback();
        Box::pin(async move {
            let entries = answer.await?;
            let line = |(index, entry): (usize, &T)| -> Result<String, CallbackError> {
                let line = serde_json::to_string(entry)?;
                check(&serde_json::from_str(&line)?).map_err(|lack| format!("entry {} {lack}", index + 1))?;
                Ok(line)
            };
            entries.iter().enumerate().map(line).collect()
        })
    })
}

/// An ID as it is sent: a string of digits.
fn is_id(value: &Value) -> bool {
    value.as_str().is_some_and(|text| role_id(text).is_some())
}

/// The platform's IDs fit into 63 bits.
fn role_id(text: &str) -> Option<u64> {
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|id: &i64| is_digits && *id > 0).map(i64::unsigned_abs)
}

/// What a subscription must have. The service checks the rest.
pub(crate) fn check_subscription(entry: &Value) -> Result<(), &'static str> {
    let Some(entry) = entry.as_object() else { return Err("is not a subscription") };
    if !entry.get("userid").is_some_and(is_id) {
        return Err("has no `userid`: an ID in digits, as text");
    }
    if !entry.get("slots").is_some_and(|slots| slots.is_i64() || slots.is_u64()) {
        return Err("has no `slots`: a whole number");
    }
    if !entry.get("guilds").and_then(Value::as_array).is_some_and(|guilds| guilds.iter().all(is_id)) {
        return Err("has no `guilds`: a list of IDs in digits, as text");
    }
    if !entry.get("active_until").is_some_and(|time| time.is_null() || time.is_number()) {
        return Err("has no `active_until`: a time in epoch seconds, or null if it never ends");
    }
    Ok(())
}

/// The service checks what a team member must have.
pub(crate) fn check_team_member(entry: &Value) -> Result<(), &'static str> {
    if entry.is_object() { Ok(()) } else { Err("is not a team member") }
}

/// The callbacks' answers for a guild.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) setup: bool,
    pub(crate) linked: bool,
    pub(crate) grants: BTreeMap<u64, Vec<String>>,
}

impl Answers {
    /// The roles whose members are staff. The guild's own ID stands for everyone.
    pub(crate) fn granting_roles(&self, guild: u64) -> Vec<u64> {
        self.grants.keys().copied().filter(|role| *role != guild).collect()
    }
}

/// The last answer of each callback.
#[derive(Clone, Default)]
struct Last {
    setup: Option<bool>,
    linked: Option<bool>,
    grants: Option<BTreeMap<u64, Vec<String>>>,
}

/// The last answers of all guilds.
#[derive(Default)]
pub(crate) struct LastAnswers(HashMap<u64, Last>);

/// What a guild's callbacks returned this time.
pub(crate) struct Asked {
    setup: Option<bool>,
    linked: Option<bool>,
    grants: Option<BTreeMap<u64, Vec<String>>>,
}

impl Asked {
    pub(crate) fn has_failed(&self) -> bool {
        self.setup.is_none() || self.linked.is_none() || self.grants.is_none()
    }
}

impl LastAnswers {
    /// The last answers for a guild, if every callback has given one.
    pub(crate) fn of(&self, guild: u64) -> Option<Answers> {
        let last = self.0.get(&guild)?.clone();
        Some(Answers { setup: last.setup?, linked: last.linked?, grants: last.grants? })
    }

    /// Keeps this time's answers; where a callback failed, its last answer counts.
    pub(crate) fn keep(&mut self, guild: u64, asked: Asked) -> Option<Answers> {
        let last = self.0.entry(guild).or_default();
        last.setup = asked.setup.or(last.setup);
        last.linked = asked.linked.or(last.linked);
        if asked.grants.is_some() {
            last.grants = asked.grants;
        }
        self.of(guild)
    }

    pub(crate) fn retain(&mut self, stays: impl Fn(u64) -> bool) {
        self.0.retain(|guild, _| stays(*guild));
    }

    pub(crate) fn forget(&mut self, guild: u64) {
        self.0.remove(&guild);
    }
}

impl Callbacks {
    /// Calls a guild's three callbacks at the same time.
    pub(crate) async fn ask(&self, guild: &Guild, time: &Time<'_>) -> Asked {
        let ask_bool = async |name, callback: &Option<GuildCallback<bool>>| match callback {
            Some(callback) => time.limit(name, || callback(guild.clone())).await,
            None => Some(false),
        };
        let ask_grants = async {
            match &self.grants {
                Some(callback) => {
                    let grants = time.limit("grants", || callback(guild.clone())).await;
                    grants.and_then(|grants| sane(grants, time))
                }
                None => Some(BTreeMap::new()),
            }
        };
        let (grants, setup, linked) =
            tokio::join!(ask_grants, ask_bool("setup", &self.setup), ask_bool("linked", &self.linked));
        Asked { setup, linked, grants }
    }
}

/// The time limit for callbacks, and where their failures are logged.
pub(crate) struct Time<'a> {
    pub(crate) clock: &'a dyn Clock,
    pub(crate) limit: Duration,
    pub(crate) reporter: &'a Reporter,
}

impl Time<'_> {
    /// The callback's answer, if it comes in time.
    pub(crate) async fn limit<T>(&self, name: &str, call: impl FnOnce() -> Answer<T>) -> Option<T> {
        let answer = AssertUnwindSafe(async { call().await }).catch_unwind();
        let problem: &dyn Display = tokio::select! {
            biased;
            answer = answer => match answer {
                Ok(Ok(answer)) => return Some(answer),
                Ok(Err(error)) => return self.fail(name, &error),
                Err(_) => &"it panicked",
            },
            () = self.clock.sleep(self.limit) => &"it took too long",
        };
        self.fail(name, problem)
    }

    fn fail<T>(&self, name: &str, problem: &dyn Display) -> Option<T> {
        self.reporter.count(|counters| counters.callback_failures += 1);
        self.reporter.warn_once(
            &format!("callback {name}"),
            &format!("the callback {name} failed: {problem}. Its last answer is used, and it will be called again"),
        );
        None
    }
}

/// Leaves out keys that no role can grant. If a role is not an ID, the whole answer is invalid.
fn sane(grants: Grants, time: &Time<'_>) -> Option<BTreeMap<u64, Vec<String>>> {
    let mut sane = BTreeMap::new();
    for (role, keys) in grants.0 {
        let Some(id) = role_id(&role) else {
            return time.fail("grants", &format!("it names the role {role:?}, which is not an ID"));
        };
        let (known, unknown): (Vec<String>, Vec<String>) =
            keys.into_iter().partition(|key| KEYS.contains(&key.as_str()));
        for key in unknown {
            let meant = KEYS.iter().min_by_key(|known| distance(&key, known)).copied().unwrap_or_default();
            time.reporter.warn_once(
                &format!("grants key {key}"),
                &format!(
                    "grants names the key {key:?} for the role {role}, which no role can grant; did you mean {meant}? It is \
                     left out"
                ),
            );
        }
        if !known.is_empty() {
            sane.insert(id, known);
        }
    }
    Some(sane)
}

/// The edit distance: how many characters have to be changed, added or removed.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, a) in one.to_uppercase().chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_callback_has_its_own_last_answer() {
        let asked = |setup, linked, roles: Option<&[u64]>| Asked {
            setup,
            linked,
            grants: roles.map(|roles| roles.iter().map(|role| (*role, vec!["MOD".to_owned()])).collect()),
        };
        let mut last = LastAnswers::default();
        assert_eq!(last.keep(1, asked(Some(true), None, Some(&[50]))), None, "linked has never answered");
        let answers = last.keep(1, asked(None, Some(true), None)).unwrap();
        assert!(answers.setup && answers.linked);
        assert_eq!(answers.granting_roles(1), [50]);
        assert_eq!(last.keep(2, asked(None, Some(true), None)), None, "another guild has its own");
        let answers = last.keep(1, asked(Some(false), None, Some(&[]))).unwrap();
        assert_eq!(answers, Answers { setup: false, linked: true, grants: BTreeMap::new() });
    }
}
