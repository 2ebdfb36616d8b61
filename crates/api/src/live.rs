//! `GET /live` and `GET /me/live`: the messages of a stream, as Server-Sent Events.

use bytes::Bytes;
use domain::live::LiveTopics;
use serde::Serialize;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema, ToSchema};

use super::document::text_enum;

/// The session has ended, and with it the stream.
pub const ENDED: Bytes = Bytes::from_static(b"event: ended\ndata: {}\n\n");
/// A keep-alive.
pub const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// The data of a `changed` event of `GET /live`.
#[derive(Serialize, ToSchema)]
pub struct Changes {
    /// What to fetch again.
    #[schema(value_type = Vec<LiveTopic>)]
    changed: Vec<&'static str>,
}

/// The data of an event of `GET /me/live`.
#[derive(ToSchema)]
pub struct UserChanges {
    /// What to fetch again. `changed` events have it; the last event, `ended`, does not.
    #[schema(required = false, nullable = false)]
    pub changed: Option<Vec<UserLiveTopic>>,
}

/// The schema of the public topics.
struct LiveTopic;

/// The schema of all topics.
pub struct UserLiveTopic;

impl PartialSchema for LiveTopic {
    fn schema() -> RefOr<Schema> {
        text_enum(LiveTopics::PUBLIC.names(), "What to fetch again: `GET /`, `/team`, `/feedback` or `/stats`.").into()
    }
}

impl PartialSchema for UserLiveTopic {
    fn schema() -> RefOr<Schema> {
        let description = "What to fetch again: `GET /`, `/team`, `/feedback`, `/stats`, `/guilds` and below it, `/sessions` or `/me`.";
        text_enum(LiveTopics::ALL.names(), description).into()
    }
}

impl ToSchema for LiveTopic {}
impl ToSchema for UserLiveTopic {}

/// The first event of a stream: everything should be loaded, and a lost stream reopened after this many milliseconds.
pub fn first(topics: LiveTopics, retry_millis: u64) -> Bytes {
    [format!("retry: {retry_millis}\n").as_bytes(), &changed(topics)].concat().into()
}

/// The event that names what has changed.
pub fn changed(topics: LiveTopics) -> Bytes {
    let mut event = b"event: changed\ndata: ".to_vec();
    super::envelope::append(&mut event, &Changes { changed: topics.names().collect() });
    event.extend_from_slice(b"\n\n");
    event.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_what_browsers_parse() {
        let topics = LiveTopics::STATUS.with(LiveTopics::GUILDS);
        assert_eq!(changed(topics), "event: changed\ndata: {\"changed\":[\"status\",\"guilds\"]}\n\n");
        assert_eq!(first(LiveTopics::TEAM, 2500), "retry: 2500\nevent: changed\ndata: {\"changed\":[\"team\"]}\n\n");
    }
}
