//! The short way for the hot reads: one synchronous function, called before the router, that answers from memory or not at all.
//! Whatever is not at hand, refused or unusual is left to the router; both make their responses with the same functions.

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::Full;
use hyper::body::Body;

use super::arrival::Arrival;
use super::respond::json;
use super::{extract, guilds, pipeline, readiness, status, team};
use crate::app::App;

/// The answer to a `GET` or `HEAD` of `/`, `/team`, `/feedback`, `/guilds` or `/ready`, if it is at hand.
pub(super) fn answer<B: Body>(
    app: &App,
    request: &Request<B>,
    path: &str,
    arrival: &Arrival,
) -> Option<Response<Full<Bytes>>> {
    let headers = request.headers();
    let plain = matches!(*request.method(), Method::GET | Method::HEAD)
        && request.body().is_end_stream()
        && pipeline::headers_fit(headers);
    if !plain {
        return None;
    }
    match path {
        "/" => app.views.status.cached(|| status::latencies(app, arrival, headers)).map(json),
        "/team" => app.views.team.cached().map(|answer| team::respond(&answer, headers)),
        "/feedback" => app.views.feedback.cached(arrival.seed).map(json),
        "/guilds" if !guilds::wants_fresh(headers) => {
            let token = extract::session_token(headers).ok()?;
            let session = app.views.sessions.cached(&token, arrival.time)?;
            let answer = app.views.guilds.cached(session.user, arrival.time)?;
            Some(guilds::respond(&answer, answer.age(arrival.time)))
        }
        readiness::PATH => readiness::at_once(app),
        _ => None,
    }
}
