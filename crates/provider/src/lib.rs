//! The identity provider.

pub mod idp;
pub mod picture;

/// What the domain's rules need to know about this provider.
pub const RULES: domain::ProviderRules = domain::ProviderRules {
    avatar: picture::avatar,
    guild_icon: picture::guild_icon,
    may_manage_server: idp::may_manage_server,
};
