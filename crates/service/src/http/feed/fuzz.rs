//! Fuzz tests of uploads: lines and gzip, in chunks of any size.

use std::io::{Read, Write};
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::body::Body;
use bolero::check;
use flate2::Compression;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use futures_util::stream;
use http::{HeaderMap, HeaderValue, header};
use test_support::inputs::{ITERATIONS, near};
use tokio::runtime::{Builder, Runtime};

use super::body::Upload;

/// The size limit for uploads here.
const BOUND: usize = 512;
const SAMPLES: &[&[u8]] = &[b"{\"id\":\"7\"}\n{\"end\":1}\n", b"one\n\n  \r\ntwo\r\nthree", b"\n\n\n"];

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The lines of a body that arrives in chunks of this size; `None` if it is refused.
fn lines(runtime: &Runtime, body: &[u8], chunk: usize, is_gzip: bool) -> Option<Vec<Vec<u8>>> {
    let mut headers = HeaderMap::new();
    if is_gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    let chunks: Vec<_> = body.chunks(chunk).map(|bytes| Ok::<_, std::io::Error>(bytes.to_vec())).collect();
    let body = Body::from_stream(stream::iter(chunks));
    runtime.block_on(async {
        let mut upload = Upload::new(&headers, body, BOUND as u64, Duration::from_secs(10)).ok()?;
        let mut lines = Vec::new();
        while let Some(line) = upload.next_line().await.ok()? {
            lines.push(line.to_vec());
        }
        Some(lines)
    })
}

/// The same, done the simple way.
fn expected(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let filled = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    (text.len() <= BOUND).then(|| filled.map(<[u8]>::to_vec).collect())
}

/// The contents of this gzip data; `None` if it is damaged or followed by something.
fn unzipped(bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut decoder, mut text) = (GzDecoder::new(bytes), Vec::new());
    decoder.read_to_end(&mut text).ok()?;
    decoder.into_inner().is_empty().then_some(text)
}

#[test]
fn fuzz_uploads() {
    let runtime = AssertUnwindSafe(Builder::new_current_thread().enable_all().build().unwrap());
    let ask = |runtime: &Runtime, text: &[u8], chunk: usize| {
        assert_eq!(lines(runtime, text, chunk, false), expected(text));
        assert_eq!(lines(runtime, &gzip(text), chunk, true), expected(text));
    };
    check!()
        .with_iterations(ITERATIONS)
        .with_generator((near(SAMPLES), 1..64_usize))
        .for_each(|(text, chunk)| ask(&runtime, text, *chunk));
}

#[test]
fn fuzz_gzip() {
    static ZIPPED: std::sync::LazyLock<[&'static [u8]; 2]> =
        std::sync::LazyLock::new(|| [gzip(SAMPLES[0]).leak(), gzip(&[b'\n'; 4 * BOUND]).leak()]);
    let runtime = AssertUnwindSafe(Builder::new_current_thread().enable_all().build().unwrap());
    let ask = |runtime: &Runtime, body: &[u8], chunk: usize| {
        let found = lines(runtime, body, chunk, true);
        assert_eq!(found, unzipped(body).and_then(|text| expected(&text)), "{}", body.escape_ascii());
    };
    check!()
        .with_iterations(ITERATIONS)
        .with_generator((near(&*ZIPPED), 1..64_usize))
        .for_each(|(body, chunk)| ask(&runtime, body, *chunk));
}
