//! Short helpers for what the bot sends.

use std::collections::BTreeMap;

use domain::feed::InstanceId;
use domain::feedback::{Feedback, FeedbackEntry};
use domain::team::{Roster, RosterEntry, TeamMember};
use domain::{Change, Guild, Permission, PermissionSet, Snowflake, Subscription, Time, User};
use sandbox::PersonGuild;

use super::TestApp;

impl TestApp {
    /// The bot sends this, and it is acknowledged.
    pub async fn bot_says(&self, changes: impl IntoIterator<Item = Change>) {
        self.app.sources.store.apply(changes.into_iter().collect()).await.unwrap();
    }
}

pub fn id(number: u64) -> Snowflake {
    Snowflake::new(number).unwrap()
}

/// A process of the bot, under some key.
pub fn instance(name: &str) -> InstanceId {
    InstanceId::parse("key", name).unwrap()
}

/// A guild that has the bot.
pub fn guild(number: u64, name: &str, owner: u64) -> Guild {
    Guild {
        id: id(number),
        name: name.to_owned(),
        icon: None,
        owner: id(owner),
        members: 10,
        setup: false,
        linked: false,
        grants: Some(BTreeMap::new()),
        staff: Some(BTreeMap::new()),
    }
}

/// A guild in a person's list at the provider.
pub fn listed(number: u64, permissions: u64) -> PersonGuild {
    PersonGuild {
        id: id(number),
        name: format!("guild {number}"),
        icon: None,
        owner: false,
        permissions,
        features: Vec::new(),
    }
}

pub fn grants(roles: &[(u64, &[Permission])]) -> BTreeMap<Snowflake, PermissionSet> {
    roles.iter().map(|(role, keys)| (id(*role), PermissionSet::of(keys))).collect()
}

pub fn staff(members: &[(u64, &[u64])]) -> BTreeMap<Snowflake, Vec<Snowflake>> {
    members.iter().map(|(user, roles)| (id(*user), roles.iter().copied().map(id).collect())).collect()
}

pub fn subscription(userid: u64, guilds: &[u64], active_until: Option<Time>) -> Subscription {
    Subscription { userid: id(userid), slots: 3, guilds: guilds.iter().copied().map(id).collect(), active_until }
}

pub fn feedback(name: &str, rating: u8) -> Feedback {
    Feedback {
        id: name.to_owned(),
        entry: FeedbackEntry {
            feedback: format!("{name} says {rating}"),
            rating,
            timestamp: 1_700_000_000,
            submitter: User {
                username: name.to_owned(),
                name: name.to_uppercase(),
                id: id(4242),
                avatar: "https://example.com/a.png".into(),
            },
        },
    }
}

pub fn team_member(number: u64, name: &str, category: &str, position: i64, keys: &[Permission]) -> RosterEntry {
    RosterEntry {
        member: TeamMember {
            username: name.to_lowercase(),
            name: name.to_owned(),
            avatar: "https://example.com/a.png".into(),
            discord_id: id(number),
            role: "Helper".to_owned(),
            color: "#5865F2".to_owned(),
            category: category.to_owned(),
            position,
        },
        permissions: PermissionSet::of(keys),
    }
}

pub fn team(members: Vec<RosterEntry>) -> Change {
    Change::Team(Roster(members))
}
