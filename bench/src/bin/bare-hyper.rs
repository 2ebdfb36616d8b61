//! The bare hyper server that the service's hot reads are measured against: the same sockets, threads and allocator, the bytes and
//! headers of one recorded answer, and nothing else.
//!
//! `bare-hyper ADDRESS BODY_FILE HEADER_FILE`: serves the body with the headers (`name: value` lines) on every path. Prints its URL.

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Response};
use hyper_util::rt::TokioIo;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Headers that hyper writes itself.
const OWN: [&str; 3] = ["date", "content-length", "connection"];

fn main() -> anyhow::Result<()> {
    let [address, body, header] = bench::arguments("bare-hyper ADDRESS BODY_FILE HEADER_FILE")?;
    let body = Bytes::from(std::fs::read(body)?);
    let headers = Arc::new(headers(&std::fs::read_to_string(header)?)?);
    bench::serve_on_every_core(&address, move |listener| serve(listener, &body, &headers))
}

fn headers(text: &str) -> anyhow::Result<HeaderMap> {
    let lines = text.lines().filter_map(|line| line.trim().split_once(": "));
    lines
        .filter(|(name, _)| !OWN.contains(&name.to_ascii_lowercase().as_str()))
        .map(|(name, value)| Ok((name.parse::<HeaderName>()?, value.parse::<HeaderValue>()?)))
        .collect()
}

fn serve(listener: TcpListener, body: &Bytes, headers: &Arc<HeaderMap>) -> anyhow::Result<()> {
    bench::serve_connections(listener, |stream| {
        let (body, headers) = (body.clone(), Arc::clone(headers));
        async move {
            let service = service_fn(|_| {
                let mut response = Response::new(Full::new(body.clone()));
                *response.headers_mut() = HeaderMap::clone(&headers);
                async move { Ok::<_, Infallible>(response) }
            });
            // A client that disconnects is the normal end of a connection.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        }
    })
}
