//! The lines of `POST /bot/events`.

use super::json::{Fields, Reason, object, shown, wrong};
use super::line::{ROLES, guild, subscription};
use super::{Event, roster};
use crate::feedback::{Feedback, FeedbackEntry};
use crate::{Change, Picture, ProviderRules, User};

const FEEDBACK_ID: usize = 64;
/// The provider's limit for messages.
const FEEDBACK: usize = 4_000;
pub(super) const PERSON: usize = 100;

/// An event, and why some of it was ignored.
pub fn event_line(line: &[u8], rules: &ProviderRules) -> Result<(Event, Vec<String>), Reason> {
    let fields = object(line)?;
    let kind = fields.text("type", 1..=100)?;
    let mut ignored = Vec::new();
    let change = match kind {
        "guild" => Change::Guild(guild(&fields, &mut ignored)?),
        "guild_gone" => Change::GuildGone(fields.id("id")?),
        "member" => {
            Change::Member { guild: fields.id("guild")?, user: fields.id("user")?, roles: fields.ids("roles", ROLES)? }
        }
        "member_gone" => Change::MemberGone { guild: fields.id("guild")?, user: fields.id("user")? },
        "subscription" => Change::Subscription(subscription(&fields)?),
        "subscription_gone" => Change::SubscriptionGone(fields.id("userid")?),
        "feedback" => Change::Feedback(feedback(&fields, rules)?),
        "feedback_gone" => Change::FeedbackGone(fields.text("id", 1..=FEEDBACK_ID)?.to_owned()),
        "team" => Change::Team(roster::members(&fields, &mut ignored, rules)?),
        "user" => Change::User(user(&fields, rules)?),
        other => return Ok((Event::Ignored(format!("The event type {} is not known here.", shown(other))), ignored)),
    };
    Ok((Event::Change(change), ignored))
}

/// A feedback entry in an import: the same as the event, without its type.
pub fn feedback_line(line: &[u8], rules: &ProviderRules) -> Result<Feedback, Reason> {
    feedback(&object(line)?, rules)
}

fn feedback(fields: &Fields<'_>, rules: &ProviderRules) -> Result<Feedback, Reason> {
    let submitter = match fields.get("submitter") {
        Some(super::json::Json::Map(person)) => user(person, rules).map_err(|reason| reason.within("`submitter`"))?,
        _ => return Err(wrong("submitter", "an object with `id`, `username`, `name` and `avatar`")),
    };
    Ok(Feedback {
        id: fields.text("id", 1..=FEEDBACK_ID)?.to_owned(),
        entry: FeedbackEntry {
            feedback: fields.text("feedback", 1..=FEEDBACK)?.to_owned(),
            rating: fields.whole("rating", 1..=5)?,
            timestamp: fields.time("timestamp")?.seconds(),
            submitter,
        },
    })
}

/// A person. Without a display name the username is shown, without an image the provider's default one.
fn user(fields: &Fields<'_>, rules: &ProviderRules) -> Result<User, Reason> {
    let id = fields.id("id")?;
    let username = fields.text("username", 1..=PERSON)?.to_owned();
    let name = match fields.get("name") {
        None => username.clone(),
        Some(_) => fields.text("name", 1..=PERSON)?.to_owned(),
    };
    Ok(User { avatar: avatar(fields, id, rules)?, username, name, id })
}

pub(super) fn avatar(fields: &Fields<'_>, id: crate::Snowflake, rules: &ProviderRules) -> Result<Picture, Reason> {
    Ok(match fields.picture("avatar")? {
        Some(url) if url.starts_with("https://") => url.into(),
        hash => (rules.avatar)(id, hash),
    })
}
