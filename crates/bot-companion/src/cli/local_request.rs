//! Asks a service on this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use crate::config::Config;

/// More than any answer to these questions has.
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

/// Where `GET /ready` of the service at this address is.
pub(super) fn ready_url(config: &Config, listen: SocketAddr) -> String {
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    format!("{scheme}://{}{}/ready", reachable(listen), config.http.base_path)
}

/// The status and the JSON of an answer.
pub(super) async fn ask(url: &str, limit: Duration) -> anyhow::Result<(u16, Value)> {
    // The certificate is for the service's name, and this asks by its address; nothing secret is sent.
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_danger_accept_invalid_certs(true)
        .redirect(reqwest::redirect::Policy::none())
        .timeout(limit)
        .build()?;
    let mut response = client.get(url).send().await.with_context(|| format!("{url} does not answer"))?;
    let (status, mut body) = (response.status().as_u16(), Vec::new());
    while let Some(chunk) = response.chunk().await? {
        anyhow::ensure!(body.len() + chunk.len() <= MOST_BYTES, "{url} answers more than it should");
        body.extend_from_slice(&chunk);
    }
    Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
