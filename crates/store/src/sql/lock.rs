use domain::Snowflake;

/// A lock where several replicas would get in each other's way. A transaction that needs two takes them in the order listed
/// here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Removing what nobody can see any more.
    CleanUp,
    /// What the bot sends: guilds, subscriptions, feedback, team and the numbering.
    Feed,
    Health,
    History,
    /// Everything about a user's sign-ins and sessions.
    User(Snowflake),
    Code([u8; 4]),
}
