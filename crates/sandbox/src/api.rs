//! The four endpoints, as the provider answers them.

use std::io;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use http::header::{AUTHORIZATION, HeaderMap};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use super::faults::Fault;
use super::grants::{ACCESS_LIFE, CodeRefusal, TokenPair};
use super::people::Person;
use super::reply::{self, Reply};
use super::{SandboxState, pairs, value};
use provider::idp::SCOPE;

/// Longer than any client waits.
const SLOW: Duration = Duration::from_secs(30);

/// Exchanges a code or a refresh token for a pair of tokens.
pub(super) async fn token(state: &SandboxState, headers: &HeaderMap, body: &[u8]) -> io::Result<Reply> {
    let form = pairs(body);
    if !is_our_client(state, headers, &form) {
        return Ok(reply::invalid_client());
    }
    let now = state.options.clock.now();
    match value(&form, "grant_type") {
        Some("authorization_code") => {
            let Some(code) = value(&form, "code") else { return Ok(invalid_request("code")) };
            if let Some(person) = state.person(code) {
                return Ok(granted(&state.grants.lock().grant(&person.name, SCOPE, now)));
            }
            if let Some(reply) = simulate(state, code).await {
                return reply;
            }
            let mut grants = state.grants.lock();
            let used = grants.use_code(code, value(&form, "redirect_uri"), value(&form, "code_verifier"), now);
            Ok(match used {
                Ok((person, scope)) => granted(&grants.grant(&person, &scope, now)),
                Err(CodeRefusal::Code) => reply::invalid_grant(),
                Err(CodeRefusal::RedirectUri) => invalid_request("redirect_uri"),
                Err(CodeRefusal::Verifier) => reply::oauth_error(
                    StatusCode::BAD_REQUEST,
                    "invalid_grant",
                    Some("Invalid \"code_verifier\" in request."),
                ),
            })
        }
        Some("refresh_token") => {
            let pair = value(&form, "refresh_token").and_then(|refresh| state.grants.lock().refresh(refresh, now));
            let refused = || reply::oauth_error(StatusCode::BAD_REQUEST, "invalid_grant", None);
            Ok(pair.map_or_else(refused, |pair| granted(&pair)))
        }
        _ => Ok(reply::oauth_error(StatusCode::BAD_REQUEST, "unsupported_grant_type", None)),
    }
}

/// Ends every token of the token's user.
pub(super) fn revoke(state: &SandboxState, headers: &HeaderMap, body: &[u8]) -> Reply {
    let form = pairs(body);
    if !is_our_client(state, headers, &form) {
        return reply::invalid_client();
    }
    if let Some(token) = value(&form, "token") {
        state.grants.lock().revoke(token);
    }
    // An unknown token is a success too, because it certainly no longer works.
    reply::json(StatusCode::OK, &json!({}))
}

pub(super) fn user(state: &SandboxState, headers: &HeaderMap) -> Reply {
    let Some(person) = bearer(state, headers, "identify") else { return reply::api_error(StatusCode::UNAUTHORIZED) };
    let body = json!({
        "id": person.id,
        "username": person.username,
        "discriminator": "0",
        "global_name": person.global_name,
        "avatar": person.avatar,
        "banner": null,
        "accent_color": null,
        "public_flags": 0,
        "flags": 0,
        "premium_type": 0,
        "mfa_enabled": true,
        "locale": "en-GB",
    });
    reply::json(StatusCode::OK, &body)
}

pub(super) async fn guilds(state: &SandboxState, headers: &HeaderMap) -> io::Result<Reply> {
    let Some(person) = bearer(state, headers, "guilds") else { return Ok(reply::api_error(StatusCode::UNAUTHORIZED)) };
    if let Some(fault) = state.control.fault_of_list(&person.name).await {
        return reply::fault(fault).await;
    }
    let guilds = person.guilds.iter().map(|guild| {
        json!({
            "id": guild.id,
            "name": guild.name,
            "icon": guild.icon,
            "banner": null,
            "owner": guild.owner,
            "permissions": guild.permissions.to_string(),
            "features": guild.features,
        })
    });
    Ok(reply::json(StatusCode::OK, &Value::Array(guilds.collect())))
}

pub(super) const SPECIAL_CODES: [(&str, &str); 7] = [
    ("refused", "a refusal, as for a used or expired code (400 invalid_grant)"),
    ("slow", "a response after 30 seconds, when the service has given up"),
    ("rate-limited", "a rate limit of 2 seconds (429)"),
    ("edge-limited", "a rate limit at the edge, without details (429)"),
    ("down", "a provider that is down (503)"),
    ("nonsense", "an HTML page instead of JSON"),
    ("no-scope", "a sign-in that doesn't share the guilds with the service"),
];

/// The response to a special code.
async fn simulate(state: &SandboxState, code: &str) -> Option<io::Result<Reply>> {
    let fault = match code {
        "refused" => Fault::InvalidGrant,
        "slow" => {
            tokio::time::sleep(SLOW).await;
            Fault::InvalidGrant
        }
        "rate-limited" => Fault::RateLimited { retry_after: Some(2.0), json: true, global: false },
        "edge-limited" => Fault::RateLimited { retry_after: None, json: false, global: false },
        "down" => Fault::down(),
        "nonsense" => Fault::Nonsense,
        "no-scope" => {
            let first = state.people.lock().first().map(|person| person.name.clone());
            let now = state.options.clock.now();
            let grant = |name: String| granted(&state.grants.lock().grant(&name, "identify", now));
            return Some(Ok(first.map_or_else(reply::invalid_grant, grant)));
        }
        _ => return None,
    };
    Some(reply::fault(fault).await)
}

fn granted(pair: &TokenPair) -> Reply {
    let body = json!({
        "token_type": "Bearer",
        "access_token": pair.access,
        "expires_in": ACCESS_LIFE.as_secs(),
        "refresh_token": pair.refresh,
        "scope": pair.scope,
    });
    reply::json(StatusCode::OK, &body)
}

fn invalid_request(field: &str) -> Reply {
    let description = format!("Invalid \"{field}\" in request.");
    reply::oauth_error(StatusCode::BAD_REQUEST, "invalid_request", Some(&description))
}

/// Through HTTP Basic, or in the form.
fn is_our_client(state: &SandboxState, headers: &HeaderMap, form: &[(String, String)]) -> bool {
    let expected = (state.options.client_id.as_str(), state.options.client_secret.expose_secret());
    let Some(basic) = credentials(headers, "Basic") else {
        return value(form, "client_id").zip(value(form, "client_secret")) == Some(expected);
    };
    let decoded = STANDARD.decode(basic).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.as_deref().and_then(|pair| pair.split_once(':')) == Some(expected)
}

fn bearer(state: &SandboxState, headers: &HeaderMap, scope: &str) -> Option<Person> {
    let now = state.options.clock.now();
    let name = state.grants.lock().person(credentials(headers, "Bearer")?, scope, now)?;
    state.person(&name)
}

fn credentials<'a>(headers: &'a HeaderMap, scheme: &str) -> Option<&'a str> {
    let (given, credentials) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    given.eq_ignore_ascii_case(scheme).then_some(credentials)
}
