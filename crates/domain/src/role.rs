//! The session user's role in a guild.

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
