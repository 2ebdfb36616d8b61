//! The sandbox's sockets and routes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use runtime::host;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::reply::{self, Reply};
use super::{SandboxState, api, control, invite, page, pairs, pictures, value};
use provider::idp::Endpoint;

const CONNECTIONS: usize = 4096;
/// Also applies while a connection is idle, so it must be longer than clients keep one.
const HEAD_TIME: Duration = Duration::from_mins(2);
const BODY_TIME: Duration = Duration::from_secs(10);
const LARGEST_HEAD: usize = 64 * 1024;
const LARGEST_BODY: usize = 64 * 1024;

/// Accepts and serves connections until it is told to stop.
pub(super) async fn run(listener: TcpListener, state: Arc<SandboxState>, stop: CancellationToken) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let accept = async {
        loop {
            let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                // Usually out of file descriptors, which come back when a connection ends.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let state = Arc::clone(&state);
            let stop = stop.clone();
            tokio::spawn(async move {
                let service = service_fn(|request| route(&state, request));
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_TIME)
                    .max_buf_size(LARGEST_HEAD)
                    .serve_connection(TokioIo::new(stream), service);
                // A broken connection is the other side's business, and often what a fault asked for.
                let _ = stop.run_until_cancelled(connection).await;
                drop(place);
            });
        }
    };
    stop.run_until_cancelled(accept).await;
}

async fn route(state: &Arc<SandboxState>, request: Request<Incoming>) -> io::Result<Reply> {
    // Another site that points its own domain name at this loopback address must not sign anyone in.
    let host = request.headers().get(header::HOST).map(HeaderValue::as_bytes);
    if !host.is_none_or(host::is_loopback) {
        return Ok(reply::api_error(StatusCode::BAD_REQUEST));
    }
    let path = request.uri().path().to_owned();
    let endpoint = match path.as_str() {
        "/api/v10/oauth2/token" => Endpoint::Token,
        "/api/v10/oauth2/token/revoke" => Endpoint::Revoke,
        "/api/v10/users/@me" => Endpoint::User,
        "/api/v10/users/@me/guilds" => Endpoint::Guilds,
        "/" | "/invite" | "/oauth2/authorize" | "/api/v10/oauth2/authorize" => {
            return Ok(browse(state, &path, &request));
        }
        path if path == control::PATH || path.starts_with("/control/") => return Ok(control(state, request).await),
        path if path.starts_with("/avatars/") || path.starts_with("/icons/") || path.starts_with("/embed/") => {
            return Ok(picture(path, &request));
        }
        _ => return Ok(reply::api_error(StatusCode::NOT_FOUND)),
    };
    let method = if endpoint.is_ours() { Method::POST } else { Method::GET };
    if *request.method() != method {
        return Ok(reply::api_error(StatusCode::METHOD_NOT_ALLOWED));
    }
    if let Some(fault) = state.switches.arrive(endpoint).await {
        return reply::fault(fault).await;
    }
    if let Some(fault) = state.control.fault_at(endpoint).await {
        return reply::fault(fault).await;
    }
    let (head, body) = request.into_parts();
    let Some(body) = read(body).await else { return Ok(reply::api_error(StatusCode::PAYLOAD_TOO_LARGE)) };
    match endpoint {
        Endpoint::Token => api::token(state, &head.headers, &body).await,
        Endpoint::Revoke => Ok(api::revoke(state, &head.headers, &body)),
        Endpoint::User => Ok(api::user(state, &head.headers)),
        Endpoint::Guilds => api::guilds(state, &head.headers).await,
    }
}

async fn control(state: &Arc<SandboxState>, request: Request<Incoming>) -> Reply {
    let (head, body) = request.into_parts();
    let Some(body) = read(body).await else { return reply::api_error(StatusCode::PAYLOAD_TOO_LARGE) };
    // In its own task, so that a switch changes completely even if the client does not wait for it.
    let state = Arc::clone(state);
    let answered = tokio::spawn(async move { control::answer(&state, &head, &body).await }).await;
    answered.unwrap_or_else(|_| reply::api_error(StatusCode::INTERNAL_SERVER_ERROR))
}

fn picture(path: &str, request: &Request<Incoming>) -> Reply {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return reply::api_error(StatusCode::METHOD_NOT_ALLOWED);
    }
    let asked = pairs(request.uri().query().unwrap_or_default().as_bytes());
    let image = pictures::find(path, value(&asked, "size"));
    image.map_or_else(|| reply::api_error(StatusCode::NOT_FOUND), reply::picture)
}

fn browse(state: &SandboxState, path: &str, request: &Request<Incoming>) -> Reply {
    if *request.method() != Method::GET {
        return reply::api_error(StatusCode::METHOD_NOT_ALLOWED);
    }
    if path == "/" {
        return page::redirect(&state.authorize_path());
    }
    let query = request.uri().query().unwrap_or_default();
    if path == "/invite" { invite::page(state, query) } else { page::authorize(state, query) }
}

/// The whole body; `None` if it is too long, too slow, or incomplete.
async fn read(body: Incoming) -> Option<Bytes> {
    let whole = tokio::time::timeout(BODY_TIME, Limited::new(body, LARGEST_BODY).collect());
    Some(whole.await.ok()?.ok()?.to_bytes())
}
