//! The permission keys, and the one rule that determines a person's role and permissions in a guild.

use super::Role;

macro_rules! permissions {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        /// A permission key, in the specification's order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Permission { $($variant),+ }

        impl Permission {
            /// All keys, in the specification's order.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The key as written in the specification.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }
    };
}

permissions! {
    ErlcStaff = "ERLC_STAFF",
    ServicePlusGuild = "SERVICE_PLUS_GUILD",
    QualityAssurance = "QUALITY_ASSURANCE",
    ErlcAdmin = "ERLC_ADMIN",
    Docwriter = "DOCWRITER",
    Founder = "FOUNDER",
    ErlcManager = "ERLC_MANAGER",
    ManageServer = "MANAGE_SERVER",
    Executive = "EXECUTIVE",
    BotDeveloper = "BOT_DEVELOPER",
    WebDeveloper = "WEB_DEVELOPER",
    Setup = "SETUP",
    SessionStarter = "SESSION_STARTER",
    Mod = "MOD",
    Support = "SUPPORT",
    Management = "MANAGEMENT",
    Admin = "ADMIN",
    ServiceStaff = "SERVICE_STAFF",
    ErlcLinked = "ERLC_LINKED",
    ServicePlusMember = "SERVICE_PLUS_MEMBER",
}

impl Permission {
    /// What a guild's roles may grant.
    pub const GRANTABLE: [Self; 6] =
        [Self::ErlcManager, Self::ErlcAdmin, Self::ErlcStaff, Self::Admin, Self::Mod, Self::SessionStarter];

    /// What the team's roster may grant.
    pub const TEAM: [Self; 9] = [
        Self::Founder,
        Self::Executive,
        Self::Management,
        Self::ServiceStaff,
        Self::Support,
        Self::QualityAssurance,
        Self::Docwriter,
        Self::WebDeveloper,
        Self::BotDeveloper,
    ];

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|permission| permission.name() == name)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PermissionSet(u32);

impl PermissionSet {
    pub const EMPTY: Self = Self(0);

    /// What a guild's roles may grant.
    pub const GRANTABLE: Self = Self::of(&Permission::GRANTABLE);

    /// What the team's roster may grant.
    pub const TEAM: Self = Self::of(&Permission::TEAM);

    pub const fn of(keys: &[Permission]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < keys.len() {
            bits |= 1 << keys[index] as u32;
            index += 1;
        }
        Self(bits)
    }

    pub const fn has(self, key: Permission) -> bool {
        self.0 & (1 << key as u32) != 0
    }

    /// The set with the key added if `condition` holds.
    #[must_use]
    pub const fn with_if(self, key: Permission, condition: bool) -> Self {
        if condition { Self(self.0 | (1 << key as u32)) } else { self }
    }

    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The keys in the set, in the specification's order.
    pub fn keys(self) -> impl Iterator<Item = Permission> {
        Permission::ALL.into_iter().filter(move |key| self.has(*key))
    }
}

impl FromIterator<Permission> for PermissionSet {
    fn from_iter<I: IntoIterator<Item = Permission>>(keys: I) -> Self {
        keys.into_iter().fold(Self::EMPTY, |set, key| set.with_if(key, true))
    }
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

/// The permissions that the team's roster gives a person, with those that they imply.
pub const fn of_team(granted: PermissionSet) -> PermissionSet {
    let team = granted.intersection(PermissionSet::TEAM);
    team.with_if(Permission::Management, team.has(Permission::Executive))
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
