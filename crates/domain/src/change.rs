//! What can change in the bot's data: the feed's events in terms of the domain.

use super::feed::CarriedParts;
use super::{Feedback, Guild, Roster, Snowflake, Subscription, User};

/// One change. Several are applied in order, all or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A guild with the bot, and its current state.
    Guild(Guild),
    GuildGone(Snowflake),
    /// A member's current roles; they are staff if one of them grants something.
    Member {
        guild: Snowflake,
        user: Snowflake,
        roles: Vec<Snowflake>,
    },
    /// A member has left or was kicked, and is gone from the very next response.
    MemberGone {
        guild: Snowflake,
        user: Snowflake,
    },
    Subscription(Subscription),
    SubscriptionGone(Snowflake),
    Feedback(Feedback),
    FeedbackGone(String),
    Team(Roster),
    /// A user's current profile, which updates submitters and roster.
    User(User),
}

impl Change {
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

    /// The guild, and its parts, that must be copied again into every staged snapshot that carries them over.
    pub fn copied_again(&self) -> Option<(Snowflake, CarriedParts)> {
        let parts = match self {
            // If it mentions neither grants nor staff, what snapshots carry over is unchanged.
            Self::Guild(guild) if guild.grants.is_none() && guild.staff.is_none() => return None,
            Self::Member { user, .. } | Self::MemberGone { user, .. } => CarriedParts::Member(*user),
            _ => CarriedParts::All,
        };
        self.guild().map(|guild| (guild, parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_again_into_staged_snapshots() {
        let id = |number| Snowflake::new(number).unwrap();
        let (guild, user) = (id(7), id(8));
        let whole = Guild {
            id: guild,
            name: String::new(),
            icon: None,
            owner: user,
            members: 0,
            setup: false,
            linked: false,
            grants: None,
            staff: None,
        };
        let all = Some((guild, CarriedParts::All));
        let member = Some((guild, CarriedParts::Member(user)));
        for (change, copied) in [
            (Change::Guild(whole.clone()), None),
            (Change::Guild(Guild { grants: Some([].into()), ..whole.clone() }), all),
            (Change::Guild(Guild { staff: Some([].into()), ..whole }), all),
            (Change::GuildGone(guild), all),
            (Change::Member { guild, user, roles: Vec::new() }, member),
            (Change::MemberGone { guild, user }, member),
            (Change::SubscriptionGone(user), None),
            (Change::FeedbackGone(String::new()), None),
            (Change::Team(Roster::default()), None),
        ] {
            assert_eq!(change.copied_again(), copied, "{change:?}");
        }
    }
}
