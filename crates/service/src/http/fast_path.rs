//! The fast path for hot reads: synchronous functions, called before the router, that respond from the cache or not at all, and
//! refuse what floods would send. Anything uncached or unusual is left to the router; a test compares the responses of the two.

use http::Method;
use telemetry::metrics::LimitName;

use super::context::RequestContext;
use super::error::ApiError;
use super::hot_request::HotRequest;
use super::hot_response::HotBody;
use super::zone::{RateLimitedBy, Zone, Zones};
use super::{auth, credentials, etag, guilds, readiness, stats, status, team};
use crate::app::App;
use crate::views::guilds::Listing;

#[derive(Clone, Copy, Debug)]
enum HotPath {
    Status,
    Team,
    Feedback,
    Stats,
    Guilds,
    Ready,
    /// Only refused here.
    SignIn,
}

const PATHS: [(&str, HotPath); 7] = [
    ("/", HotPath::Status),
    ("/team", HotPath::Team),
    ("/feedback", HotPath::Feedback),
    ("/stats", HotPath::Stats),
    ("/guilds", HotPath::Guilds),
    ("/ready", HotPath::Ready),
    ("/auth", HotPath::SignIn),
];

/// The paths that the fast path answers, as clients send them.
#[derive(Debug)]
pub(super) struct HotRoutes(Vec<HotRoute>);

#[derive(Debug)]
pub(super) struct HotRoute {
    sent: String,
    path: HotPath,
    pub(super) zone: Zone,
    pub(super) route: usize,
}

impl HotRoutes {
    pub(super) fn new(base_path: &str, zones: &Zones) -> Self {
        let route = |(path, kind): (&str, HotPath)| {
            let (zone, route) = zones.of(Some(path));
            HotRoute { sent: format!("{base_path}{path}"), path: kind, zone, route }
        };
        let mut routes = PATHS.map(route).into_iter().collect::<Vec<_>>();
        if !base_path.is_empty() {
            let (zone, route) = zones.of(Some("/"));
            routes.push(HotRoute { sent: base_path.to_owned(), path: HotPath::Status, zone, route });
        }
        Self(routes)
    }

    pub(super) fn find(&self, request: &HotRequest<'_>) -> Option<&HotRoute> {
        let route = self.0.iter().find(|route| route.sent == request.path)?;
        let is_sign_in = matches!(route.path, HotPath::SignIn);
        (is_sign_in == (request.method == Method::POST)).then_some(route)
    }
}

/// Why a request whose response is not cached is refused, if that takes no work to tell. Nothing is counted.
pub(super) fn try_refuse(app: &App, route: &HotRoute, context: &RequestContext) -> Option<ApiError> {
    if route.zone.rate_limit == RateLimitedBy::ClientAddress
        && let Err(wait) = app.rate_limits.check_request(context.client, context.ticks)
    {
        return Some(ApiError::limited(LimitName::Requests, wait));
    }
    match route.path {
        HotPath::SignIn => auth::try_refuse(app, context.client),
        _ => None,
    }
}

/// The response, if it is cached.
pub(super) fn try_respond(
    app: &App,
    route: &HotRoute,
    request: &HotRequest<'_>,
    context: &RequestContext,
) -> Option<HotBody> {
    let headers = &request.headers;
    match route.path {
        HotPath::Status => {
            let latencies = || status::latencies(app, context, headers.sent_epoch);
            let body = app.views.status.cached(context.time, latencies)?;
            Some(HotBody { links_to_site: true, ..HotBody::fixed(body) })
        }
        HotPath::Team => app.views.team.with_cached(|cached| etag::try_respond(cached, team::CACHING, headers)),
        HotPath::Feedback => app.views.feedback.cached(app.sources.random.number()).map(HotBody::fixed),
        HotPath::Stats => app.views.stats.with_cached(|cached| etag::try_respond(cached, stats::CACHING, headers)),
        HotPath::Guilds => {
            if headers.cache_control.is_some_and(guilds::names_no_cache) {
                return None;
            }
            let token = credentials::parse_session_token(headers.token?)?;
            let session = app.views.sessions.cached(&token, context.time)?;
            let cached = app.views.guilds.cached(Listing::WithBot, session.user, context.time)?;
            guilds::try_respond(&cached, context.time, headers)
        }
        HotPath::Ready => readiness::try_respond(app),
        HotPath::SignIn => None,
    }
}
