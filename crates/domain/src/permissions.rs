//! The permission keys, and the one rule that determines a person's role and permissions in a guild.

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

/// The permissions that the team's roster gives a person, with those that they imply.
pub const fn of_team(granted: PermissionSet) -> PermissionSet {
    let team = granted.intersection(PermissionSet::TEAM);
    team.with_if(Permission::Management, team.has(Permission::Executive))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Permission as P;
    use super::*;

    #[test]
    fn the_keys_are_the_specifications_in_its_order() {
        let all = "ERLC_STAFF SERVICE_PLUS_GUILD QUALITY_ASSURANCE ERLC_ADMIN DOCWRITER FOUNDER ERLC_MANAGER MANAGE_SERVER \
            EXECUTIVE BOT_DEVELOPER WEB_DEVELOPER SETUP SESSION_STARTER MOD SUPPORT MANAGEMENT ADMIN SERVICE_STAFF ERLC_LINKED \
            SERVICE_PLUS_MEMBER";
        assert_eq!(P::ALL.map(P::name).join(" "), all);
        assert!(P::ALL.into_iter().all(|key| P::from_name(key.name()) == Some(key)));
        assert_eq!(P::from_name("mod"), None);
    }

    proptest! {
        #[test]
        fn a_set_is_the_set_of_its_keys(bits in 0..1_u32 << P::ALL.len()) {
            let set = PermissionSet(bits);
            prop_assert_eq!(set.keys().collect::<PermissionSet>(), set);
        }
    }
}
