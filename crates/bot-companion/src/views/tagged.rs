//! A body with its `ETag`: clients that have it may ask whether it is still the same.

use std::fmt::Write;

use aws_lc_rs::digest;
use bytes::Bytes;

/// A response that is ready to send.
#[derive(Debug)]
pub struct TaggedBody {
    /// The whole body.
    pub body: Bytes,
    /// Changes with the body; with its quotes.
    pub etag: String,
}

impl TaggedBody {
    pub(super) fn new(body: Bytes) -> Self {
        let digest = digest::digest(&digest::SHA256, &body);
        let mut etag = String::from("\"");
        for byte in &digest.as_ref()[..16] {
            // Writing to a string cannot fail.
            let _ = write!(etag, "{byte:02x}");
        }
        etag.push('"');
        Self { body, etag }
    }
}
