//! `/sessions`.

use domain::Session;
use serde::Serialize;
use utoipa::ToSchema;

/// One of the user's sessions.
#[derive(Serialize, ToSchema)]
#[schema(as = Session)]
pub struct SessionData {
    /// Its ID, for `DELETE /sessions/{id}`. It is not the token.
    id: String,
    /// When the user signed in, in epoch seconds.
    created: u64,
    /// When it was last used, in epoch seconds; may lag by a minute.
    last_seen: u64,
    /// The client's `User-Agent`, truncated to 256 bytes.
    user_agent: String,
    /// Whether it is the calling session.
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
