//! `GET /me`.

use domain::{Permission, PermissionSet, SessionId, Time};
use serde::Serialize;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use super::document::text_enum;
use super::user::UserData;

/// The session's user, and the session.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Me {
    /// The user, as of their last sign-in.
    user: UserData,
    /// The calling session.
    session: CurrentSession,
    /// The permission keys the team roster grants the user.
    #[schema(value_type = Vec<TeamPermission>)]
    team: Vec<&'static str>,
}

/// The schema of a permission key that the team's roster may grant.
struct TeamPermission;

impl PartialSchema for TeamPermission {
    fn schema() -> RefOr<Schema> {
        let names = PermissionSet::TEAM.keys().map(Permission::name);
        text_enum(names, "A permission key that says what the user does in the bot's team.").into()
    }
}

impl ToSchema for TeamPermission {}

/// The calling session.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CurrentSession {
    /// Its ID, for `DELETE /sessions/{id}`. It is not the token.
    id: String,
    /// When the user signed in, in epoch seconds.
    created: u64,
    /// When it was last used, in epoch seconds: now.
    last_seen: u64,
    /// When it expires if it is not used again, in epoch seconds: its idle limit or its absolute limit, if that comes first.
    expires: u64,
}

impl CurrentSession {
    /// The session with these times.
    pub fn new(id: &SessionId, created: Time, last_seen: Time, expires: Time) -> Self {
        Self {
            id: id.to_string(),
            created: created.seconds(),
            last_seen: last_seen.seconds(),
            expires: expires.seconds(),
        }
    }
}

impl Me {
    pub fn new(user: UserData, session: CurrentSession, team: PermissionSet) -> Self {
        Self { user, session, team: team.keys().map(Permission::name).collect() }
    }
}
