//! `/sessions`.

use domain::Session;
use serde::Serialize;
use utoipa::ToSchema;

/// One session of the user.
#[derive(Serialize, ToSchema)]
#[schema(as = Session)]
pub struct SessionData {
    /// Its ID, for `DELETE /sessions/{id}`; not a token.
    id: String,
    /// When it began, epoch seconds.
    created: u64,
    /// When it was last used, epoch seconds; may lag by a minute.
    last_seen: u64,
    /// The client's `User-Agent`, shortened to 256 bytes.
    user_agent: String,
    /// Whether it is the one that makes the request.
    current: bool,
}

impl SessionData {
    /// `current`: whether this session made the request.
    pub fn new(current: bool, session: Session) -> Self {
        Self {
            id: session.id.to_string(),
            created: session.created.seconds(),
            last_seen: session.last_seen.seconds(),
            user_agent: session.agent,
            current,
        }
    }
}
