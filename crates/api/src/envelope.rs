//! The envelope around every response: `{"code", "message", "data"}`. This file has the one for a success, `error.rs` the one
//! for an error.

use bytes::Bytes;
use serde::Serialize;
use utoipa::ToSchema;

/// The bytes before a success's data.
pub(super) const OPENING: &[u8] = br#"{"code":200,"message":"OK","data":"#;
/// The bytes after it.
pub(super) const CLOSING: &[u8] = b"}";

/// No data: `{}`.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct Nothing {}

/// The whole body of a success with this data.
pub fn success(data: &impl Serialize) -> Bytes {
    let mut body = OPENING.to_vec();
    append(&mut body, data);
    body.extend_from_slice(CLOSING);
    // Many bodies are cached, so a body must not take more memory than its length.
    body.into_boxed_slice().into()
}

/// Appends data as JSON.
pub(super) fn append(body: &mut Vec<u8>, data: &impl Serialize) {
    let before = body.len();
    if serde_json::to_writer(&mut *body, data).is_err() {
        // Serialising our own plain types cannot fail; an empty object would be the least harmful value if it did.
        body.truncate(before);
        body.extend_from_slice(b"{}");
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The envelope of a success, as described in `document.rs`.
    #[derive(Serialize)]
    pub(crate) struct Envelope<T> {
        pub(crate) code: u16,
        pub(crate) message: String,
        pub(crate) data: T,
    }

    #[test]
    fn a_success_is_what_the_documented_type_says() {
        let data = vec!["a".to_owned(), "\"".to_owned()];
        let body = success(&data);
        let documented = Envelope { code: 200, message: "OK".to_owned(), data };
        assert_eq!(body, serde_json::to_vec(&documented).unwrap());
        assert_eq!(success(&Nothing {}), r#"{"code":200,"message":"OK","data":{}}"#);
    }
}
