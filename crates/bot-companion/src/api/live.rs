//! `GET /live` and `GET /me/live`: the messages of a stream, as Server-Sent Events.

use bytes::Bytes;
use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::live::LiveTopics;

/// The session has ended, and so does the stream.
pub const ENDED: Bytes = Bytes::from_static(b"event: ended\ndata: {}\n\n");
/// A sign of life.
pub const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// The data of an event `changed`.
#[derive(Serialize, ToSchema)]
pub struct Changed {
    /// What to read again.
    #[schema(example = json!(["status", "guilds"]))]
    pub changed: Vec<&'static str>,
}

/// The first event of a stream: everything is to be read, and after so many milliseconds a lost stream is to be opened again.
pub fn first(topics: LiveTopics, retry_millis: u64) -> Bytes {
    let mut event = format!("retry: {retry_millis}\n").into_bytes();
    append(&mut event, topics);
    event.into()
}

/// The event that names what has changed.
pub fn changed(topics: LiveTopics) -> Bytes {
    let mut event = Vec::new();
    append(&mut event, topics);
    event.into()
}

fn append(event: &mut Vec<u8>, topics: LiveTopics) {
    event.extend_from_slice(b"event: changed\ndata: ");
    super::envelope::append(event, &Changed { changed: topics.names().collect() });
    event.extend_from_slice(b"\n\n");
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
