//! `GET /feedback`. Entries are serialised one by one, because each of them is cached; a body is assembled from them.

use bytes::Bytes;
use domain::feedback::FeedbackEntry;
use serde::Serialize;
use utoipa::ToSchema;

use super::envelope::{CLOSING, OPENING};
use super::picture::PictureHost;
use super::user::UserData;

/// A feedback entry.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = FeedbackEntry)]
pub struct FeedbackData {
    /// The message.
    feedback: String,
    /// Stars: 4 or 5.
    #[schema(minimum = 4, maximum = 5)]
    rating: u8,
    /// When it was submitted, in epoch seconds.
    timestamp: u64,
    /// The author's last known profile.
    submitter: UserData,
}

impl FeedbackData {
    fn new(entry: FeedbackEntry, pictures: &PictureHost) -> Self {
        let FeedbackEntry { feedback, rating, timestamp, submitter } = entry;
        Self { feedback, rating, timestamp, submitter: UserData::new(submitter, pictures) }
    }
}

/// One entry, for [`list`].
pub fn entry(entry: FeedbackEntry, pictures: &PictureHost) -> Bytes {
    serde_json::to_vec(&FeedbackData::new(entry, pictures)).unwrap_or_default().into_boxed_slice().into()
}

/// The whole body with these entries, each made by [`entry`].
pub fn list<'a>(entries: impl Iterator<Item = &'a Bytes> + Clone) -> Bytes {
    let length: usize = entries.clone().map(|entry| entry.len() + 1).sum();
    let mut body = Vec::with_capacity(OPENING.len() + length + 2 + CLOSING.len());
    body.extend_from_slice(OPENING);
    body.push(b'[');
    for (index, entry) in entries.enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(entry);
    }
    body.push(b']');
    body.extend_from_slice(CLOSING);
    body.into()
}

#[cfg(test)]
mod tests {
    use domain::{Snowflake, User};

    use super::*;
    use crate::envelope::tests::Envelope;

    #[test]
    fn a_list_is_what_the_documented_type_says() {
        let pictures = PictureHost::new("https://cdn.example", "/0.png", "https://cdn.example");
        let submitter = User {
            username: "u".to_owned(),
            name: "\"U\"".to_owned(),
            id: Snowflake::new(7).unwrap(),
            avatar: "https://example.com/u.png".into(),
        };
        let good = FeedbackEntry { feedback: "good\n".to_owned(), rating: 5, timestamp: 3, submitter };
        let entries = [good.clone(), FeedbackEntry { rating: 4, ..good.clone() }, good];
        for count in 0..=entries.len() {
            let rendered: Vec<Bytes> = entries[..count].iter().cloned().map(|it| entry(it, &pictures)).collect();
            let data: Vec<FeedbackData> =
                entries[..count].iter().cloned().map(|it| FeedbackData::new(it, &pictures)).collect();
            let documented = Envelope { code: 200, message: "OK".to_owned(), data };
            assert_eq!(list(rendered.iter()), serde_json::to_vec(&documented).unwrap());
        }
    }
}
