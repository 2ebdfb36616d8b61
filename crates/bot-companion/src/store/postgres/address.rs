//! The address of the database: what a URL says, and what it leaves to us.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::errors::SqlError;
use super::tls::{self, Trust};

/// How long one host may take until it is ready for queries.
const CONNECT: Duration = Duration::from_secs(1);
/// How long sent bytes may stay unacknowledged before the connection counts as dead.
const UNACKNOWLEDGED: Duration = Duration::from_secs(3);
/// After how long a silent connection is probed.
const SILENT: Duration = Duration::from_secs(15);

/// Where the database is, and how to speak with it.
#[derive(Clone)]
pub(super) struct Address {
    /// One a host. The driver could try several by itself, but it waits forever for one that takes connections and then says
    /// nothing.
    hosts: Vec<Config>,
    tls: MakeRustlsConnect,
    /// Where the last connection came about, which is tried first.
    latest: Arc<AtomicUsize>,
}

/// What carries a connection; it has to be polled.
pub(super) type Line = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// Why no connection came about.
#[derive(Debug)]
pub(super) enum ConnectError {
    /// A host refused.
    Refused(SqlError),
    /// No host answered in time.
    Silent,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Silent => f.write_str("it did not answer in time"),
        }
    }
}

impl Address {
    /// Reads a URL. The errors never show any of it.
    pub(super) fn parse(url: &SecretString) -> Result<Self, String> {
        let (plain, trust) = split(url.expose_secret())?;
        let read = |url: String| config(&url, trust.is_some());
        let hosts = one_host_each(&plain).into_iter().map(read).collect::<Result<_, _>>()?;
        let tls = MakeRustlsConnect::new(tls::client(trust)?);
        Ok(Self { hosts, tls, latest: Arc::default() })
    }

    /// The same address, under another name in the database's list of connections.
    pub(super) fn named(mut self, suffix: &str) -> Self {
        for host in &mut self.hosts {
            let name = host.get_application_name().unwrap_or_default().to_owned();
            host.application_name(format!("{name} {suffix}"));
        }
        self
    }

    /// Connects to the first host that takes writes, beginning with the one that did so last.
    pub(super) async fn connect(&self) -> Result<(Client, Line), ConnectError> {
        let first = self.latest.load(Ordering::Relaxed);
        let mut failed = ConnectError::Silent;
        for index in (0..self.hosts.len()).map(|step| (first + step) % self.hosts.len()) {
            let host = &self.hosts[index];
            let limit = host.get_connect_timeout().copied().unwrap_or(CONNECT);
            match tokio::time::timeout(limit, host.connect(self.tls.clone())).await {
                Ok(Ok(connected)) => {
                    self.latest.store(index, Ordering::Relaxed);
                    return Ok(connected);
                }
                Ok(Err(error)) => failed = ConnectError::Refused(error.into()),
                Err(_) => {}
            }
        }
        Err(failed)
    }

    /// How long it takes at the most to find that no host answers.
    pub(super) fn patience(&self) -> Duration {
        self.hosts.iter().map(|host| host.get_connect_timeout().copied().unwrap_or(CONNECT)).sum()
    }
}

/// The settings for one host, with what its URL leaves to us.
fn config(url: &str, verified: bool) -> Result<Config, String> {
    let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
        // Its source names the option that is wrong, never its value.
        let source = std::error::Error::source(&error).map(ToString::to_string);
        format!("the URL cannot be read: {}", source.unwrap_or_else(|| error.to_string()))
    })?;
    if config.get_hosts().is_empty() {
        return Err("the URL names no host: write `postgres://USER:PASSWORD@HOST/DATABASE`".to_owned());
    }
    if config.get_user().is_none() {
        return Err("the URL names no user: write `postgres://USER:PASSWORD@HOST/DATABASE`".to_owned());
    }
    if verified {
        config.ssl_mode(SslMode::Require);
    }
    if config.get_application_name().is_none() {
        config.application_name("bot-companion");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(UNACKNOWLEDGED);
    }
    config.keepalives_idle(SILENT);
    // Of several hosts, the one that takes writes: a standby that was promoted is found by itself.
    config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    Ok(config)
}

/// The URL once for each host that it names before the path.
fn one_host_each(url: &str) -> Vec<String> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (user, hosts) = authority.rsplit_once('@').map_or(("", authority), |(user, hosts)| (user, hosts));
    let user = if user.is_empty() { String::new() } else { format!("{user}@") };
    hosts.split(',').map(|host| format!("{scheme}://{user}{host}{path}")).collect()
}

/// Takes out of a URL what the driver does not know: how far the server's certificate is to be trusted.
fn split(url: &str) -> Result<(String, Option<Trust>), String> {
    let Some((before, query)) = url.split_once('?') else { return Ok((url.to_owned(), None)) };
    let (mut verify, mut roots, mut left) = (None, None, Vec::new());
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some(("sslmode", mode @ ("verify-ca" | "verify-full"))) => verify = Some(mode == "verify-full"),
            Some(("sslrootcert", path)) => {
                let path = format!("path={path}");
                roots = form_urlencoded::parse(path.as_bytes()).next().map(|(_, path)| path.into_owned());
            }
            _ => left.push(pair),
        }
    }
    let plain = if left.is_empty() { before.to_owned() } else { format!("{before}?{}", left.join("&")) };
    match (verify, roots) {
        (None, None) => Ok((plain, None)),
        (None, Some(_)) => Err("`sslrootcert` needs `sslmode=verify-full` or `sslmode=verify-ca`".to_owned()),
        (Some(names), roots) => Ok((plain, Some(Trust { names, roots: roots.filter(|path| path != "system") }))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Result<Vec<Config>, String> {
        Address::parse(&url.into()).map(|address| address.hosts)
    }

    #[test]
    fn a_url_says_where_and_we_say_how() {
        let hosts = parsed("postgres://me:se,cret@one:5433,two:5434/data").unwrap();
        let ports: Vec<_> = hosts.iter().map(|host| (host.get_hosts().len(), host.get_ports().to_vec())).collect();
        assert_eq!(ports, [(1, vec![5433]), (1, vec![5434])]);
        let config = &hosts[1];
        assert_eq!((config.get_user(), config.get_dbname()), (Some("me"), Some("data")));
        assert_eq!(config.get_password(), Some(&b"se,cret"[..]));
        assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        assert_eq!(config.get_connect_timeout(), Some(&CONNECT));
        assert_eq!(config.get_tcp_user_timeout(), Some(&UNACKNOWLEDGED));
        let own = parsed("postgres://me@one/data?connect_timeout=7&sslmode=disable").unwrap().remove(0);
        assert_eq!(own.get_connect_timeout(), Some(&Duration::from_secs(7)));
        assert_eq!(own.get_ssl_mode(), SslMode::Disable);
        assert!(parsed("postgres://me@%2Frun%2Fpostgresql/data").is_ok());
        assert!(parsed("postgres:///data?host=/run/postgresql&user=me").is_ok());
        assert_eq!(parsed("postgres://me@one/data?sslmode=verify-full").unwrap()[0].get_ssl_mode(), SslMode::Require);
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for url in [
            "postgres:///data",
            "postgres://one/data",
            "postgres://me:secret@one/data?sslmode=sometimes",
            "postgres://me:secret@one/data?colour=secret",
            "postgres://me:secret@one:secret/data",
            "postgres://me:secret@one/data?sslrootcert=/x",
            "postgres://me:secret@one/data?sslmode=verify-full&sslrootcert=/there/is/none",
        ] {
            let problem = parsed(url).unwrap_err();
            assert!(!problem.contains("secret"), "{problem}");
        }
    }
}
