//! Requests by route, method and status, and how long they took. Every request is counted here, including those from the fast
//! path. So a route is an index assigned when the routes were registered, and each thread has its own table: counting neither
//! hashes nor allocates nor waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::counters::{Shards, zeros};
use super::histogram::{Histogram, HistogramSnapshot};
use super::labels::{Label, RequestMethod};

/// The status for a client that left before there was a response, as logged by reverse proxies.
pub const CLIENT_LEFT: u16 = 499;

/// The statuses that the service knows, most frequent first; all others are counted as 0, "other".
const STATUSES: [u16; 21] =
    [200, 304, 204, 401, 404, 429, 503, 400, 403, 405, 408, 409, 413, 415, 422, 431, CLIENT_LEFT, 500, 502, 504, 0];

#[derive(Debug)]
pub struct RequestMetrics {
    /// The templates of the routes, like `/guilds/{id}`, each at its index.
    routes: Vec<String>,
    shards: Shards<RequestTable>,
}

/// What some threads have counted.
#[derive(Debug)]
struct RequestTable {
    requests: Box<[AtomicU64]>,
    durations: Box<[Histogram]>,
}

impl RequestMetrics {
    pub fn new(routes: Vec<String>) -> Self {
        let count = routes.len();
        let table = || RequestTable {
            requests: zeros(count * RequestMethod::ALL.len() * STATUSES.len()),
            durations: (0..count).map(|_| Histogram::default()).collect(),
        };
        Self { shards: Shards::new(table), routes }
    }

    pub fn count(&self, route: usize, method: RequestMethod, status: u16, took: Duration) {
        let status = STATUSES.iter().position(|known| *known == status).unwrap_or(STATUSES.len() - 1);
        let table = self.shards.mine();
        // A route that isn't in the list is a bug, which must not take the request down.
        if let (Some(requests), Some(duration)) =
            (table.requests.get(cell(route, method, status)), table.durations.get(route))
        {
            requests.fetch_add(1, Ordering::Relaxed);
            duration.observe(took);
        }
    }

    pub fn route(&self, index: usize) -> &str {
        self.routes.get(index).map_or("unknown", String::as_str)
    }

    /// The routes with any counts, and how long requests took.
    pub fn durations(&self) -> impl Iterator<Item = (&str, HistogramSnapshot)> {
        let of_route =
            |(index, route)| (route, HistogramSnapshot::of(self.shards.iter().map(|table| &table.durations[index])));
        let all = self.routes.iter().map(String::as_str).enumerate().map(of_route);
        all.filter(|(_, durations)| durations.count() > 0)
    }

    /// The routes, methods and statuses with any counts, and how many.
    pub fn counts(&self) -> impl Iterator<Item = (&str, RequestMethod, String, u64)> {
        let routes = self.routes.iter().enumerate();
        let cells = routes.flat_map(move |(index, route)| {
            RequestMethod::ALL.iter().flat_map(move |method| {
                STATUSES.iter().enumerate().map(move |(at, status)| {
                    let cell = cell(index, *method, at);
                    let count = self.shards.iter().map(|table| table.requests[cell].load(Ordering::Relaxed)).sum();
                    (route.as_str(), *method, status, count)
                })
            })
        });
        let counted = cells.filter(|(.., count)| *count > 0);
        counted.map(|(route, method, status, count)| {
            (route, method, if *status == 0 { "other".to_owned() } else { status.to_string() }, count)
        })
    }
}

fn cell(route: usize, method: RequestMethod, status: usize) -> usize {
    (route * RequestMethod::ALL.len() + method.index()) * STATUSES.len() + status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_told_by_route_method_and_status() {
        let metrics = RequestMetrics::new(vec!["unknown".to_owned(), "/guilds/{id}".to_owned()]);
        let odd = http::Method::from_bytes(b"BREW").unwrap();
        for (route, method, status) in [
            (1, &http::Method::GET, 200),
            (1, &http::Method::GET, 200),
            (1, &http::Method::DELETE, CLIENT_LEFT),
            (0, &odd, 418),
            (7, &odd, 200),
        ] {
            metrics.count(route, method.into(), status, Duration::from_millis(2));
        }
        let counts: Vec<_> = metrics
            .counts()
            .map(|(route, method, status, count)| format!("{route} {} {status} {count}", method.text()))
            .collect();
        assert_eq!(counts, ["unknown other other 1", "/guilds/{id} GET 200 2", "/guilds/{id} DELETE 499 1"]);
        let durations: Vec<_> = metrics.durations().map(|(route, took)| (route, took.count())).collect();
        assert_eq!(durations, [("unknown", 1), ("/guilds/{id}", 3)]);
    }
}
