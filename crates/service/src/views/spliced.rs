//! A body that is the same for everyone except for a few bytes in known places. It is compressed once; what a request inserts
//! goes between the compressed pieces uncompressed, so that no request pays for the whole body.

use std::io::Write;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use crc32fast::Hasher;
use flate2::Compression;
use flate2::write::DeflateEncoder;

/// The start of gzip data without a name and a time (RFC 1952).
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// An empty last block (RFC 1951).
const LAST_BLOCK: [u8; 2] = [3, 0];

/// The body and the places in it. Clones share all of it.
#[derive(Clone, Debug)]
pub struct SplicedBody {
    plain: Bytes,
    /// Where text may be inserted, in ascending order.
    cuts: Vec<usize>,
    /// Empty until a client asks; `None` if it isn't worth it.
    compressed: Arc<OnceLock<Option<Vec<CompressedPiece>>>>,
}

/// The part of the body between two places: whole blocks, none of which is the last or refers back beyond the piece.
#[derive(Debug)]
struct CompressedPiece {
    blocks: Vec<u8>,
    checksum: Hasher,
    length: usize,
}

impl SplicedBody {
    /// A body with these places; one that is outside it counts as its end.
    pub fn new(plain: Bytes, cuts: Vec<usize>) -> Self {
        let cuts = cuts.into_iter().map(|cut| cut.min(plain.len())).collect();
        Self { plain, cuts, compressed: Arc::default() }
    }

    /// The body with each of these texts inserted.
    pub fn with(&self, texts: &[&str]) -> Bytes {
        let mut body = Vec::with_capacity(self.plain.len() + texts.iter().map(|text| text.len()).sum::<usize>());
        for (piece, text) in self.pieces().zip(texts.iter().copied().chain([""])) {
            body.extend_from_slice(piece);
            body.extend_from_slice(text.as_bytes());
        }
        body.into()
    }

    /// The same, compressed. `None` if compression isn't worth it, or was not requested with [`Self::compress`].
    pub fn gzip_with(&self, texts: &[&str]) -> Option<Bytes> {
        let pieces = self.compressed.get()?.as_ref()?;
        let mut body = GZIP_HEADER.to_vec();
        let (mut checksum, mut length) = (Hasher::new(), 0_usize);
        for (piece, text) in pieces.iter().zip(texts.iter().copied().chain([""])) {
            body.extend_from_slice(&piece.blocks);
            checksum.combine(&piece.checksum);
            let mut of_text = Hasher::new();
            for block in text.as_bytes().chunks(usize::from(u16::MAX)) {
                // No chunk is longer.
                let size = u16::try_from(block.len()).unwrap_or(u16::MAX);
                body.push(0);
                body.extend_from_slice(&size.to_le_bytes());
                body.extend_from_slice(&(!size).to_le_bytes());
                body.extend_from_slice(block);
                of_text.update(block);
            }
            checksum.combine(&of_text);
            length += piece.length + text.len();
        }
        body.extend_from_slice(&LAST_BLOCK);
        body.extend_from_slice(&checksum.finalize().to_le_bytes());
        // Its lowest 32 bits, as the format requires.
        body.extend_from_slice(&length.to_le_bytes()[..4]);
        Some(body.into())
    }

    /// Whether it was compressed, or found not to be worth it.
    pub fn is_compressed(&self) -> bool {
        self.compressed.get().is_some()
    }

    /// Compresses it, unless that has been done. Too slow for a task on the runtime.
    pub fn compress(&self) {
        self.compressed.get_or_init(|| {
            let pieces = self.pieces().map(compress).collect::<std::io::Result<Vec<_>>>().ok()?;
            let length: usize = pieces.iter().map(|piece| piece.blocks.len()).sum();
            (length <= self.plain.len() / 2).then_some(pieces)
        });
    }

    /// The parts between the places; one more than there are places.
    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.cuts.iter().copied());
        let ends = self.cuts.iter().copied().chain([self.plain.len()]);
        starts.zip(ends).map(|(start, end)| self.plain.get(start..end).unwrap_or_default())
    }
}

fn compress(piece: &[u8]) -> std::io::Result<CompressedPiece> {
    let mut encoder = DeflateEncoder::new(Vec::with_capacity(piece.len() / 4), Compression::default());
    encoder.write_all(piece)?;
    // Ends the block at a whole byte.
    encoder.flush()?;
    let mut checksum = Hasher::new();
    checksum.update(piece);
    Ok(CompressedPiece { blocks: std::mem::take(encoder.get_mut()), checksum, length: piece.len() })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn decompressed(gzip: &[u8]) -> String {
        let mut text = String::new();
        // It refuses a wrong checksum, a wrong length, and truncated data.
        flate2::read::GzDecoder::new(gzip).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn texts_stand_in_their_places_compressed_or_not() {
        let long = "text ".repeat(20_000);
        let page = format!("<p>{long}</p><i></i><p>{long}</p>");
        let first = page.find("<i>").unwrap() + 3;
        let second = page.len() - 4;
        let body = SplicedBody::new(page.clone().into(), vec![first, second]);
        assert_eq!(body.gzip_with(&["", ""]), None, "nobody asked for it yet");
        body.compress();
        for (one, two) in [("", ""), ("one", ""), ("", "two"), ("ä", &"x".repeat(200_000)[..])] {
            let expected = format!("{}{one}{}{two}{}", &page[..first], &page[first..second], &page[second..]);
            assert_eq!(body.with(&[one, two]), expected);
            assert_eq!(decompressed(&body.gzip_with(&[one, two]).unwrap()), expected);
        }
        let small = body.gzip_with(&["one", "two"]).unwrap().len();
        assert!(small < page.len() / 50, "{small}");
    }

    #[test]
    fn what_does_not_shrink_stays_as_it_is() {
        let body = SplicedBody::new("ab".into(), vec![1, 9]);
        body.compress();
        assert!(body.is_compressed());
        assert_eq!((body.gzip_with(&["1", "2"]), body.with(&["1", "2"])), (None, "a1b2".into()));
    }
}
