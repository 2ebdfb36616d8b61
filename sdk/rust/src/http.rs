//! The HTTP transport: compressed bodies, limited responses, no redirects.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::clock::Clock;
use crate::gzip;
use crate::transport::{Body, Request, Response, Transport, envelope_data};

/// Below this, compression saves nothing.
const WORTH_COMPRESSING: usize = 4 * 1024;
/// The largest response to read.
const ANSWER_BYTES: usize = 1024 * 1024;

/// A connection that was idle for this long is not used again.
const IDLE: Duration = Duration::from_secs(10);

type HttpBody = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// Sends requests to one address with one key.
pub(crate) struct HttpTransport {
    url: String,
    authorization: HeaderValue,
    client: Client<HttpsConnector<HttpConnector>, HttpBody>,
    clock: Arc<dyn Clock>,
    flush_interval: Duration,
}

impl HttpTransport {
    /// Fails if the system's certificate authorities cannot be read; the error says why.
    pub(crate) fn new(
        url: &str,
        mut authorization: HeaderValue,
        clock: Arc<dyn Clock>,
        flush_interval: Duration,
    ) -> std::io::Result<Self> {
        let tls = HttpsConnectorBuilder::new();
        let provider = rustls::crypto::ring::default_provider();
        let connector = if url.starts_with("https:") {
            tls.with_provider_and_native_roots(provider)?.https_only().enable_http1().build()
        } else {
            // No certificate is ever checked.
            let config = rustls::ClientConfig::builder_with_provider(provider.into())
                .with_safe_default_protocol_versions()
                .map_err(std::io::Error::other)?
                .with_root_certificates(rustls::RootCertStore::empty())
                .with_no_client_auth();
            tls.with_tls_config(config).https_or_http().enable_http1().build()
        };
        authorization.set_sensitive(true);
        // If the service closed an idle connection just as it is reused, that would look like an outage.
        let client = Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE).build(connector);
        Ok(Self { url: url.to_owned(), authorization, client, clock, flush_interval })
    }

    fn build(&self, request: Request) -> Result<hyper::Request<HttpBody>, hyper::http::Error> {
        let mut builder = hyper::Request::builder()
            .method(request.method)
            .uri(format!("{}{}", self.url, request.path))
            .header(AUTHORIZATION, self.authorization.clone())
            .header(USER_AGENT, concat!("bot-companion-feed/", env!("CARGO_PKG_VERSION")));
        if let Some(instance) = request.instance {
            builder = builder.header("Feed-Instance", instance);
        }
        if let Some(sequence) = request.sequence {
            builder = builder.header("Feed-Sequence", sequence);
        }
        if let Some(after) = request.after {
            builder = builder.header("Feed-After", after);
        }
        let (kind, is_zipped, body) = match request.body {
            Body::Json(bytes) => ("application/json", false, whole(bytes)),
            Body::Lines(bytes) if bytes.len() < WORTH_COMPRESSING => ("application/x-ndjson", false, whole(bytes)),
            Body::Lines(bytes) => ("application/x-ndjson", true, whole(gzip::compress_whole(&bytes))),
            Body::Stream(lines) => {
                let pieces = gzip::compress(lines, Arc::clone(&self.clock), self.flush_interval);
                (
                    "application/x-ndjson",
                    true,
                    StreamBody::new(pieces.map(|piece| Ok(Frame::data(piece)))).boxed_unsync(),
                )
            }
        };
        if is_zipped {
            builder = builder.header(CONTENT_ENCODING, "gzip");
        }
        builder.header(CONTENT_TYPE, kind).body(body)
    }
}

fn whole(bytes: Vec<u8>) -> HttpBody {
    Full::new(Bytes::from(bytes)).boxed_unsync()
}

impl Transport for HttpTransport {
    fn send(&self, request: Request) -> BoxFuture<'static, Result<Response, String>> {
        let request = self.build(request);
        let client = self.client.clone();
        Box::pin(async move {
            let request = request.map_err(|error| error.to_string())?;
            let response = client.request(request).await.map_err(|error| causes(&error))?;
            let status = response.status().as_u16();
            let retry_after =
                response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
            let body = Limited::new(response.into_body(), ANSWER_BYTES).collect().await;
            let body = body.map_err(|error| format!("the answer cannot be read: {error}"))?.to_bytes();
            Ok(Response { status, retry_after, data: envelope_data(&body) })
        })
    }
}

/// An error and what caused it.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
