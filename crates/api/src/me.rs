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
    /// The session that makes the request.
    session: CurrentSession,
    /// The permission keys that the team's roster grants the user.
    #[schema(value_type = Vec<TeamPermission>)]
    team: Vec<&'static str>,
}

/// The schema of a permission key that the team's roster may grant.
struct TeamPermission;

impl PartialSchema for TeamPermission {
    fn schema() -> RefOr<Schema> {
        let names = PermissionSet::TEAM.keys().map(Permission::name);
        text_enum(names, "A permission key that says who somebody is to the bot's team.").into()
    }
}

impl ToSchema for TeamPermission {}

/// The session that makes the request.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CurrentSession {
    /// Its ID, for `DELETE /sessions/{id}`; not a token.
    id: String,
    /// When it began, epoch seconds.
    created: u64,
    /// When it was last used, epoch seconds: now.
    last_seen: u64,
    /// When it ends if it is not used again, epoch seconds: the earlier of its idle and its absolute limit.
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
