//! What an unsuccessful response means: to the caller (an error) and to the guard (an outcome).

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;

use super::guard::CallOutcome;
use super::{Endpoint, IdpError, IdpErrorKind};

/// How long to back off if the provider does not say.
const UNKNOWN_LIMIT: Duration = Duration::from_secs(5);
const LONGEST_LIMIT: Duration = Duration::from_hours(1);
/// A limit of "0 seconds" must not turn a caller into a busy loop.
const SHORTEST_LIMIT: Duration = Duration::from_millis(100);

/// The OAuth error codes that may be logged; anything else is untrusted text.
const OAUTH_ERRORS: [&str; 7] = [
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
    "access_denied",
];

#[derive(Debug)]
pub(super) struct ProviderResponse {
    pub(super) status: StatusCode,
    /// The `Retry-After` header, if it is a number of seconds.
    pub(super) retry_after: Option<f64>,
    pub(super) body: Vec<u8>,
}

/// An error for the caller, and what it means to the guard.
pub(super) type FailedCall = (IdpError, CallOutcome);

/// The body of a success; otherwise what went wrong.
pub(super) fn judge(endpoint: Endpoint, response: ProviderResponse) -> Result<Vec<u8>, FailedCall> {
    let status = response.status;
    if status == StatusCode::OK {
        return Ok(response.body);
    }
    let json: Option<Value> = serde_json::from_slice(&response.body).ok().filter(Value::is_object);
    let failure = |kind, code_spent, outcome, detail: &str| {
        let detail = format!("the {} endpoint answered {}{detail}", endpoint.name(), status.as_u16());
        (IdpError { kind, code_spent, detail }, outcome)
    };
    Err(match status {
        StatusCode::TOO_MANY_REQUESTS => {
            let span = backoff(json.as_ref(), response.retry_after);
            // Without JSON it comes from an edge server, which limits our address rather than the call.
            let global = json.as_ref().is_none_or(|json| json["global"] == true);
            failure(IdpErrorKind::RateLimited(span), false, CallOutcome::Limited { span, global }, "")
        }
        StatusCode::FORBIDDEN if json.is_none() => {
            failure(IdpErrorKind::Refused, true, CallOutcome::Blocked, " without JSON, probably from an edge server")
        }
        StatusCode::FORBIDDEN if endpoint != Endpoint::Token => {
            failure(IdpErrorKind::Refused, true, CallOutcome::Denied, "")
        }
        StatusCode::UNAUTHORIZED if !endpoint.is_ours() => {
            failure(IdpErrorKind::Unauthorized, false, CallOutcome::Denied, "")
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::BAD_REQUEST if endpoint.is_ours() => {
            let json = json.unwrap_or_default();
            let word = OAUTH_ERRORS.into_iter().find(|word| json["error"] == *word);
            let (kind, code_spent) = match refusal(status, word, &json) {
                (kind, _) if status == StatusCode::FORBIDDEN && kind != IdpErrorKind::Misconfigured => {
                    (IdpErrorKind::Refused, true)
                }
                refusal => refusal,
            };
            let outcome = match status {
                StatusCode::BAD_REQUEST => CallOutcome::Healthy,
                // Strangers choose the code, so only responses that name our credentials are about those.
                _ if endpoint == Endpoint::Token && kind != IdpErrorKind::Misconfigured => CallOutcome::Blocked,
                _ => CallOutcome::Denied,
            };
            failure(kind, code_spent, outcome, &word.map(|word| format!(" {word}")).unwrap_or_default())
        }
        // A request that it cannot parse says nothing about its health, and callers can provoke one with an odd code.
        other if other.is_client_error() => failure(IdpErrorKind::Refused, true, CallOutcome::Healthy, ""),
        _ => failure(IdpErrorKind::Unavailable, true, CallOutcome::Failed, ""),
    })
}

/// A 200 with an unexpected body.
pub(super) fn unreadable(endpoint: Endpoint, what: &str) -> FailedCall {
    let detail = format!("the {} endpoint sent an unreadable answer: {what}", endpoint.name());
    (IdpError { kind: IdpErrorKind::Unavailable, code_spent: true, detail }, CallOutcome::Failed)
}

/// Who is to blame for the token endpoint's refusal, and whether the code may be used up. We are only if the response is
/// about what we choose (credentials, kind of grant): operators are alerted for that, and a stranger chooses code and verifier.
fn refusal(status: StatusCode, word: Option<&str>, json: &Value) -> (IdpErrorKind, bool) {
    let blamed = |field: &str| {
        // `Invalid "code" in request.`, or a form error: `{"client_id": ["Value … is not snowflake."]}`, or, as newer ones are
        // written, `{"code": 50035, "errors": {"client_id": …}}`.
        let named = json["error_description"].as_str().is_some_and(|text| text.contains(&format!("\"{field}\"")));
        named || json[field].is_array() || json["errors"][field].is_object()
    };
    match word {
        Some("invalid_client" | "unauthorized_client") => (IdpErrorKind::Misconfigured, false),
        // A wrong redirect address comes as either of two errors, and both may have used up the code.
        _ if blamed("redirect_uri") => (IdpErrorKind::RedirectRefused, true),
        Some("invalid_grant") => (IdpErrorKind::Rejected, true),
        _ if blamed("code") || blamed("code_verifier") || blamed("refresh_token") => (IdpErrorKind::Rejected, true),
        _ if blamed("client_id") || blamed("client_secret") => (IdpErrorKind::Misconfigured, false),
        Some("unsupported_grant_type") => (IdpErrorKind::Misconfigured, true),
        // OAuth answers 401 to an unknown client.
        None if status == StatusCode::UNAUTHORIZED => (IdpErrorKind::Misconfigured, false),
        _ => (IdpErrorKind::Refused, true),
    }
}

fn backoff(json: Option<&Value>, header: Option<f64>) -> Duration {
    let seconds = [json.and_then(|json| json["retry_after"].as_f64()), header];
    let usable = seconds.into_iter().flatten().find(|seconds| *seconds >= 0.0);
    let span =
        usable.map_or(UNKNOWN_LIMIT, |seconds| Duration::from_secs_f64(seconds.min(LONGEST_LIMIT.as_secs_f64())));
    span.max(SHORTEST_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the caller learns, whether the code may be used up, and what the guard learns.
    type Meaning = (IdpErrorKind, bool, CallOutcome);

    const fn limited(millis: u64, global: bool) -> Meaning {
        let span = Duration::from_millis(millis);
        (IdpErrorKind::RateLimited(span), false, CallOutcome::Limited { span, global })
    }

    #[test]
    fn every_answer_has_one_meaning() {
        use CallOutcome::{Blocked, Denied, Failed, Healthy};
        use Endpoint::{Guilds, Revoke, Token, User};
        use IdpErrorKind::{Misconfigured, RedirectRefused, Refused, Rejected, Unauthorized, Unavailable};
        let bearer = r#"{"message":"401: Unauthorized","code":0}"#;
        let cases: &[(Endpoint, u16, &str, Meaning)] = &[
            (Token, 400, r#"{"error":"invalid_grant"}"#, (Rejected, true, Healthy)),
            (
                Token,
                400,
                r#"{"error":"invalid_grant","error_description":"Invalid \"code\" in request."}"#,
                (Rejected, true, Healthy),
            ),
            (
                Token,
                400,
                r#"{"error":"invalid_request","error_description":"Invalid \"code\" in request."}"#,
                (Rejected, true, Healthy),
            ),
            (Token, 400, r#"{"code":["Must be 512 or fewer in length."]}"#, (Rejected, true, Healthy)),
            (
                Token,
                400,
                r#"{"error":"invalid_request","error_description":"Invalid \"redirect_uri\" in request."}"#,
                (RedirectRefused, true, Healthy),
            ),
            (
                Token,
                400,
                r#"{"error":"invalid_grant","error_description":"Invalid \"redirect_uri\" in request."}"#,
                (RedirectRefused, true, Healthy),
            ),
            (Token, 400, r#"{"error":"unsupported_grant_type"}"#, (Misconfigured, true, Healthy)),
            (Token, 400, r#"{"error":"invalid_request"}"#, (Refused, true, Healthy)),
            (Token, 400, r#"{"client_id":["Value \"x\" is not snowflake."]}"#, (Misconfigured, false, Healthy)),
            (Token, 400, r#"{"error":"invalid_client"}"#, (Misconfigured, false, Healthy)),
            (Token, 401, r#"{"error":"invalid_client"}"#, (Misconfigured, false, Denied)),
            (Revoke, 401, r#"{"error":"invalid_client"}"#, (Misconfigured, false, Denied)),
            (Token, 401, r#"{"error":"unauthorized_client"}"#, (Misconfigured, false, Denied)),
            (Token, 401, r#"{"error":"invalid_request"}"#, (Refused, true, Blocked)),
            (Token, 401, bearer, (Misconfigured, false, Denied)),
            (Revoke, 401, bearer, (Misconfigured, false, Denied)),
            (Revoke, 403, bearer, (Refused, true, Denied)),
            (Token, 400, r#"{"code":50035,"errors":{"code":{"_errors":[]}}}"#, (Rejected, true, Healthy)),
            (Token, 400, r#"{"code":50035,"errors":{"client_id":{"_errors":[]}}}"#, (Misconfigured, false, Healthy)),
            (
                Token,
                400,
                r#"{"code":50035,"errors":{"redirect_uri":{"_errors":[]}}}"#,
                (RedirectRefused, true, Healthy),
            ),
            (Token, 400, r#"{"code":50035,"errors":{"other":{"_errors":[]}}}"#, (Refused, true, Healthy)),
            (Token, 400, r#"{"other":["Not a well formed URL."]}"#, (Refused, true, Healthy)),
            (Token, 400, "what?", (Refused, true, Healthy)),
            (Token, 400, r#"{"error":"s3cret words of theirs"}"#, (Refused, true, Healthy)),
            (Token, 404, bearer, (Refused, true, Healthy)),
            (User, 401, bearer, (Unauthorized, false, Denied)),
            (Guilds, 401, "", (Unauthorized, false, Denied)),
            (Guilds, 403, r#"{"message":"Missing Access","code":50001}"#, (Refused, true, Denied)),
            (Token, 403, "<html>blocked</html>", (Refused, true, Blocked)),
            (Token, 403, r#"{"message":"Missing Access","code":50001}"#, (Refused, true, Blocked)),
            (Token, 403, r#"{"error":"invalid_grant"}"#, (Refused, true, Blocked)),
            (Token, 403, r#"{"error":"invalid_client"}"#, (Misconfigured, false, Denied)),
            (User, 400, "{}", (Refused, true, Healthy)),
            (Token, 500, r#"{"error":"invalid_grant"}"#, (Unavailable, true, Failed)),
            (User, 503, "", (Unavailable, true, Failed)),
            (User, 302, "", (Unavailable, true, Failed)),
            (User, 204, "", (Unavailable, true, Failed)),
            (Guilds, 429, r#"{"retry_after":0.65,"global":false}"#, limited(650, false)),
            (Token, 429, r#"{"retry_after":64,"global":true}"#, limited(64_000, true)),
            (Token, 429, r#"{"retry_after":-1,"global":false}"#, limited(5_000, false)),
            (Token, 429, r#"{"retry_after":0}"#, limited(100, false)),
            (Token, 429, r#"{"retry_after":1e300}"#, limited(3_600_000, false)),
            (Token, 429, "error code: 1015", limited(5_000, true)),
            (Token, 429, "null", limited(5_000, true)),
        ];
        for (endpoint, status, body, expected) in cases {
            let status = StatusCode::from_u16(*status).unwrap();
            let response = ProviderResponse { status, retry_after: None, body: body.as_bytes().to_vec() };
            let (error, outcome) = judge(*endpoint, response).unwrap_err();
            assert_eq!((error.kind, error.code_spent, outcome), *expected, "{endpoint:?} {status} {body}");
            assert!(!error.detail.contains("s3cret") && !error.detail.contains("html"), "{}", error.detail);
        }
    }

    #[test]
    fn a_limit_is_read_from_the_body_then_from_the_header() {
        for (body, header, expected) in [
            (r#"{"retry_after":1.5}"#, Some(9.0), limited(1500, false)),
            (r#"{"global":false}"#, Some(9.0), limited(9000, false)),
            ("busy", Some(9.0), limited(9000, true)),
            ("busy", Some(f64::INFINITY), limited(3_600_000, true)),
            ("busy", Some(f64::NAN), limited(5000, true)),
        ] {
            let response =
                ProviderResponse { status: StatusCode::TOO_MANY_REQUESTS, retry_after: header, body: body.into() };
            let (error, outcome) = judge(Endpoint::Token, response).unwrap_err();
            assert_eq!((error.kind, error.code_spent, outcome), expected, "{body} {header:?}");
        }
    }
}
