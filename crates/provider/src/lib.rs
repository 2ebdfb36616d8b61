//! The identity provider, and the sandbox used in its place.

pub mod idp;
pub mod picture;
pub mod sandbox;

/// What the domain's rules need to know of this provider.
pub const RULES: domain::ProviderRules = domain::ProviderRules {
    avatar: picture::avatar,
    guild_icon: picture::guild_icon,
    may_manage_server: idp::may_manage_server,
};
