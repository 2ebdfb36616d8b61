//! A body with its `ETag`: clients that have it may ask whether it is still the same.

use std::fmt::Write;

use aws_lc_rs::digest;
use bytes::Bytes;

use super::compressible::CompressibleBody;

/// A response that is ready to send.
#[derive(Debug)]
pub struct TaggedBody {
    pub body: CompressibleBody,
    pub tags: EntityTags,
}

/// The `ETag`s of one body.
#[derive(Debug)]
pub struct EntityTags {
    /// Changes with the body; with its quotes.
    pub plain: String,
    /// The same for the compressed body, which is another sequence of bytes.
    pub gzip: String,
}

impl EntityTags {
    fn new(digest: &digest::Digest) -> Self {
        let mut hex = String::new();
        for byte in &digest.as_ref()[..16] {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
        }
        Self { plain: format!("\"{hex}\""), gzip: format!("\"{hex}-gzip\"") }
    }
}

impl TaggedBody {
    pub fn new(body: Bytes) -> Self {
        let tags = EntityTags::new(&digest::digest(&digest::SHA256, &body));
        Self { body: CompressibleBody::new(body), tags }
    }

    /// The tags of this body with these texts in it, without a look at the whole body again.
    pub fn tags_with(&self, texts: &[&str]) -> EntityTags {
        let mut context = digest::Context::new(&digest::SHA256);
        for text in [self.tags.plain.as_str()].iter().chain(texts) {
            context.update(text.as_bytes());
            // It is in no text that is shown on a page.
            context.update(&[0]);
        }
        EntityTags::new(&context.finish())
    }
}
