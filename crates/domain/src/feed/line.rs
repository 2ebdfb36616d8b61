//! The lines of snapshots: guilds and subscriptions.

use std::collections::BTreeMap;

use super::json::{Fields, Json, Reason, ids, object, shown, wrong};
use super::{GuildLine, SnapshotLine};
use crate::{Guild, Permission, PermissionSet, Snowflake, Subscription, saturating};

const NAME: usize = 100;
/// The most roles that a guild or a member can have.
pub(super) const ROLES: usize = 250;
const STAFF: usize = 10_000;
const COVERED: usize = 10_000;
/// The largest number that fits in a signed 64-bit column.
const MOST: u64 = i64::MAX as u64;

/// A line of a shard's snapshot. Absent grants and staff stay as stored.
pub fn guild_line(line: &[u8]) -> Result<SnapshotLine<GuildLine>, Reason> {
    let fields = object(line)?;
    if let Some(end) = end(&fields, "id")? {
        return Ok(SnapshotLine::End(end));
    }
    if fields.flag("unavailable")? {
        return Ok(SnapshotLine::One(GuildLine::Unavailable(fields.id("id")?), Vec::new()));
    }
    let mut ignored = Vec::new();
    let guild = guild(&fields, &mut ignored)?;
    Ok(SnapshotLine::One(GuildLine::Guild(guild), ignored))
}

pub fn subscription_line(line: &[u8]) -> Result<SnapshotLine<Subscription>, Reason> {
    let fields = object(line)?;
    match end(&fields, "userid")? {
        Some(end) => Ok(SnapshotLine::End(end)),
        None => Ok(SnapshotLine::One(subscription(&fields)?, Vec::new())),
    }
}

/// The number in an end line; `id` names the field that every other line has.
fn end(fields: &Fields<'_>, id: &str) -> Result<Option<u64>, Reason> {
    if fields.given(id).is_some() || fields.get("end").is_none() {
        return Ok(None);
    }
    fields.count("end", MOST).map(Some)
}

pub(super) fn guild(fields: &Fields<'_>, ignored: &mut Vec<String>) -> Result<Guild, Reason> {
    Ok(Guild {
        id: fields.id("id")?,
        name: fields.text("name", 1..=NAME)?.to_owned(),
        icon: fields.picture("icon")?.map(ToOwned::to_owned),
        owner: fields.id("owner")?,
        members: fields.count("members", MOST)?,
        setup: fields.flag("setup")?,
        linked: fields.flag("linked")?,
        grants: grants(fields, ignored)?,
        staff: staff(fields)?,
    })
}

fn grants(
    fields: &Fields<'_>,
    ignored: &mut Vec<String>,
) -> Result<Option<BTreeMap<Snowflake, PermissionSet>>, Reason> {
    let granted = fields.by_id("grants", ROLES, |_, value| {
        let Json::List(names) = value else { return Err(wrong("grants", "an object of lists of permission keys")) };
        keys("grants", names, PermissionSet::GRANTABLE, ignored)
    })?;
    Ok(granted.map(|pairs| pairs.into_iter().collect()))
}

fn staff(fields: &Fields<'_>) -> Result<Option<BTreeMap<Snowflake, Vec<Snowflake>>>, Reason> {
    let members = fields.by_id("staff", STAFF, |_, value| {
        let roles = match value {
            Json::List(items) if items.len() <= ROLES => ids(items),
            _ => None,
        };
        roles.ok_or_else(|| wrong("staff", format_args!("an object of lists of at most {ROLES} role ids")))
    })?;
    Ok(members.map(|pairs| pairs.into_iter().collect()))
}

/// The permission keys in a list, without those that may not be granted here.
pub(super) fn keys(
    field: &str,
    names: &[Json<'_>],
    grantable: PermissionSet,
    ignored: &mut Vec<String>,
) -> Result<PermissionSet, Reason> {
    let mut set = PermissionSet::EMPTY;
    for name in names {
        let name = name.text().ok_or_else(|| wrong(field, "made of permission keys, which are text"))?;
        match Permission::from_name(name).filter(|key| grantable.has(*key)) {
            Some(key) => set = set.with_if(key, true),
            None => ignored.push(format!("`{field}` may not grant {}; the key was left out.", shown(name))),
        }
    }
    Ok(set)
}

pub(super) fn subscription(fields: &Fields<'_>) -> Result<Subscription, Reason> {
    let active_until =
        match fields.given("active_until") {
            Some(Json::Null) => None,
            // A missing field is refused, because a mistake must not give premium that never ends.
            _ => Some(fields.time("active_until").map_err(|_| {
                wrong("active_until", "a time in epoch seconds, or null if the subscription does not end")
            })?),
        };
    Ok(Subscription {
        userid: fields.id("userid")?,
        slots: saturating::to_u32(fields.count("slots", 1_000_000)?),
        guilds: fields.ids("guilds", COVERED)?,
        active_until,
    })
}
