//! What can change in the bot's data; the events of the feed in the domain's words.

use super::{Feedback, Guild, Roster, Snowflake, Subscription, User};

/// One change. Several are applied in order, all or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A guild has the bot, and this is how it is now.
    Guild(Guild),
    /// A guild no longer has the bot.
    GuildGone(Snowflake),
    /// A member's roles are now these; without a granting one they are no staff.
    Member {
        /// Where.
        guild: Snowflake,
        /// Who.
        user: Snowflake,
        /// All their roles.
        roles: Vec<Snowflake>,
    },
    /// A member has left, or was kicked: gone from the very next answer.
    MemberGone {
        /// Where.
        guild: Snowflake,
        /// Who.
        user: Snowflake,
    },
    /// A subscription is now this.
    Subscription(Subscription),
    /// A user has no subscription any more.
    SubscriptionGone(Snowflake),
    /// A feedback entry, new or replaced.
    Feedback(Feedback),
    /// A feedback entry was withdrawn.
    FeedbackGone(String),
    /// The whole team is now this.
    Team(Roster),
    /// A user's profile is now this; refreshes submitters and roster.
    User(User),
}

impl Change {
    /// The guild that it is about, if it is about one.
    pub fn guild(&self) -> Option<Snowflake> {
        match self {
            Self::Guild(guild) => Some(guild.id),
            Self::GuildGone(guild) | Self::Member { guild, .. } | Self::MemberGone { guild, .. } => Some(*guild),
            Self::Subscription(_)
            | Self::SubscriptionGone(_)
            | Self::Feedback(_)
            | Self::FeedbackGone(_)
            | Self::Team(_)
            | Self::User(_) => None,
        }
    }
}
