//! The fast path of the hot reads: one synchronous function, called before the router, that responds from the cache or not at
//! all. What is not cached, refused or unusual is left to the router; both make their responses with the same functions.

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::Full;
use hyper::body::Body;

use super::context::RequestContext;
use super::respond::json;
use super::{extract, guilds, readiness, stats, status, team};
use crate::app::App;

/// The response to a `GET` or `HEAD` of `/`, `/team`, `/feedback`, `/stats`, `/guilds` or `/ready`, if it is cached.
pub(super) fn try_respond<B: Body>(
    app: &App,
    request: &Request<B>,
    path: &str,
    context: &RequestContext,
) -> Option<Response<Full<Bytes>>> {
    let headers = request.headers();
    if !matches!(*request.method(), Method::GET | Method::HEAD) || !request.body().is_end_stream() {
        return None;
    }
    match path {
        "/" => app.views.status.cached(|| status::latencies(app, context, headers)).map(json),
        "/team" => team::try_respond(app, headers),
        "/feedback" => app.views.feedback.cached(context.seed).map(json),
        "/stats" => stats::try_respond(app, headers),
        "/guilds" if !guilds::wants_fresh(headers) => {
            let token = extract::session_token(headers).ok()?;
            let session = app.views.sessions.cached(&token, context.time)?;
            let cached = app.views.guilds.cached(session.user, context.time)?;
            guilds::try_respond(&cached, context.time, headers)
        }
        "/ready" => readiness::try_respond(app),
        _ => None,
    }
}
