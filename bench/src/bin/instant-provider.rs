//! An identity provider that answers at once and knows every user, so that a sign-in benchmark measures the service.
//!
//! `instant-provider ADDRESS`: prints its URL, for `COMPANION_IDP_BASE_URL`.
//!
//! The code `PERSON-GUILDS` signs in the user with the id PERSON, who is in GUILDS guilds: "1000000", "1000001" and so on. The user may
//! manage all of them and owns none. A code works any number of times, and so do the tokens, which are the code itself. What is no such
//! code is refused.

use std::convert::Infallible;
use std::net::TcpListener;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FIRST_GUILD: u64 = 1_000_000;
/// The permission to manage the guild.
const PERMISSIONS: &str = "32";

fn main() -> anyhow::Result<()> {
    let [address] = bench::arguments("instant-provider ADDRESS")?;
    bench::serve_on_every_core(&address, serve)
}

fn serve(listener: TcpListener) -> anyhow::Result<()> {
    bench::serve_connections(listener, |stream| async {
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await;
    })
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let text = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = || text.and_then(|text| text.strip_prefix("Bearer ")).and_then(parse).ok_or(StatusCode::UNAUTHORIZED);
    // The service's base URL may contain a version.
    let path = head.uri.path();
    let answered = if path.ends_with("/oauth2/token") {
        match body.collect().await {
            Ok(body) => token(&body.to_bytes()).ok_or(StatusCode::BAD_REQUEST),
            Err(_) => Err(StatusCode::BAD_REQUEST),
        }
    } else if path.ends_with("/oauth2/token/revoke") {
        Ok(json!({}))
    } else if path.ends_with("/users/@me/guilds") {
        bearer().map(|(_, count)| guilds(count))
    } else if path.ends_with("/users/@me") {
        bearer().map(|(person, _)| user(person))
    } else {
        Err(StatusCode::NOT_FOUND)
    };
    let (status, value) = match answered {
        Ok(value) => (StatusCode::OK, value),
        Err(status) => (status, json!({ "error": "invalid_grant" })),
    };
    let mut response = Response::new(Full::from(value.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// The person and the number of guilds that a code names.
fn parse(code: &str) -> Option<(u64, u64)> {
    let (person, guilds) = code.split_once('-')?;
    Some((person.parse().ok()?, guilds.parse().ok()?))
}

fn token(form: &[u8]) -> Option<Value> {
    let is_code = |name: &str| matches!(name, "code" | "refresh_token");
    let (_, code) = form_urlencoded::parse(form).find(|(name, _)| is_code(name))?;
    parse(&code)?;
    Some(json!({
        "token_type": "Bearer",
        "access_token": code,
        "refresh_token": code,
        "expires_in": 604_800,
        "scope": "identify guilds",
    }))
}

fn user(person: u64) -> Value {
    json!({ "id": person.to_string(), "username": format!("person{person}"), "global_name": null, "avatar": null })
}

fn guilds(count: u64) -> Value {
    (FIRST_GUILD..FIRST_GUILD + count)
        .map(|id| {
            let (id, name) = (id.to_string(), format!("Guild {id}"));
            json!({ "id": id, "name": name, "icon": null, "owner": false, "permissions": PERMISSIONS, "features": [] })
        })
        .collect()
}
