//! Zones: every route belongs to exactly one, which decides what the middleware does with a request before a handler sees it.
//! Limits come before work, so a path's zone is looked up before routing, in a table built from the same registrations as the
//! router. There is no default: [`Routes::zone`] is the only way to register a route.

use std::sync::Arc;

use axum::Router;
use axum::routing::MethodRouter;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use super::cors::Cors;
use crate::app::App;

/// What the middleware does with every request of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Zone {
    pub(super) cors: Cors,
    /// Whose rate limit a request counts against.
    pub(super) rate_limit: RateLimitedBy,
    /// What happens to a request's body, and which time limit and permits it has.
    pub(super) body: RequestBody,
    /// Whether a response's length may be unknown when it begins.
    pub(super) may_stream: bool,
    pub(super) errors: ErrorFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorFormat {
    /// The envelope, for programs.
    Envelope,
    /// A page, for people.
    Page,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RateLimitedBy {
    /// Counted by the middleware.
    ClientAddress,
    /// Counted by the extractor that checks the key.
    BotKey,
    Nobody,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestBody {
    /// No route in the zone accepts one: it is read up to a limit and dropped. The request has `limits.request_timeout`, and a
    /// permit from `limits.concurrent_requests`.
    Drained,
    /// Passed to the handler as it arrives. The handler limits how long it may be silent, and takes one of the permits of the
    /// bot's key (`app/uploads.rs`), so that slow uploads take nothing from people.
    Streamed,
}

/// The website: no credentials, and any page may read it.
pub(super) const PUBLIC: Zone = Zone {
    cors: Cors::AnyOrigin,
    rate_limit: RateLimitedBy::ClientAddress,
    body: RequestBody::Drained,
    may_stream: false,
    errors: ErrorFormat::Envelope,
};

/// Pages for people, which pages elsewhere may not read.
pub(super) const SITE: Zone = Zone { cors: Cors::NoOrigin, errors: ErrorFormat::Page, ..PUBLIC };

/// The files of pages. Not rate-limited, so that even the page that says "too many requests" has its style.
/// Requests for files that don't exist are counted.
pub(super) const ASSETS: Zone = Zone { rate_limit: RateLimitedBy::Nobody, ..SITE };

/// The dashboard: responses depend on a session, so only pages of the configured origins may read them.
pub(super) const DASHBOARD: Zone = Zone { cors: Cors::AllowedOrigins, ..PUBLIC };

/// Live streams for anyone. The middleware's limits apply until the stream begins; then it counts against `limits.live`.
pub(super) const LIVE: Zone = Zone { may_stream: true, ..PUBLIC };

/// Live streams of a user.
pub(super) const DASHBOARD_LIVE: Zone = Zone { may_stream: true, ..DASHBOARD };

/// The bot: no pages, large bodies, and its key instead of its address.
pub(super) const BOT: Zone = Zone {
    cors: Cors::NoOrigin,
    rate_limit: RateLimitedBy::BotKey,
    body: RequestBody::Streamed,
    may_stream: false,
    errors: ErrorFormat::Envelope,
};

/// Operations: load balancers may check as often as they like.
pub(super) const OPERATIONS: Zone = Zone { rate_limit: RateLimitedBy::Nobody, ..PUBLIC };

/// A route table under construction.
#[derive(Default)]
pub(super) struct Routes {
    router: OpenApiRouter<Arc<App>>,
    paths: Vec<(String, Zone)>,
    unknown_below: Vec<(&'static str, Zone)>,
}

pub(super) struct RouteTable {
    pub(super) router: Router<Arc<App>>,
    pub(super) document: OpenApi,
    pub(super) zones: Zones,
}

impl Routes {
    /// Registers the methods of one path in a zone.
    pub(super) fn zone(mut self, zone: Zone, routes: UtoipaMethodRouter<Arc<App>>) -> Self {
        self.paths.extend(routes.1.paths.keys().map(|path| (path.clone(), zone)));
        self.router = self.router.routes(routes);
        self
    }

    /// Registers a path that isn't part of the API or its description.
    pub(super) fn page(mut self, zone: Zone, path: &'static str, methods: MethodRouter<Arc<App>>) -> Self {
        self.paths.push((path.to_owned(), zone));
        self.router = self.router.route(path, methods);
        self
    }

    /// The zone of unknown paths at and below this prefix.
    pub(super) fn unknown_below(mut self, prefix: &'static str, zone: Zone) -> Self {
        self.unknown_below.push((prefix, zone));
        self
    }

    /// The zone of all other unknown paths, which completes the table.
    pub(super) fn unknown(self, zone: Zone) -> RouteTable {
        let (router, document) = self.router.split_for_parts();
        let (patterns, exact) = self.paths.into_iter().partition(|(path, _)| path.contains('{'));
        RouteTable {
            router,
            document,
            zones: Zones { exact, patterns, unknown_below: self.unknown_below, unknown: zone },
        }
    }
}

/// The index of all unknown paths.
const UNKNOWN_ROUTE: usize = 0;

/// The zones of all paths. Every request is looked up, so the lookup allocates nothing; there are few enough routes to scan.
#[derive(Debug)]
pub(super) struct Zones {
    exact: Vec<(String, Zone)>,
    /// Paths with parameters, like `/sessions/{id}`.
    patterns: Vec<(String, Zone)>,
    unknown_below: Vec<(&'static str, Zone)>,
    unknown: Zone,
}

impl Zones {
    /// The zone of a path below the base path, and the index of its route in [`Zones::routes`]. `None` is a path outside it.
    pub(super) fn of(&self, path: Option<&str>) -> (Zone, usize) {
        let Some(path) = path else { return (self.unknown, UNKNOWN_ROUTE) };
        if let Some(index) = self.exact.iter().position(|(known, _)| known == path) {
            return (self.exact[index].1, 1 + index);
        }
        if let Some(index) = self.patterns.iter().position(|(pattern, _)| matches(pattern, path)) {
            return (self.patterns[index].1, 1 + self.exact.len() + index);
        }
        let prefix = self.unknown_below.iter().find(|(prefix, _)| is_at_or_below(prefix, path));
        (prefix.map_or(self.unknown, |(_, zone)| *zone), UNKNOWN_ROUTE)
    }

    /// The templates of all routes, as named in metrics.
    pub(super) fn routes(&self) -> Vec<String> {
        let known = self.exact.iter().chain(&self.patterns).map(|(path, _)| path.clone());
        std::iter::once("unknown".to_owned()).chain(known).collect()
    }
}

/// Whether a path matches a pattern; `{…}` stands for any non-empty segment.
fn matches(pattern: &str, path: &str) -> bool {
    let (mut expected, mut given) = (pattern.split('/'), path.split('/'));
    loop {
        match (expected.next(), given.next()) {
            (None, None) => return true,
            (Some(expected), Some(given)) if expected == given || (expected.starts_with('{') && !given.is_empty()) => {}
            _ => return false,
        }
    }
}

fn is_at_or_below(prefix: &str, path: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::super::routes::route_table;
    use super::*;
    use crate::config::Config;

    #[test]
    fn every_documented_route_is_in_its_zone_and_in_no_other() {
        let expected = [
            ("/", PUBLIC),
            ("/team", PUBLIC),
            ("/feedback", PUBLIC),
            ("/stats", PUBLIC),
            ("/live", LIVE),
            ("/auth", DASHBOARD),
            ("/me", DASHBOARD),
            ("/me/live", DASHBOARD_LIVE),
            ("/guilds", DASHBOARD),
            ("/guilds/invitable", DASHBOARD),
            ("/guilds/{id}", DASHBOARD),
            ("/sessions", DASHBOARD),
            ("/sessions/{id}", DASHBOARD),
            ("/bot/heartbeat", BOT),
            ("/bot/shards/{shard_count}/{shard_id}/guilds", BOT),
            ("/bot/subscriptions", BOT),
            ("/bot/events", BOT),
            ("/bot/state", BOT),
            ("/ready", OPERATIONS),
            ("/openapi.json", PUBLIC),
        ];
        let table = route_table(None);
        let documented: Vec<&str> = table.document.paths.paths.keys().map(String::as_str).collect();
        assert_eq!(documented, expected.map(|(path, _)| path));
        for (path, zone) in expected {
            let asked = path.replace("{id}", "abc").replace("{shard_count}", "2").replace("{shard_id}", "1");
            let (found, route) = table.zones.of(Some(&asked));
            assert_eq!((found, table.zones.routes()[route].as_str()), (zone, path));
        }
        let registered = table.zones.exact.iter().chain(&table.zones.patterns);
        let mut registered: Vec<&str> = registered.map(|(path, _)| path.as_str()).collect();
        registered.sort_unstable();
        let mut once = documented;
        once.sort_unstable();
        assert_eq!(registered, once, "a path is in one zone, once");
    }

    #[test]
    fn paths_that_lead_nowhere_are_public_except_below_the_bots() {
        let table = [
            ("/nowhere", PUBLIC),
            ("/sessions/", PUBLIC),
            ("/sessions/a/b", PUBLIC),
            ("/team/", PUBLIC),
            ("/ready/", PUBLIC),
            ("/botany", PUBLIC),
            ("", PUBLIC),
            ("/bot", BOT),
            ("/bot/", BOT),
            ("/bot/nowhere", BOT),
            ("/bot/shards/1/0", BOT),
        ];
        let zones = route_table(None).zones;
        for (path, zone) in table {
            assert_eq!(zones.of(Some(path)), (zone, UNKNOWN_ROUTE), "{path}");
        }
        assert_eq!(zones.of(None), (PUBLIC, UNKNOWN_ROUTE));
    }

    #[test]
    fn pages_are_in_a_zone_of_their_own_and_not_in_the_document() {
        let config = Config::load(None, [("COMPANION_SITE_ENABLED", "true")]).unwrap();
        let (without, with) = (route_table(None), route_table(Some(&config.site)));
        assert!(without.document.paths.paths == with.document.paths.paths);
        for path in ["/site", "/site/", "/site/status", "/site/dashboard", "/site/nowhere", "/docs", "/docs/nowhere"] {
            assert_eq!(with.zones.of(Some(path)).0, SITE, "{path}");
            assert_eq!(without.zones.of(Some(path)), (PUBLIC, UNKNOWN_ROUTE), "{path}");
        }
        assert_eq!(with.zones.of(Some("/badge/status.svg")).0, PUBLIC);
        let known = with.zones.exact.iter().chain(&with.zones.patterns);
        assert_eq!(
            known.map(|(path, _)| path).collect::<std::collections::BTreeSet<_>>().len(),
            with.zones.routes().len() - 1
        );
    }

    #[test]
    fn a_zone_says_who_may_read_what() {
        let table = [
            (PUBLIC, Cors::AnyOrigin, RateLimitedBy::ClientAddress, RequestBody::Drained),
            (DASHBOARD, Cors::AllowedOrigins, RateLimitedBy::ClientAddress, RequestBody::Drained),
            (BOT, Cors::NoOrigin, RateLimitedBy::BotKey, RequestBody::Streamed),
            (OPERATIONS, Cors::AnyOrigin, RateLimitedBy::Nobody, RequestBody::Drained),
        ];
        for (zone, cors, rate_limit, body) in table {
            assert_eq!((zone.cors, zone.rate_limit, zone.body), (cors, rate_limit, body));
        }
    }
}
