//! Sends requests to a service on this machine.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use crate::admin::SERVICE;
use crate::config::{Config, ListenAddress};

/// More than any response to these requests.
const MOST_BYTES: usize = 64 * 1024;

/// The address at which a listener can be reached from this machine.
pub(super) fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// A request to a service on this machine.
#[derive(Clone, Debug)]
pub(super) struct LocalQuestion {
    url: String,
    /// The unix socket to connect to, if it isn't the address in `url`.
    socket: Option<PathBuf>,
}

impl LocalQuestion {
    pub(super) fn at(url: String) -> Self {
        Self { url, socket: None }
    }

    /// `GET /ready` of the service that listens here.
    pub(super) fn of_service(config: &Config, listen: &ListenAddress) -> Self {
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let (host, socket) = match listen {
            ListenAddress::Tcp(address) => (reachable(*address).to_string(), None),
            ListenAddress::Unix(path) => ("localhost".to_owned(), Some(path.clone())),
        };
        Self { url: format!("{scheme}://{host}{}/ready", config.http.base_path), socket }
    }

    /// The status and the JSON of the answer, `null` if it is something else.
    pub(super) async fn ask(&self, limit: Duration) -> anyhow::Result<(u16, Value)> {
        // The certificate is for the service's name, and this connects to its address; nothing secret is sent.
        let mut client = reqwest::Client::builder()
            .no_proxy()
            .tls_danger_accept_invalid_certs(true)
            .redirect(reqwest::redirect::Policy::none())
            .timeout(limit);
        if let Some(path) = &self.socket {
            client = client.unix_socket(path.as_path());
        }
        let asked = client.build()?.get(&self.url).send().await;
        let mut response = asked.with_context(|| format!("{self} does not answer"))?;
        let (status, mut body) = (response.status().as_u16(), Vec::new());
        while let Some(chunk) = response.chunk().await? {
            anyhow::ensure!(body.len() + chunk.len() <= MOST_BYTES, "{self} sent too large an answer");
            body.extend_from_slice(&chunk);
        }
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }
}

impl fmt::Display for LocalQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Some(path) => write!(f, "{} at {}", self.url, path.display()),
            None => f.write_str(&self.url),
        }
    }
}

/// What our service answers when asked whether it takes requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// Whether it is shutting down.
    pub(super) is_draining: bool,
    /// Where it listens for requests; only the admin listener reports that.
    pub(super) listen: Option<ListenAddress>,
}

impl Answer {
    /// A response of `GET /ready`, recognised by its envelope. `None` if something else answered.
    pub(super) fn of_service(answer: &Value) -> Option<Self> {
        let is_enveloped = answer["code"].is_u64() && answer["message"].is_string();
        let is_draining = match (answer["data"]["status"].as_str(), answer["data"]["error"].as_str()) {
            (Some("ready"), None) => false,
            (None, Some("draining")) => true,
            _ => return None,
        };
        is_enveloped.then_some(Self { is_draining, listen: None })
    }

    /// A response of the admin listener's `GET /readyz`. `None` if something else answered.
    pub(super) fn of_admin(answer: &Value) -> Option<Self> {
        let is_draining = match answer["status"].as_str() {
            Some("ready") => false,
            Some("draining") => true,
            _ => return None,
        };
        let listen = answer["listen"].as_str().and_then(|listen| listen.parse().ok());
        (answer["service"] == SERVICE).then_some(Self { is_draining, listen })
    }
}

/// The admin listener of the service that this configuration is for, and its response. `None` if nothing or another service
/// answers: on the default address it is only ours if it also listens where ours does.
pub(super) async fn admin_of(config: &Config, limit: Duration) -> Option<(SocketAddr, Answer)> {
    let admin = reachable(config.admin.listen?);
    let (_, answer) = LocalQuestion::at(format!("http://{admin}/readyz")).ask(limit).await.ok()?;
    let answer = Answer::of_admin(&answer)?;
    (config.admin.is_set || answer.listen.as_ref() == Some(&config.http.listen)).then_some((admin, answer))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_service_of_ours_answers_like_this() {
        let service = |answer: Value| Answer::of_service(&answer).map(|answer| answer.is_draining);
        assert_eq!(service(json!({"code": 200, "message": "OK", "data": {"status": "ready"}})), Some(false));
        assert_eq!(service(json!({"code": 503, "message": "…", "data": {"error": "draining"}})), Some(true));
        assert_eq!(service(json!({"status": "ready"})), None, "what many services say");
        assert_eq!(service(json!({"data": {"status": "ready"}})), None);
        assert_eq!(service(Value::Null), None);
        let admin = |answer: Value| Answer::of_admin(&answer).map(|answer| (answer.is_draining, answer.listen));
        let listen = "127.0.0.1:8080".parse().unwrap();
        let ours = json!({"status": "ready", "service": "bot-companion", "listen": "127.0.0.1:8080"});
        assert_eq!(admin(ours), Some((false, Some(listen))));
        assert_eq!(admin(json!({"status": "draining", "service": "bot-companion"})), Some((true, None)));
        assert_eq!(admin(json!({"status": "ready"})), None);
        assert_eq!(admin(json!({"status": "failing", "service": "bot-companion"})), None);
    }

    #[test]
    fn a_listener_on_all_addresses_is_reached_on_loopback() {
        for (listen, reached) in [
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("[::]:8080", "[::1]:8080"),
            ("192.0.2.7:80", "192.0.2.7:80"),
            ("127.0.0.1:9464", "127.0.0.1:9464"),
        ] {
            assert_eq!(reachable(listen.parse().unwrap()).to_string(), reached);
        }
    }
}
