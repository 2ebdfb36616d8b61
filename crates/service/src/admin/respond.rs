//! The responses of the admin listener: small JSON, or text for Prometheus. None of it uses the API's envelope, and no page may
//! read it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body_util::Full;
use runtime::host;
use runtime::shared_check::SharedCheck;
use serde_json::{Value, json};
use telemetry::metrics;

use super::health::{ProbeOutcome, StoreProbe};
use super::scrape::Census;
use super::{health, scrape};
use crate::app::App;
use crate::http::date;

/// How long a scrape waits for the store.
const SCRAPE_WAIT: Duration = Duration::from_secs(2);
/// How often whole tables are counted.
const CENSUS_EVERY: Duration = Duration::from_mins(1);

/// The name this service goes by.
pub(crate) const SERVICE: &str = "bot-companion";

const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(super) struct AdminService {
    app: Arc<App>,
    probe: StoreProbe,
    census: SharedCheck<Census>,
}

impl AdminService {
    pub(super) fn new(app: Arc<App>) -> Self {
        let probe = StoreProbe::new(&app);
        Self { probe, census: SharedCheck::new(CENSUS_EVERY, app.sources.clock.clone()), app }
    }

    /// Answers a request to this address of ours.
    pub(super) async fn respond<B>(&self, request: &Request<B>, own_address: IpAddr) -> Response<Full<Bytes>> {
        let mut response = self.route(request, own_address).await;
        response.headers_mut().insert(header::DATE, date::header(self.app.sources.clock.now()));
        response
    }

    async fn route<B>(&self, request: &Request<B>, own_address: IpAddr) -> Response<Full<Bytes>> {
        if !is_for_us(request, own_address) {
            let why = "use a loopback name or this listener's own address";
            return error(StatusCode::FORBIDDEN, "host_invalid", why);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = error(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "only GET is supported");
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match request.uri().path() {
            "/metrics" => self.metrics().await,
            "/livez" => self.liveness(),
            "/readyz" if self.app.is_shutting_down() => {
                answer(StatusCode::SERVICE_UNAVAILABLE, &self.readiness("draining"))
            }
            "/readyz" => answer(StatusCode::OK, &self.readiness("ready")),
            "/health" => self.health().await,
            _ => error(StatusCode::NOT_FOUND, "not_found", "try /metrics, /health, /livez or /readyz"),
        }
    }

    fn liveness(&self) -> Response<Full<Bytes>> {
        match self.app.liveness.check() {
            Ok(()) => answer(StatusCode::OK, &json!({"status": "alive"})),
            Err(problem) => {
                let value = json!({"status": "hanging", "problem": problem.to_string()});
                answer(StatusCode::SERVICE_UNAVAILABLE, &value)
            }
        }
    }

    /// Also says who answers, so that `healthcheck` does not accept another service.
    fn readiness(&self, status: &str) -> Value {
        json!({"status": status, "service": SERVICE, "listen": self.app.config.http.listen.to_string()})
    }

    async fn health(&self) -> Response<Full<Bytes>> {
        let probed = self.probe.get().await;
        let status = if probed.is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        answer(status, &health::report(&self.app, &probed))
    }

    async fn metrics(&self) -> Response<Full<Bytes>> {
        let census = self.census.get(|| Census::take(Arc::clone(&self.app)));
        let (probed, census) = tokio::join!(
            tokio::time::timeout(SCRAPE_WAIT, self.probe.get()),
            tokio::time::timeout(SCRAPE_WAIT, census)
        );
        let is_up = probed.as_ref().is_ok_and(ProbeOutcome::is_up);
        let text = scrape::collect(&self.app, is_up, &census.ok().flatten().unwrap_or_default());
        respond(StatusCode::OK, HeaderValue::from_static(metrics::CONTENT_TYPE), text)
    }
}

/// Whether a request names this machine, or the address of ours that it came to. A page elsewhere that points its own name here
/// (DNS rebinding) still sends that name.
fn is_for_us<B>(request: &Request<B>, own_address: IpAddr) -> bool {
    let is_ours = |host: &[u8]| {
        host::is_loopback(host) || host::address(host).is_some_and(|address| address == own_address.to_canonical())
    };
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let named = match (hosts.next(), hosts.next()) {
        // Only HTTP/1.0 can leave it out, and no browser speaks that.
        (None, _) => request.version() == Version::HTTP_10,
        (Some(host), None) => is_ours(host.as_bytes()),
        (Some(_), Some(_)) => false,
    };
    named && request.uri().authority().is_none_or(|target| is_ours(target.as_str().as_bytes()))
}

fn error(status: StatusCode, code: &str, message: &str) -> Response<Full<Bytes>> {
    answer(status, &json!({"error": code, "message": message}))
}

fn answer(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    respond(status, JSON, format!("{body}\n"))
}

fn respond(status: StatusCode, content_type: HeaderValue, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_and_the_own_address_are_answered() {
        let own: IpAddr = "192.0.2.1".parse().unwrap();
        let asked = |hosts: &[&str], uri: &str| {
            let request = hosts.iter().fold(Request::get(uri), |request, host| request.header(header::HOST, *host));
            is_for_us(&request.body(()).unwrap(), own)
        };
        for (host, expected) in [
            ("localhost:9464", true),
            ("127.0.0.1", true),
            ("[::1]:9464", true),
            ("192.0.2.1", true),
            ("192.0.2.1:1", true),
            ("192.0.2.2", false),
            ("0.0.0.0", false),
            ("rebound.example", false),
            ("192.0.2.1.example", false),
            ("", false),
        ] {
            assert_eq!(asked(&[host], "/metrics"), expected, "{host}");
        }
        assert!(!asked(&[], "/metrics"), "HTTP/1.1 without a host");
        assert!(!asked(&["localhost", "localhost"], "/metrics"));
        assert!(!asked(&["localhost"], "http://rebound.example/metrics"), "the target is what counts");
        assert!(asked(&["localhost"], "http://localhost/metrics"));
        let old = Request::get("/metrics").version(Version::HTTP_10).body(()).unwrap();
        assert!(is_for_us(&old, own));
    }
}
