//! Compressed responses for clients that accept them (`Accept-Encoding`).

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};

use super::hot_request::{self, HotHeaders};
use crate::views::compressible::CompressibleBody;

const GZIP: HeaderValue = HeaderValue::from_static("gzip");
const ACCEPT_ENCODING: HeaderValue = HeaderValue::from_static("accept-encoding");

/// A body in the encoding that a client accepts.
#[derive(Debug)]
pub(super) struct EncodedBody {
    pub(super) bytes: Bytes,
    pub(super) is_gzip: bool,
}

impl EncodedBody {
    fn plain(body: &CompressibleBody) -> Self {
        Self { bytes: body.plain().clone(), is_gzip: false }
    }

    fn gzip_or_plain(body: &CompressibleBody, gzip: Option<&Bytes>) -> Self {
        gzip.map_or_else(|| Self::plain(body), |gzip| Self { bytes: gzip.clone(), is_gzip: true })
    }

    /// Adds headers that say how the response is encoded, and that other clients may get it differently.
    pub(super) fn add_headers(&self, headers: &mut HeaderMap) {
        headers.insert(header::VARY, ACCEPT_ENCODING);
        if self.is_gzip {
            headers.insert(header::CONTENT_ENCODING, GZIP);
        }
    }
}

/// The body in the encoding that the client accepts, if that takes no work now.
pub(super) fn try_encode(body: &CompressibleBody, accepts_gzip: bool) -> Option<EncodedBody> {
    if accepts_gzip {
        body.gzip().map(|gzip| EncodedBody::gzip_or_plain(body, gzip))
    } else {
        Some(EncodedBody::plain(body))
    }
}

/// The same for the fast path.
pub(super) fn try_encode_hot(body: &CompressibleBody, asked: &HotHeaders<'_>) -> Option<EncodedBody> {
    let accepted = asked.accept_encoding.and_then(hot_request::text);
    try_encode(body, accepted.is_some_and(|line| names_gzip(std::iter::once(line))))
}

/// The body in the encoding that the client accepts.
pub(super) async fn encode(body: &CompressibleBody, asked: &HeaderMap) -> EncodedBody {
    if let Some(encoded) = try_encode(body, accepts_gzip(asked)) {
        return encoded;
    }
    let shared = body.clone();
    let compress = move || EncodedBody::gzip_or_plain(&shared, shared.compress());
    // If the task panics or the runtime no longer accepts it, the body stays uncompressed.
    tokio::task::spawn_blocking(compress).await.unwrap_or_else(|_| EncodedBody::plain(body))
}

fn accepts_gzip(asked: &HeaderMap) -> bool {
    names_gzip(asked.get_all(header::ACCEPT_ENCODING).iter().filter_map(|line| line.to_str().ok()))
}

/// Whether a client with these `Accept-Encoding` lines accepts gzip. A named encoding takes precedence over `*`.
fn names_gzip<'a>(lines: impl Iterator<Item = &'a str>) -> bool {
    let mut by_wildcard = false;
    for accepted in lines.flat_map(|line| line.split(',')) {
        let mut parts = accepted.split(';').map(str::trim);
        let coding = parts.next().unwrap_or_default();
        let is_wanted = !parts.any(is_zero_weight);
        if coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip") {
            return is_wanted;
        }
        by_wildcard |= coding == "*" && is_wanted;
    }
    by_wildcard
}

/// Whether this parameter means "not acceptable". A malformed weight counts as that, because an uncompressed body harms nobody.
fn is_zero_weight(parameter: &str) -> bool {
    let Some((name, weight)) = parameter.split_once('=') else { return true };
    name.trim().eq_ignore_ascii_case("q") && !weight.trim().parse().is_ok_and(|weight: f32| weight > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_who_accepts_it() {
        for (lines, accepts) in [
            (&[][..], false),
            (&[""], false),
            (&["gzip"], true),
            (&["GZIP"], true),
            (&["x-gzip"], true),
            (&["gzip, deflate, br, zstd"], true),
            (&["br", "gzip"], true),
            (&["br;q=1.0, gzip;q=0.8, *;q=0.1"], true),
            (&["gzip;q=0"], false),
            (&["gzip;q=0.000"], false),
            (&["gzip ; q=0.001"], true),
            (&["gzip;q=nonsense"], false),
            (&["gzip;q=NaN"], false),
            (&["gzip;q"], false),
            (&["*"], true),
            (&["*;q=0"], false),
            (&["*, gzip;q=0"], false),
            (&["*;q=0, gzip"], true),
            (&["identity"], false),
            (&["deflate, br"], false),
            (&["gzipped"], false),
        ] {
            let asked: HeaderMap =
                lines.iter().map(|line| (header::ACCEPT_ENCODING, HeaderValue::from_static(line))).collect();
            assert_eq!(accepts_gzip(&asked), accepts, "{lines:?}");
        }
    }
}
