//! What only the provider's crate knows, passed to the rules that need it.

use super::{Picture, Snowflake};

#[derive(Clone, Copy, Debug)]
pub struct ProviderRules {
    /// The address of a user's avatar, from the provider's hash.
    pub avatar: fn(Snowflake, Option<&str>) -> Picture,
    /// The address of a guild's icon, from a hash, an https URL, or nothing.
    pub guild_icon: fn(Snowflake, Option<&str>) -> Picture,
    /// Whether these permission bits let a user manage the server.
    pub may_manage_server: fn(u64) -> bool,
}
