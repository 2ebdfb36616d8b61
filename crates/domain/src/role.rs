//! The role and the permissions of a person in a guild: what decides them, and the rule.

use super::permissions::{Permission, PermissionSet, of_team};

/// The four roles, highest first; a plain member holds none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    Owner,
    /// May manage the guild, or holds a role mapped to `ERLC_MANAGER`.
    Manager,
    /// Holds a role mapped to `ERLC_ADMIN` or `ADMIN`.
    Administrator,
    /// Holds a role mapped to `ERLC_STAFF` or `MOD`.
    Moderator,
}

/// What is known about one person in one guild; everything that the rule below considers.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact, straight from the contract's table")]
pub struct Standing {
    /// The bot says that this person owns the guild.
    pub owner: bool,
    /// The provider lets this person manage the server.
    pub manages: bool,
    /// The permissions that the guild maps to this person's roles.
    pub granted: PermissionSet,
    /// The permissions that the team's roster grants this person.
    pub team: PermissionSet,
    /// The guild has configured the bot.
    pub setup: bool,
    /// The guild has linked its game server.
    pub linked: bool,
    /// The guild is in an active subscription.
    pub guild_plus: bool,
    /// The person owns an active subscription.
    pub member_plus: bool,
}

impl Standing {
    /// The rule of the contract: role and permissions of a person in a guild.
    pub fn judge(&self) -> (Option<Role>, PermissionSet) {
        use Permission as P;
        let granted = |key| self.granted.intersection(PermissionSet::GRANTABLE).has(key);

        let manage = self.owner || self.manages;
        let erlc_manager = manage || granted(P::ErlcManager);
        let erlc_admin = erlc_manager || granted(P::ErlcAdmin);
        let erlc_staff = erlc_admin || granted(P::ErlcStaff);
        let admin = manage || granted(P::Admin);
        let moderator = admin || granted(P::Mod);

        let role = if self.owner {
            Some(Role::Owner)
        } else if erlc_manager {
            Some(Role::Manager)
        } else if erlc_admin || admin {
            Some(Role::Administrator)
        } else if erlc_staff || moderator {
            Some(Role::Moderator)
        } else {
            None
        };

        let permissions = of_team(self.team)
            .with_if(P::ManageServer, manage)
            .with_if(P::ErlcManager, erlc_manager)
            .with_if(P::ErlcAdmin, erlc_admin)
            .with_if(P::ErlcStaff, erlc_staff)
            .with_if(P::Admin, admin)
            .with_if(P::Mod, moderator)
            .with_if(P::SessionStarter, manage || granted(P::SessionStarter))
            .with_if(P::Setup, self.setup)
            .with_if(P::ErlcLinked, self.linked)
            .with_if(P::ServicePlusGuild, self.guild_plus)
            .with_if(P::ServicePlusMember, self.member_plus);
        (role, permissions)
    }
}

#[cfg(test)]
mod tests;
