//! Guilds: as the bot reports them, as the provider lists them for a user, and as that user sees them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::feed::Carried;
use super::role::Standing;
use super::subscription::Plus;
use super::{PermissionSet, Picture, ProviderRules, Role, Snowflake, Subscription, Time};

/// A guild that has the bot, as the bot reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guild {
    pub id: Snowflake,
    pub name: String,
    /// An icon hash, an https URL, or nothing.
    pub icon: Option<String>,
    pub owner: Snowflake,
    pub members: u64,
    /// Whether it has configured the bot.
    pub setup: bool,
    /// Whether it has linked its game server.
    pub linked: bool,
    /// The grants of its roles; `None` keeps what is stored.
    pub grants: Option<BTreeMap<Snowflake, PermissionSet>>,
    /// The roles of members with a role that grants something; `None` keeps what is stored.
    pub staff: Option<BTreeMap<Snowflake, Vec<Snowflake>>>,
}

impl Guild {
    /// Which parts it leaves as stored.
    pub fn carried(&self) -> Carried {
        Carried { grants: self.grants.is_none(), staff: self.staff.is_none() }
    }
}

/// A guild on the provider's own list for a user, which defines membership.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedGuild {
    pub id: Snowflake,
    /// The user's permission bits there, as computed by the provider.
    pub permissions: u64,
    /// Its name, if the list has it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its icon's hash, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
}

/// What the store knows about a guild for one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuildFacts {
    pub id: Snowflake,
    pub name: String,
    /// An icon hash, an https URL, or nothing.
    pub icon: Option<String>,
    pub owner: Snowflake,
    pub members: u64,
    /// Whether it has configured the bot.
    pub setup: bool,
    /// Whether it has linked its game server.
    pub linked: bool,
    /// The permissions granted by the user's roles there, including everyone's role.
    pub granted: PermissionSet,
    /// Every subscription that names it.
    pub subscriptions: Vec<Subscription>,
}

/// What the store knows about a user and the guilds on their list that have the bot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersonFacts {
    /// The permissions that the team's roster grants the user.
    pub team: PermissionSet,
    /// The user's own subscription.
    pub subscription: Option<Subscription>,
    /// The guilds on the list that have the bot, in any order.
    pub guilds: Vec<GuildFacts>,
}

/// A guild as one of its members sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuildEntry {
    pub name: String,
    pub id: Snowflake,
    /// Always a URL: the guild's own icon, or the provider's default image.
    pub icon: Picture,
    pub members: u64,
    pub owner: Snowflake,
    /// The member's role; `None` for a plain member.
    pub role: Option<Role>,
    pub plus: Plus,
    pub permissions: PermissionSet,
}

/// The entries of `GET /guilds`: every guild on the provider's list that has the bot, by role (Owner first), then name, then
/// ID.
pub fn entries(
    user: Snowflake,
    listed: &[ListedGuild],
    facts: PersonFacts,
    now: Time,
    rules: &ProviderRules,
) -> Vec<GuildEntry> {
    let bits: BTreeMap<Snowflake, u64> = listed.iter().map(|guild| (guild.id, guild.permissions)).collect();
    let member_plus = facts.subscription.as_ref().is_some_and(|own| own.is_active(now));
    let mut entries: Vec<GuildEntry> = facts
        .guilds
        .into_iter()
        .filter_map(|guild| {
            let plus = Plus::of(&guild.subscriptions, now);
            let (role, permissions) = Standing {
                owner: guild.owner == user,
                manages: (rules.may_manage_server)(*bits.get(&guild.id)?),
                granted: guild.granted,
                team: facts.team,
                setup: guild.setup,
                linked: guild.linked,
                guild_plus: plus.active,
                member_plus,
            }
            .judge();
            Some(GuildEntry {
                icon: (rules.guild_icon)(guild.id, guild.icon.as_deref()),
                name: guild.name,
                id: guild.id,
                members: guild.members,
                owner: guild.owner,
                role,
                plus,
                permissions,
            })
        })
        .collect();
    // A plain member comes last, but `None` would sort before `Some`.
    entries.sort_by(|a, b| {
        let rank = |entry: &GuildEntry| entry.role.map_or(u8::MAX, |role| role as u8);
        (rank(a), &a.name, a.id).cmp(&(rank(b), &b.name, b.id))
    });
    entries
}

/// A guild that a user could add the bot to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvitableGuild {
    pub name: String,
    pub id: Snowflake,
    /// Always a URL: the guild's own icon, or the provider's default image.
    pub icon: Picture,
}

/// The guilds on the provider's list that the user may manage.
pub fn manageable<'a>(listed: &'a [ListedGuild], rules: &ProviderRules) -> impl Iterator<Item = &'a ListedGuild> {
    let may_manage_server = rules.may_manage_server;
    listed.iter().filter(move |guild| may_manage_server(guild.permissions))
}

/// The entries of `GET /guilds/invitable`: the guilds that the user may manage and that are known not to have the bot, by name,
/// then ID. One whose name is unknown is left out until the list is fetched again.
pub fn invitable(listed: &[ListedGuild], without_bot: &[Snowflake], rules: &ProviderRules) -> Vec<InvitableGuild> {
    let known: BTreeSet<&Snowflake> = without_bot.iter().collect();
    let mut guilds: Vec<InvitableGuild> = manageable(listed, rules)
        .filter(|guild| known.contains(&guild.id) && !guild.name.is_empty())
        .map(|guild| InvitableGuild {
            name: guild.name.clone(),
            id: guild.id,
            icon: (rules.guild_icon)(guild.id, guild.icon.as_deref()),
        })
        .collect();
    guilds.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
    guilds
}

/// When entries built from these facts expire on their own: when the next subscription ends.
pub fn expiry(facts: &PersonFacts, now: Time) -> Option<Time> {
    let of_guilds = facts.guilds.iter().flat_map(|guild| &guild.subscriptions);
    of_guilds
        .chain(&facts.subscription)
        .filter_map(|subscription| subscription.active_until)
        .filter(|end| *end > now)
        .min()
}

#[cfg(test)]
mod tests {
    use super::super::Permission;
    use super::super::tests::TEST_RULES;
    use super::*;

    const NOW: Time = Time::from_seconds(1_800_000_000);
    const USER: u64 = 7;

    fn id(number: u64) -> Snowflake {
        Snowflake::new(number).unwrap()
    }

    fn facts(number: u64, name: &str, granted: &[Permission]) -> GuildFacts {
        GuildFacts {
            id: id(number),
            name: name.to_owned(),
            icon: None,
            owner: id(1),
            members: 5,
            setup: false,
            linked: false,
            granted: PermissionSet::of(granted),
            subscriptions: Vec::new(),
        }
    }

    fn listed(guilds: &[GuildFacts]) -> Vec<ListedGuild> {
        guilds.iter().map(|guild| on_list(guild.id.get(), 0)).collect()
    }

    fn on_list(number: u64, permissions: u64) -> ListedGuild {
        ListedGuild { id: id(number), permissions, name: format!("guild {number}"), icon: None }
    }

    #[test]
    fn those_are_invitable_that_are_known_not_to_have_the_bot_and_may_be_managed() {
        let mut list = vec![on_list(13, 8), on_list(12, 8), on_list(11, 0), on_list(14, 8), on_list(15, 8)];
        list[4].name.clear();
        list[1].icon = Some("abc1".to_owned());
        assert_eq!(manageable(&list, &TEST_RULES).map(|guild| guild.id.get()).collect::<Vec<_>>(), [13, 12, 14, 15]);
        let found = invitable(&list, &[id(11), id(12), id(13), id(15), id(99)], &TEST_RULES);
        let shown: Vec<_> = found.iter().map(|guild| (guild.id.get(), guild.name.as_str())).collect();
        assert_eq!(
            shown,
            [(12, "guild 12"), (13, "guild 13")],
            "a name that is not known, and a plain member, are not"
        );
        assert_eq!((found[0].icon.stored(), found[1].icon.stored()), ("icon 12 Some(\"abc1\")", "icon 13 None"));
    }

    #[test]
    fn a_list_of_an_earlier_release_can_be_read() {
        let read: Vec<ListedGuild> = serde_json::from_str(r#"[{"id":"7","permissions":8}]"#).unwrap();
        assert_eq!(read, [ListedGuild { name: String::new(), ..on_list(7, 8) }]);
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"[{"id":"7","permissions":8}]"#);
    }

    #[test]
    fn guilds_stand_by_role_then_name_then_id_whatever_their_order_was() {
        let mut guilds = vec![
            facts(10, "a plain one", &[]),
            facts(11, "b", &[Permission::Mod]),
            facts(12, "a", &[Permission::Mod]),
            facts(14, "same", &[Permission::Admin]),
            facts(13, "same", &[Permission::Admin]),
            facts(15, "z", &[Permission::ErlcManager]),
            facts(17, "another plain one", &[]),
            GuildFacts { owner: id(USER), ..facts(16, "zz", &[]) },
        ];
        for _ in 0..guilds.len() {
            guilds.rotate_left(1);
            let known = PersonFacts { guilds: guilds.clone(), ..PersonFacts::default() };
            let shown = entries(id(USER), &listed(&guilds), known, NOW, &TEST_RULES);
            let order: Vec<_> = shown.iter().map(|entry| (entry.id.get(), entry.role)).collect();
            let expected = [
                (16, Some(Role::Owner)),
                (15, Some(Role::Manager)),
                (13, Some(Role::Administrator)),
                (14, Some(Role::Administrator)),
                (12, Some(Role::Moderator)),
                (11, Some(Role::Moderator)),
                (10, None),
                (17, None),
            ];
            assert_eq!(order, expected);
        }
    }

    #[test]
    fn a_guild_that_the_provider_does_not_list_is_not_shown_however_much_is_known_of_it() {
        let guilds = vec![facts(10, "in", &[]), GuildFacts { owner: id(USER), ..facts(11, "out", &[]) }];
        let list = [listed(&guilds[..1]), vec![on_list(99, 8)]].concat();
        let shown = entries(id(USER), &list, PersonFacts { guilds, ..PersonFacts::default() }, NOW, &TEST_RULES);
        assert_eq!(shown.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["in"]);
    }

    #[test]
    fn entries_expire_with_the_next_subscription_that_ends() {
        let ends = |user, seconds: Option<u64>| Subscription {
            userid: id(user),
            slots: 1,
            guilds: vec![id(10)],
            active_until: seconds.map(|seconds| NOW.after(std::time::Duration::from_secs(seconds))),
        };
        let mut guild = facts(10, "a", &[]);
        guild.subscriptions = vec![ends(1, Some(0)), ends(2, None), ends(3, Some(50))];
        let mut known = PersonFacts { guilds: vec![guild], ..PersonFacts::default() };
        assert_eq!(expiry(&known, NOW), Some(NOW.after(std::time::Duration::from_secs(50))));
        known.subscription = Some(ends(USER, Some(20)));
        assert_eq!(expiry(&known, NOW), Some(NOW.after(std::time::Duration::from_secs(20))));
        assert_eq!(expiry(&PersonFacts::default(), NOW), None);
    }
}
