//! What a guild's roles grant, and who counts as staff.

use std::collections::BTreeMap;

use super::{PermissionSet, Snowflake};

pub type RoleGrants = BTreeMap<Snowflake, PermissionSet>;

/// The permissions that these roles give a guild's member. The role with the guild's own ID is everyone's.
pub fn granted(guild: Snowflake, roles: &[Snowflake], grants: &RoleGrants) -> PermissionSet {
    union(roles.iter().chain([&guild]).filter_map(|role| grants.get(role)).copied())
}

/// Whether a member with these roles is staff, so that their roles must be stored. Everyone's role does not make staff: it
/// counts without being stored for each member.
pub fn is_staff(guild: Snowflake, roles: &[Snowflake], grants: &RoleGrants) -> bool {
    roles.iter().any(|role| *role != guild && grants.get(role).is_some_and(|keys| !keys.is_empty()))
}

/// The permissions in any of these sets: someone listed more than once has everything granted.
pub fn union(sets: impl IntoIterator<Item = PermissionSet>) -> PermissionSet {
    sets.into_iter().fold(PermissionSet::EMPTY, PermissionSet::union)
}

#[cfg(test)]
mod tests {
    use super::super::Permission::{Admin, Mod};
    use super::*;

    #[test]
    fn roles_grant_their_keys_and_everyones_role_makes_no_staff() {
        const GUILD: u64 = 7;
        let id = |number| Snowflake::new(number).unwrap();
        let of = PermissionSet::of;
        let grants: RoleGrants = [(id(1), of(&[Mod])), (id(2), of(&[Admin])), (id(3), PermissionSet::EMPTY)].into();
        let everyones: RoleGrants = [(id(GUILD), of(&[Mod])), (id(2), of(&[Admin]))].into();
        let none = RoleGrants::new();
        let table: &[(&[u64], &RoleGrants, PermissionSet, bool)] = &[
            (&[], &grants, PermissionSet::EMPTY, false),
            (&[1], &grants, of(&[Mod]), true),
            (&[1, 2, 9], &grants, of(&[Mod, Admin]), true),
            (&[3], &grants, PermissionSet::EMPTY, false),
            (&[9], &grants, PermissionSet::EMPTY, false),
            (&[], &everyones, of(&[Mod]), false),
            (&[GUILD], &everyones, of(&[Mod]), false),
            (&[GUILD, 2], &everyones, of(&[Mod, Admin]), true),
            (&[1], &none, PermissionSet::EMPTY, false),
        ];
        for (roles, grants, keys, staff) in table {
            let roles: Vec<_> = roles.iter().copied().map(id).collect();
            assert_eq!(granted(id(GUILD), &roles, grants), *keys, "{roles:?} {grants:?}");
            assert_eq!(is_staff(id(GUILD), &roles, grants), *staff, "{roles:?} {grants:?}");
        }
    }
}
