//! The team that maintains the bot.

use std::collections::HashMap;

use super::{PermissionSet, Picture, Snowflake};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamMember {
    pub username: String,
    /// Display name.
    pub name: String,
    /// Avatar URL.
    pub avatar: Picture,
    /// The identity provider's user id.
    pub discord_id: Snowflake,
    /// Role title.
    pub role: String,
    /// Colour of the role, like `#5865F2`.
    pub color: String,
    /// A lower-case word chosen by the operator.
    pub category: String,
    /// Position within the category, ascending.
    pub position: i64,
}

/// A member and what the roster grants them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RosterEntry {
    pub member: TeamMember,
    /// Among the nine team keys.
    pub permissions: PermissionSet,
}

/// The whole team, in the order written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster(pub Vec<RosterEntry>);

impl Roster {
    /// The members in display order: categories in the order the roster first names them, then position, then name.
    pub fn into_ordered(self) -> Vec<TeamMember> {
        let mut categories: HashMap<String, usize> = HashMap::new();
        for entry in &self.0 {
            let next = categories.len();
            categories.entry(entry.member.category.clone()).or_insert(next);
        }
        let mut members: Vec<TeamMember> = self.0.into_iter().map(|entry| entry.member).collect();
        let key = |member: &TeamMember| (categories.get(&member.category).copied(), member.position);
        members.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name)));
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
                avatar: Picture::default(),
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
        let names: Vec<_> = roster.into_ordered().into_iter().map(|member| member.name).collect();
        assert_eq!(names, ["Bob", "Abe", "Zoe", "Eve", "Ann"]);
    }
}
