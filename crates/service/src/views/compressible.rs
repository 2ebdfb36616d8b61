//! A body that is compressed when a client first asks for it, and only once.

use std::io::Write;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

/// A body up to this size fits into one packet, so compressing it saves nothing.
const SMALLEST: usize = 1024;

/// A body, plain and compressed. Clones share both.
#[derive(Clone, Debug)]
pub struct CompressibleBody {
    plain: Bytes,
    /// Empty until a client asks; `None` if it isn't worth it.
    gzip: Arc<OnceLock<Option<Bytes>>>,
}

impl CompressibleBody {
    pub fn new(plain: Bytes) -> Self {
        // For a short body, the answer is known.
        let gzip = if plain.len() > SMALLEST { OnceLock::new() } else { OnceLock::from(None) };
        Self { plain, gzip: Arc::new(gzip) }
    }

    pub fn plain(&self) -> &Bytes {
        &self.plain
    }

    /// The compressed body: `None` if it isn't known yet, `Some(None)` if it isn't worth it.
    pub fn gzip(&self) -> Option<Option<&Bytes>> {
        self.gzip.get().map(Option::as_ref)
    }

    /// Compresses it, unless that has been done. It takes about a millisecond for 50 KB, which is too long for a task on the
    /// runtime.
    pub fn compress(&self) -> Option<&Bytes> {
        self.gzip.get_or_init(|| compress(&self.plain)).as_ref()
    }

    /// The most memory it will take.
    pub fn largest_size(&self) -> usize {
        self.plain.len() + if self.plain.len() > SMALLEST { self.plain.len() / 2 } else { 0 }
    }
}

/// `None` unless it halves the length: otherwise it would cost a client more than it saves, and the cache more than was
/// counted.
fn compress(plain: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 4), Compression::default());
    encoder.write_all(plain).ok()?;
    let compressed = encoder.finish().ok()?;
    (compressed.len() <= plain.len() / 2).then(|| compressed.into_boxed_slice().into())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn what_is_long_and_repeats_itself_is_compressed_once() {
        let text = "the same again ".repeat(100);
        let body = CompressibleBody::new(text.clone().into());
        assert_eq!(body.gzip(), None);
        let compressed = body.compress().cloned().unwrap();
        assert!(compressed.len() < 100, "{}", compressed.len());
        assert_eq!(body.clone().gzip(), Some(Some(&compressed)), "a clone shares it");
        assert_eq!(body.compress().unwrap().as_ptr(), compressed.as_ptr(), "it is not made again");
        let mut decompressed = String::new();
        flate2::read::GzDecoder::new(&compressed[..]).read_to_string(&mut decompressed).unwrap();
        assert_eq!(decompressed, text);
        assert!(body.largest_size() >= text.len() + compressed.len());
    }

    #[test]
    fn what_is_short_or_random_stays_as_it_is() {
        let short = CompressibleBody::new("a".repeat(SMALLEST).into());
        assert_eq!((short.gzip(), short.compress()), (Some(None), None));
        // A xorshift generator: no byte predicts the next.
        let mut state = 1_u64;
        let random: Vec<u8> = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[0]
        })
        .take(4 * SMALLEST)
        .collect();
        let random = CompressibleBody::new(random.into());
        assert_eq!((random.gzip(), random.compress(), random.gzip()), (None, None, Some(None)));
    }
}
