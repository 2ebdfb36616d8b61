//! A body with its `ETag`, so that clients can check whether their copy is current.

use std::fmt::Write;

use aws_lc_rs::digest;
use bytes::Bytes;
use http::HeaderValue;

use super::compressible::CompressibleBody;

#[derive(Debug)]
pub struct TaggedBody {
    pub body: CompressibleBody,
    pub tags: EntityTags,
}

/// The `ETag`s of one body.
#[derive(Debug)]
pub struct EntityTags {
    /// Changes with the body; includes its quotes.
    plain: HeaderValue,
    /// The same for the compressed body, which has different bytes.
    gzip: HeaderValue,
}

impl EntityTags {
    fn new(body: &[u8]) -> Self {
        let digest = digest::digest(&digest::SHA256, body);
        let mut hex = String::new();
        for byte in &digest.as_ref()[..16] {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
        }
        // Digits and quotes may be in a header.
        let tag = |text: String| HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("\"\""));
        Self { plain: tag(format!("\"{hex}\"")), gzip: tag(format!("\"{hex}-gzip\"")) }
    }

    pub fn of(&self, is_gzip: bool) -> &HeaderValue {
        if is_gzip { &self.gzip } else { &self.plain }
    }
}

impl TaggedBody {
    pub fn new(body: Bytes) -> Self {
        let tags = EntityTags::new(&body);
        Self { body: CompressibleBody::new(body), tags }
    }
}
