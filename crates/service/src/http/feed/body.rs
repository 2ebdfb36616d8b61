//! The body of an upload, decompressed and split into lines as it arrives. Only one line and one chunk are in memory.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use api::error::ErrorCode;
use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use domain::TokenHash;
use domain::saturating;
use flate2::write::GzDecoder;
use futures_util::StreamExt;
use http::{HeaderMap, header};
use runtime::permits_per_key::KeyPermit;

use crate::app::App;
use crate::http::credentials::Bot;
use crate::http::error::ApiError;

/// The longest line.
const LINE_BYTES: usize = 1 << 20;
/// The task yields to others after this many bytes without waiting.
const YIELD_AFTER: usize = 256 * 1024;
/// The longest time spent reading the rest of a refused body.
const DISCARD_FOR: Duration = Duration::from_secs(30);

/// How often an upload's key is checked while data arrives.
const CHECK_EVERY: Duration = Duration::from_secs(3);

/// Checks regularly that an upload's key is still valid.
pub(super) struct KeyCheck {
    app: Arc<App>,
    key: TokenHash,
    /// When it was last checked.
    checked: Duration,
}

impl KeyCheck {
    pub(super) fn new(app: &Arc<App>, bot: &Bot) -> Self {
        Self { app: Arc::clone(app), key: bot.hash, checked: bot.checked }
    }

    async fn check_if_due(&mut self) -> Result<(), ApiError> {
        let now = self.app.sources.clock.ticks();
        if now.saturating_sub(self.checked) < CHECK_EVERY {
            return Ok(());
        }
        self.checked = now;
        match self.app.views.keys.is_valid(self.key).await {
            Ok(false) => Err(ErrorCode::BotKeyInvalid.into()),
            // If the store does not answer, the commit checks the key again.
            Ok(true) | Err(_) => Ok(()),
        }
    }
}

pub(super) struct Upload {
    chunks: BodyDataStream,
    key_check: Option<KeyCheck>,
    _permit: Option<KeyPermit>,
    /// Data that has arrived but is not decoded yet.
    arrived: Bytes,
    decoder: Option<GzDecoder<Vec<u8>>>,
    idle_timeout: Duration,
    /// How many more decoded bytes are allowed.
    left: u64,
    /// How many more bytes may arrive, because compressed data can be endless and decode to nothing.
    arriving_left: u64,
    /// Decoded bytes; those before `taken` were returned as lines.
    buffer: Vec<u8>,
    consumed: usize,
    /// There is no line end between `taken` and this index.
    searched: usize,
    ended: bool,
    /// The number of the last line.
    line: u64,
    /// Bytes decoded since the task last yielded.
    since_yield: usize,
}

impl Upload {
    /// The body with these headers, limited to that many bytes when decompressed.
    pub(super) fn new(headers: &HeaderMap, body: Body, bound: u64, idle_timeout: Duration) -> Result<Self, ApiError> {
        let mut decoder = None;
        for encoding in headers.get_all(header::CONTENT_ENCODING) {
            match encoding.as_bytes().trim_ascii().to_ascii_lowercase().as_slice() {
                b"" | b"identity" => {}
                b"gzip" | b"x-gzip" if decoder.is_none() => decoder = Some(GzDecoder::new(Vec::new())),
                _ => return Err(ErrorCode::EncodingUnsupported.into()),
            }
        }
        Ok(Self {
            chunks: body.into_data_stream(),
            key_check: None,
            _permit: None,
            arrived: Bytes::new(),
            decoder,
            idle_timeout,
            left: bound,
            arriving_left: bound,
            buffer: Vec::new(),
            consumed: 0,
            searched: 0,
            ended: false,
            line: 0,
            since_yield: 0,
        })
    }

    /// Also checks its key regularly, and holds this permit.
    pub(super) fn of_bot(self, check: KeyCheck, permit: KeyPermit) -> Self {
        Self { key_check: Some(check), _permit: Some(permit), ..self }
    }

    /// The number of the last line returned, starting at 1.
    pub(super) fn number(&self) -> u64 {
        self.line
    }

    /// The next line that is not empty.
    pub(super) async fn next_line(&mut self) -> Result<Option<&[u8]>, ApiError> {
        loop {
            let found = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
            let end = match found {
                Some(offset) => self.searched + offset,
                None if self.ended && self.consumed < self.buffer.len() => self.buffer.len(),
                None if self.ended => return Ok(None),
                None => {
                    self.searched = self.buffer.len();
                    if self.searched - self.consumed > LINE_BYTES {
                        return Err(self.error_after_last_line("A line can be at most 1 MiB long."));
                    }
                    self.read_more().await?;
                    continue;
                }
            };
            let start = self.consumed;
            self.consumed = (end + 1).min(self.buffer.len());
            self.searched = self.consumed;
            self.line += 1;
            if end - start > LINE_BYTES {
                return Err(ApiError::line(self.line, &"A line can be at most 1 MiB long."));
            }
            if !self.buffer[start..end].trim_ascii().is_empty() {
                return Ok(Some(&self.buffer[start..end]));
            }
        }
    }

    pub(super) async fn read_all(&mut self) -> Result<Vec<u8>, ApiError> {
        while !self.ended {
            self.read_more().await?;
        }
        Ok(std::mem::take(&mut self.buffer))
    }

    /// Reads the rest and drops it, within limits: a client that is still sending would not see the response otherwise.
    pub(super) async fn discard(mut self) {
        let mut rest = 16_u32 << 20;
        let timeout = self.idle_timeout.min(Duration::from_secs(2));
        let discard = async {
            while let Ok(Some(Ok(chunk))) = tokio::time::timeout(timeout, self.chunks.next()).await {
                rest = rest.saturating_sub(saturating::to_u32(chunk.len()));
                if rest == 0 {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(DISCARD_FOR, discard).await;
    }

    fn error_after_last_line(&self, reason: &str) -> ApiError {
        ApiError::line(self.line + 1, &reason)
    }

    /// Adds some bytes to the buffer, or finds the end.
    async fn read_more(&mut self) -> Result<(), ApiError> {
        self.buffer.drain(..self.consumed);
        self.searched -= self.consumed;
        self.consumed = 0;
        if self.arrived.is_empty() {
            match tokio::time::timeout(self.idle_timeout, self.chunks.next()).await {
                Err(_) => {
                    return Err(ApiError::new(ErrorCode::RequestTimeout).because(&"the upload stopped sending data"));
                }
                Ok(Some(Ok(chunk))) => {
                    count(&mut self.arriving_left, chunk.len())?;
                    self.since_yield += chunk.len();
                    self.arrived = chunk;
                    if let Some(check) = &mut self.key_check {
                        check.check_if_due().await?;
                    }
                }
                Ok(Some(Err(_))) => return Err(self.error_after_last_line("The body was cut off.")),
                Ok(None) => return self.end(),
            }
        }
        let before = self.buffer.len();
        self.decode()?;
        let more = self.buffer.len() - before;
        count(&mut self.left, more)?;
        self.since_yield += more;
        if self.since_yield >= YIELD_AFTER {
            self.since_yield = 0;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Runs one step of the decoder. Its output is limited, so that a decompression bomb is noticed in time.
    fn decode(&mut self) -> Result<(), ApiError> {
        let Some(decoder) = &mut self.decoder else {
            let chunk = self.arrived.split_to(self.arrived.len().min(YIELD_AFTER));
            self.buffer.extend_from_slice(&chunk);
            return Ok(());
        };
        match decoder.write(&self.arrived) {
            // A step that consumes nothing has reached the end of the compressed data.
            Ok(0) => Err(self.error_after_last_line("There is more data after the end of the gzip data.")),
            Ok(consumed) => {
                self.arrived = self.arrived.split_off(consumed);
                self.buffer.append(decoder.get_mut());
                Ok(())
            }
            Err(_) => Err(self.error_after_last_line("The gzip data is damaged.")),
        }
    }

    fn end(&mut self) -> Result<(), ApiError> {
        self.ended = true;
        let Some(mut decoder) = self.decoder.take() else { return Ok(()) };
        if decoder.try_finish().is_err() {
            return Err(self.error_after_last_line("The gzip data is damaged, or was cut off."));
        }
        let rest = std::mem::take(decoder.get_mut());
        count(&mut self.left, rest.len())?;
        self.buffer.extend_from_slice(&rest);
        Ok(())
    }
}

fn count(left: &mut u64, bytes: usize) -> Result<(), ApiError> {
    *left = left.checked_sub(bytes as u64).ok_or(ErrorCode::FeedBodyTooLarge)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use futures_util::stream;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// The lines of a body that arrives in chunks of this size, or the error and the line it names.
    async fn lines(encoding: &str, body: &[u8], chunk: usize, bound: u64) -> Result<Vec<String>, String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, encoding.parse().unwrap());
        let chunks: Vec<_> = body.chunks(chunk).map(|bytes| Ok::<_, std::io::Error>(bytes.to_vec())).collect();
        let body = Body::from_stream(stream::iter(chunks));
        let mut upload = Upload::new(&headers, body, bound, SECOND).map_err(|error| error.code.name().to_owned())?;
        let mut found = Vec::new();
        loop {
            match upload.next_line().await {
                Ok(Some(line)) => found.push(String::from_utf8(line.to_vec()).unwrap()),
                Ok(None) => return Ok(found),
                Err(error) => return Err(String::from_utf8(error.body("id")).unwrap()),
            }
        }
    }

    #[tokio::test]
    async fn lines_come_out_as_they_went_in_whatever_the_pieces() {
        let text = "one\n\n  \r\ntwo\r\nthree";
        let expected = ["one", "two\r", "three"];
        for chunk in [1, 2, 3, 100] {
            assert_eq!(lines("identity", text.as_bytes(), chunk, 100).await.unwrap(), expected);
            assert_eq!(lines("GZIP", &gzip(text.as_bytes()), chunk, 100).await.unwrap(), expected);
        }
        assert!(lines("gzip", &gzip(b""), 5, 100).await.unwrap().is_empty());
        assert_eq!(lines("br", b"x", 5, 100).await, Err("encoding_unsupported".to_owned()));
        assert_eq!(lines("gzip, gzip", b"x", 5, 100).await, Err("encoding_unsupported".to_owned()));
    }

    #[tokio::test]
    async fn what_is_too_much_or_damaged_is_refused() {
        let bomb = gzip(&vec![b'\n'; 64 << 20]);
        let whole = gzip(b"{}\n{}\n");
        let long = vec![b'x'; LINE_BYTES + 1];
        // Empty stored blocks, none of them marked as the last.
        let empty_blocks = [gzip(b"")[..10].to_vec(), b"\0\0\0\xff\xff".repeat(600_000)].concat();
        let table: [(&str, Vec<u8>, &str); 9] = [
            ("gzip", bomb, "body_too_large"),
            ("gzip", empty_blocks, "body_too_large"),
            ("identity", vec![b'\n'; 3 << 20], "body_too_large"),
            ("gzip", whole[..whole.len() - 1].to_vec(), "was cut"),
            ("gzip", [&whole[..], b"x"].concat(), "gzip data"),
            ("gzip", b"{}".to_vec(), "gzip data"),
            ("gzip", Vec::new(), "gzip data"),
            ("identity", long.clone(), "at most 1 MiB"),
            ("identity", [&long[..], b"\n"].concat(), "at most 1 MiB"),
        ];
        for (encoding, body, expected) in table {
            for chunk in [1000, 1 << 16, 8 << 20] {
                let refused = lines(encoding, &body, chunk, 2 << 20).await.unwrap_err();
                assert!(refused.contains(expected), "{refused} is not {expected}");
            }
        }
    }

    #[tokio::test]
    async fn a_bomb_is_noticed_before_it_fills_the_memory() {
        let bomb = gzip(&vec![b'x'; 64 << 20]);
        let body = Body::from(bomb);
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
        let mut upload = Upload::new(&headers, body, u64::MAX, SECOND).unwrap();
        assert!(upload.next_line().await.is_err());
        assert!(upload.buffer.len() < 2 * LINE_BYTES, "{}", upload.buffer.len());
    }
}
