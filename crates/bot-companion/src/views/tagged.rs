//! A body with its `ETag`: clients that have it may ask whether it is still the same.

use std::fmt::Write;

use aws_lc_rs::digest;
use bytes::Bytes;

use super::compressible::CompressibleBody;

/// A response that is ready to send.
#[derive(Debug)]
pub struct TaggedBody {
    /// The whole body.
    pub body: CompressibleBody,
    /// Changes with the body; with its quotes.
    pub etag: String,
    /// The same for the compressed body, which is another sequence of bytes.
    pub gzip_etag: String,
}

impl TaggedBody {
    /// A body with its tags.
    pub fn new(body: Bytes) -> Self {
        let digest = digest::digest(&digest::SHA256, &body);
        let mut hex = String::new();
        for byte in &digest.as_ref()[..16] {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
        }
        Self { body: CompressibleBody::new(body), etag: format!("\"{hex}\""), gzip_etag: format!("\"{hex}-gzip\"") }
    }
}
