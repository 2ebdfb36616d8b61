//! Compresses lines while they are sent.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use hyper::body::Bytes;

use crate::clock::Clock;

/// How many compressed bytes to send at a time.
const PIECE: usize = 32 * 1024;

struct Zipper {
    lines: BoxStream<'static, Vec<u8>>,
    encoder: Option<GzEncoder<Vec<u8>>>,
    clock: Arc<dyn Clock>,
    flush_interval: Duration,
}

/// The compressed bytes. If lines come slowly, whatever is there is sent at each interval, so that a slow callback doesn't look
/// like a dead connection.
pub(crate) fn compress(
    lines: BoxStream<'static, Vec<u8>>,
    clock: Arc<dyn Clock>,
    flush_interval: Duration,
) -> BoxStream<'static, Bytes> {
    let encoder = Some(GzEncoder::new(Vec::new(), Compression::fast()));
    stream::unfold(Zipper { lines, encoder, clock, flush_interval }, next_piece).boxed()
}

/// Compresses complete data.
pub(crate) fn compress_whole(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to a vector cannot fail.
    drop(encoder.write_all(bytes));
    encoder.finish().unwrap_or_default()
}

async fn next_piece(mut zipper: Zipper) -> Option<(Bytes, Zipper)> {
    let mut encoder = zipper.encoder.take()?;
    let mut has_news = false;
    let mut flush = zipper.clock.sleep(zipper.flush_interval);
    loop {
        let is_slow = tokio::select! {
            biased;
            line = zipper.lines.next() => match line {
                Some(line) => {
                    drop(encoder.write_all(&line));
                    has_news = true;
                    false
                }
                None => return Some((encoder.finish().unwrap_or_default().into(), zipper)),
            },
            () = &mut flush => true,
        };
        if is_slow {
            flush = zipper.clock.sleep(zipper.flush_interval);
            if !has_news {
                continue;
            }
            drop(encoder.flush());
        }
        if is_slow || encoder.get_ref().len() >= PIECE {
            let piece = std::mem::take(encoder.get_mut());
            zipper.encoder = Some(encoder);
            return Some((piece.into(), zipper));
        }
    }
}
