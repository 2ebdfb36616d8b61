//! `GET /team`.

use bytes::Bytes;
use domain::{Roster, Snowflake, TeamMember};
use serde::Serialize;
use utoipa::ToSchema;

use super::envelope;
use super::picture::PictureHost;

/// A member of the team that maintains the bot.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = TeamMember)]
pub struct TeamMemberData {
    /// Username.
    username: String,
    /// Display name.
    name: String,
    /// Avatar URL.
    #[schema(format = Uri)]
    avatar: String,
    /// The user ID at the identity provider.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$")]
    discord_id: Snowflake,
    /// Role title.
    role: String,
    /// Colour of the role.
    #[schema(pattern = "^#[0-9A-Fa-f]{6}$", example = "#5865F2")]
    color: String,
    /// Position category: a lower-case word chosen by the operator.
    category: String,
    /// Position within the category, ascending.
    position: i64,
}

impl TeamMemberData {
    pub fn new(member: TeamMember, pictures: &PictureHost) -> Self {
        let TeamMember { username, name, avatar, discord_id, role, color, category, position } = member;
        Self { username, name, avatar: pictures.shown(&avatar), discord_id, role, color, category, position }
    }
}

/// The whole body: the members in display order.
pub fn list(roster: Roster, pictures: &PictureHost) -> Bytes {
    let members = roster.into_ordered().into_iter().map(|member| TeamMemberData::new(member, pictures));
    envelope::success(&members.collect::<Vec<_>>())
}
