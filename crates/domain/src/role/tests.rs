//! The contract's table, row by row, and what must hold whatever is known about a person.

use proptest::prelude::*;

use super::*;
use crate::Permission as P;

/// Everything that staff of a guild can hold.
const STAFF: &[P] = &[P::ManageServer, P::ErlcManager, P::ErlcAdmin, P::ErlcStaff, P::Admin, P::Mod, P::SessionStarter];

fn granted(keys: &[P]) -> Standing {
    Standing { granted: PermissionSet::of(keys), ..Standing::default() }
}

fn on_the_team(keys: &[P]) -> Standing {
    Standing { team: PermissionSet::of(keys), ..Standing::default() }
}

#[test]
fn the_rule_is_the_contracts_table() {
    let none = Standing::default();
    let table: &[(Standing, Option<Role>, &[P])] = &[
        (none, None, &[]),
        (Standing { owner: true, ..none }, Some(Role::Owner), STAFF),
        (Standing { manages: true, ..none }, Some(Role::Manager), STAFF),
        (granted(&[P::ErlcManager]), Some(Role::Manager), &[P::ErlcManager, P::ErlcAdmin, P::ErlcStaff]),
        (granted(&[P::ErlcAdmin]), Some(Role::Administrator), &[P::ErlcAdmin, P::ErlcStaff]),
        (granted(&[P::ErlcStaff]), Some(Role::Moderator), &[P::ErlcStaff]),
        (granted(&[P::Admin]), Some(Role::Administrator), &[P::Admin, P::Mod]),
        (granted(&[P::Mod]), Some(Role::Moderator), &[P::Mod]),
        (granted(&[P::SessionStarter]), None, &[P::SessionStarter]),
        (granted(&[P::ErlcStaff, P::Admin]), Some(Role::Administrator), &[P::ErlcStaff, P::Admin, P::Mod]),
        // A guild's roles cannot give what isn't the guild's to give.
        (granted(&[P::ManageServer]), None, &[]),
        (granted(&[P::Founder, P::Setup, P::ServicePlusMember]), None, &[]),
        (Standing { setup: true, ..none }, None, &[P::Setup]),
        (Standing { linked: true, ..none }, None, &[P::ErlcLinked]),
        (Standing { guild_plus: true, ..none }, None, &[P::ServicePlusGuild]),
        (Standing { member_plus: true, ..none }, None, &[P::ServicePlusMember]),
        (on_the_team(&[P::Founder]), None, &[P::Founder]),
        (on_the_team(&[P::Executive]), None, &[P::Executive, P::Management]),
        (on_the_team(&[P::Management]), None, &[P::Management]),
        (on_the_team(&[P::ServiceStaff, P::Support]), None, &[P::ServiceStaff, P::Support]),
        (on_the_team(&[P::QualityAssurance, P::Docwriter]), None, &[P::QualityAssurance, P::Docwriter]),
        (on_the_team(&[P::WebDeveloper, P::BotDeveloper]), None, &[P::WebDeveloper, P::BotDeveloper]),
        // Nor can the roster give what is the guild's.
        (on_the_team(&[P::Admin, P::ManageServer, P::Setup]), None, &[]),
    ];
    for (standing, role, keys) in table {
        assert_eq!(standing.judge(), (*role, PermissionSet::of(keys)), "{standing:?}");
    }
}

fn sets() -> impl Strategy<Value = PermissionSet> {
    prop::sample::subsequence(P::ALL.to_vec(), 0..=P::ALL.len()).prop_map(|keys| PermissionSet::of(&keys))
}

prop_compose! {
    fn standings()(owner: bool, manages: bool, granted in sets(), team in sets(), facts: [bool; 4]) -> Standing {
        let [setup, linked, guild_plus, member_plus] = facts;
        Standing { owner, manages, granted, team, setup, linked, guild_plus, member_plus }
    }
}

fn height(role: Option<Role>) -> u8 {
    role.map_or(0, |role| 4 - role as u8)
}

fn is_within(small: PermissionSet, large: PermissionSet) -> bool {
    small.union(large) == large
}

proptest! {
    #[test]
    fn what_one_key_implies_always_holds(standing in standings()) {
        let (role, keys) = standing.judge();
        for (key, implied) in [
            (P::ManageServer, P::ErlcManager),
            (P::ErlcManager, P::ErlcAdmin),
            (P::ErlcAdmin, P::ErlcStaff),
            (P::ManageServer, P::Admin),
            (P::Admin, P::Mod),
            (P::ManageServer, P::SessionStarter),
            (P::Executive, P::Management),
        ] {
            prop_assert!(!keys.has(key) || keys.has(implied), "{key:?} without {implied:?}");
        }
        let staff = keys.has(P::ErlcStaff) || keys.has(P::Mod);
        prop_assert_eq!(role.is_some(), staff, "a role is what staff have");
        prop_assert_eq!(role == Some(Role::Owner), standing.owner);
        prop_assert!(!standing.owner || is_within(PermissionSet::of(STAFF), keys));
    }

    #[test]
    fn the_team_and_facts_of_the_guild_never_change_the_role(standing in standings(), other in standings()) {
        let Standing { team, setup, linked, guild_plus, member_plus, .. } = other;
        let changed = Standing { team, setup, linked, guild_plus, member_plus, ..standing };
        prop_assert_eq!(standing.judge().0, changed.judge().0);
    }

    #[test]
    fn more_never_gives_less(standing in standings(), granted in sets(), team in sets(), manages: bool, owner: bool) {
        let more = Standing {
            owner: standing.owner || owner,
            manages: standing.manages || manages,
            granted: standing.granted.union(granted),
            team: standing.team.union(team),
            ..standing
        };
        let ((role, keys), (more_role, more_keys)) = (standing.judge(), more.judge());
        prop_assert!(is_within(keys, more_keys));
        prop_assert!(height(more_role) >= height(role));
    }
}
