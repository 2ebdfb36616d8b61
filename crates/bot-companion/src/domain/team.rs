//! The team that maintains the bot.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{PermissionSet, Snowflake};

/// A member of the team as `GET /team` shows one (2.8).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TeamMember {
    /// Username.
    pub username: String,
    /// Display name.
    pub name: String,
    /// Avatar URL.
    #[schema(format = Uri)]
    pub avatar: String,
    /// The identity provider's user id.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$")]
    pub discord_id: Snowflake,
    /// Role title.
    pub role: String,
    /// Colour of the role.
    #[schema(pattern = "^#[0-9A-Fa-f]{6}$", example = "#5865F2")]
    pub color: String,
    /// Position category: a lower-case word that the operator chose.
    pub category: String,
    /// Position within the category, ascending.
    pub position: i64,
}

/// A member and what the roster grants them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RosterEntry {
    /// What is shown.
    pub member: TeamMember,
    /// Of the nine team keys.
    pub permissions: PermissionSet,
}

/// The whole team, in the order in which it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster(pub Vec<RosterEntry>);

impl Roster {
    /// The members as they are shown: categories in the order in which the roster first names them, then position, then name.
    pub fn ordered(&self) -> Vec<&TeamMember> {
        let mut categories: HashMap<&str, usize> = HashMap::new();
        for entry in &self.0 {
            let next = categories.len();
            categories.entry(&entry.member.category).or_insert(next);
        }
        let mut members: Vec<&TeamMember> = self.0.iter().map(|entry| &entry.member).collect();
        members.sort_by_key(|member| (categories.get(member.category.as_str()), member.position, &member.name));
        members
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, category: &str, position: i64) -> RosterEntry {
        RosterEntry {
            member: TeamMember {
                username: name.to_lowercase(),
                name: name.to_owned(),
                avatar: String::new(),
                discord_id: Snowflake::new(1).unwrap(),
                role: String::new(),
                color: "#000000".to_owned(),
                category: category.to_owned(),
                position,
            },
            permissions: PermissionSet::EMPTY,
        }
    }

    #[test]
    fn ordered_by_category_as_first_named_then_position_then_name() {
        let roster = Roster(vec![
            entry("Zoe", "support", 2),
            entry("Ann", "direction", 1),
            entry("Bob", "support", 1),
            entry("Abe", "support", 2),
            entry("Eve", "direction", -1),
        ]);
        let names: Vec<_> = roster.ordered().into_iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, ["Bob", "Abe", "Zoe", "Eve", "Ann"]);
    }
}
