//! The team, as described by the `team` event and by a file for the command line.

use super::event::{PERSON, avatar};
use super::json::{Fields, Json, Reason, object, wrong};
use super::line::keys;
use crate::team::{Roster, RosterEntry, TeamMember};
use crate::{PermissionSet, ProviderRules};

const MEMBERS: usize = 1_000;
const WORD: usize = 64;

/// The team in an object `{"members": […]}`, with notes on what was ignored; or everything that is wrong with it.
pub fn roster(text: &[u8], rules: &ProviderRules) -> Result<(Roster, Vec<String>), Vec<Reason>> {
    let fields = object(text).map_err(|reason| vec![reason])?;
    let members = fields.list("members", MEMBERS).map_err(|reason| vec![reason])?;
    let mut ignored = Vec::new();
    let (mut entries, mut reasons) = (Vec::new(), Vec::new());
    for (number, member) in (1..).zip(members) {
        match entry(member, number, &mut ignored, rules) {
            Ok(entry) => entries.push(entry),
            Err(reason) => reasons.push(reason),
        }
    }
    if reasons.is_empty() { Ok((Roster(entries), ignored)) } else { Err(reasons) }
}

pub(super) fn members(fields: &Fields<'_>, ignored: &mut Vec<String>, rules: &ProviderRules) -> Result<Roster, Reason> {
    let members = (1..).zip(fields.list("members", MEMBERS)?);
    members.map(|(number, member)| entry(member, number, ignored, rules)).collect::<Result<_, _>>().map(Roster)
}

fn entry(
    value: &Json<'_>,
    number: usize,
    ignored: &mut Vec<String>,
    rules: &ProviderRules,
) -> Result<RosterEntry, Reason> {
    let mut read = || {
        let Json::Map(fields) = value else { return Err(wrong("members", "a list of objects")) };
        let discord_id = fields.id("discord_id")?;
        let position = fields.get("position").and_then(Json::whole);
        let permissions = match fields.get("permissions") {
            None => PermissionSet::EMPTY,
            Some(Json::List(names)) => keys("permissions", names, PermissionSet::TEAM, ignored)?,
            Some(_) => return Err(wrong("permissions", "a list of the team's permission keys")),
        };
        let username = fields.text("username", 1..=PERSON)?;
        let name = if fields.get("name").is_some() { fields.text("name", 1..=PERSON)? } else { username };
        let member = TeamMember {
            username: username.to_owned(),
            name: name.to_owned(),
            avatar: avatar(fields, discord_id, rules)?,
            discord_id,
            role: fields.text("role", 1..=PERSON)?.to_owned(),
            color: color(fields)?.to_owned(),
            category: category(fields)?.to_owned(),
            position: position.ok_or_else(|| wrong("position", "a whole number"))?,
        };
        Ok(RosterEntry { member, permissions })
    };
    read().map_err(|reason: Reason| reason.within(format_args!("Member {number}")))
}

fn color<'a>(fields: &'a Fields<'_>) -> Result<&'a str, Reason> {
    let shaped = |text: &&str| {
        text.strip_prefix('#').is_some_and(|digits| digits.len() == 6 && digits.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    let text = fields.get("color").and_then(Json::text);
    text.filter(shaped).ok_or_else(|| wrong("color", "a colour like \"#5865F2\""))
}

fn category<'a>(fields: &'a Fields<'_>) -> Result<&'a str, Reason> {
    let shaped = |text: &&str| {
        (1..=WORD).contains(&text.chars().count())
            && text.chars().all(|letter| !letter.is_uppercase() && !letter.is_whitespace() && !letter.is_control())
    };
    let text = fields.get("category").and_then(Json::text);
    text.filter(shaped).ok_or_else(|| wrong("category", "a lower-case word like \"support\""))
}
