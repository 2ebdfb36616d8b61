//! The address of the database: the URL and our defaults.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use secrecy::{ExposeSecret, SecretString};
use tokio_postgres::config::{Host as HostName, SslMode, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::errors::SqlError;
use super::tls::{self, Trust};
use crate::StoreError;

/// How long a host may take to accept a connection. Its system does that, not the database, so a busy host is as fast as an
/// idle one. A lost packet is sent again after one second, which this allows for.
const ACCEPT: Duration = Duration::from_secs(2);
/// How long a host may take from accepting until it is ready for queries. Without a password, PostgreSQL says nothing at all
/// before it is ready, so silence alone does not mean that it is dead. Measured: 64 simultaneous connections to a server that
/// gets a twentieth of its two cores are ready within 0.95 s (0.2 s with both cores to itself). This is ten times as long.
const READY: Duration = Duration::from_secs(10);
/// How long to wait before also trying the next host. The first attempt continues, and the host that is ready first is used.
const NEXT_HOST: Duration = Duration::from_secs(1);
/// How long sent bytes may stay unacknowledged before the connection counts as dead.
const UNACKNOWLEDGED: Duration = Duration::from_secs(3);
/// How long a connection may be silent before it is probed.
const SILENT: Duration = Duration::from_secs(15);

#[derive(Clone)]
pub(super) struct Address {
    hosts: Vec<Host>,
    tls: MakeRustlsConnect,
    /// Whether the server must prove that it is the host in the URL: `sslmode=verify-full`.
    is_verified: bool,
    /// The host of the last connection, which is tried first.
    latest: Arc<AtomicUsize>,
    /// Whether the database should refuse every write.
    is_read_only: bool,
}

/// One of the hosts. The driver could try several by itself, but it waits forever for one that accepts connections and then
/// says nothing.
#[derive(Clone)]
struct Host {
    config: Config,
    /// For people: the host and the port, or the socket's folder.
    name: String,
    /// How long it may take once it has accepted.
    ready: Duration,
}

/// The driver's side of a connection, which has to be polled.
pub(super) type DriverConnection = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// Why there is no connection, host by host.
#[derive(Debug)]
pub(super) struct ConnectError(Vec<(String, Problem)>);

#[derive(Debug)]
enum Problem {
    /// It refused, or cannot be reached.
    Refused(SqlError),
    /// It accepted the connection but was not ready after this time.
    Silent(Duration),
}

impl ConnectError {
    /// Whether another try may succeed without any change. If it may for one host, all are waited for.
    pub(super) fn may_pass(&self) -> bool {
        self.0.iter().any(|(_, problem)| match problem {
            Problem::Refused(error) => error.may_pass(),
            Problem::Silent(_) => true,
        })
    }

    /// Whether a database said that it has no room for another connection, which means that it is there.
    pub(super) fn is_for_want_of_room(&self) -> bool {
        self.0.iter().any(|(_, problem)| matches!(problem, Problem::Refused(error) if error.is_for_want_of_room()))
    }

    /// The most telling of the driver's errors: that there is no room, or else what a database said.
    pub(super) fn into_driver_error(self) -> Option<tokio_postgres::Error> {
        let refused = self.0.into_iter().filter_map(|(_, problem)| match problem {
            Problem::Refused(error) => Some(error),
            Problem::Silent(_) => None,
        });
        refused
            .max_by_key(|error| (error.is_for_want_of_room(), error.code().is_some()))
            .and_then(SqlError::into_driver_error)
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (host, problem)) in self.0.iter().enumerate() {
            f.write_str(if number == 0 { "" } else { "; " })?;
            match problem {
                Problem::Refused(error) => write!(f, "{host}: {error}")?,
                Problem::Silent(limit) => {
                    write!(f, "{host}: it accepted the connection but sent nothing for {limit:?}")?;
                }
            }
        }
        Ok(())
    }
}

impl Address {
    /// Parses a URL. Errors never show any of it.
    pub(super) fn parse(url: &SecretString) -> Result<Self, String> {
        let (plain, trust) = split(url.expose_secret())?;
        let read = |url: String| host(&url, trust.is_some());
        let hosts = one_host_each(&plain).into_iter().map(read).collect::<Result<_, _>>()?;
        let is_verified = trust.as_ref().is_some_and(|trust| trust.names);
        let tls = MakeRustlsConnect::new(tls::client(trust)?);
        Ok(Self { hosts, tls, is_verified, latest: Arc::default(), is_read_only: false })
    }

    /// The same address under another name in the database's list of connections.
    pub(super) fn named(mut self, suffix: &str) -> Self {
        for Host { config, .. } in &mut self.hosts {
            let name = config.get_application_name().unwrap_or_default().to_owned();
            config.application_name(format!("{name} {suffix}"));
        }
        self
    }

    /// The same address for a pool of read-only connections. Each connection is told separately: its options ask for a host
    /// that accepts writes, which a connection that starts as read-only would never find.
    pub(super) fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// The hosts, for people; nothing else from the URL.
    pub(super) fn hosts(&self) -> String {
        self.hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// The database and its hosts, for people.
    pub(super) fn location(&self) -> String {
        let database = self.hosts.first().and_then(|host| host.config.get_dbname().or(host.config.get_user()));
        format!("database `{}` at {}", database.unwrap_or_default(), self.hosts())
    }

    /// The hosts beyond this machine whose certificate and name are not verified.
    pub(super) fn unverified_hosts(&self) -> Vec<&str> {
        let is_remote = |host: &&Host| match host.config.get_hosts().first() {
            Some(HostName::Tcp(name)) => {
                let address = name.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
                !address.map_or(name == "localhost", |address| address.to_canonical().is_loopback())
            }
            _ => false,
        };
        if self.is_verified {
            Vec::new()
        } else {
            self.hosts.iter().filter(is_remote).map(|host| host.name.as_str()).collect()
        }
    }

    /// Connects to a host that accepts writes, starting with the last one that did. While there are others, it does not wait
    /// for a host that does not answer but tries them too.
    pub(super) async fn connect(&self) -> Result<(Client, DriverConnection), ConnectError> {
        let first = self.latest.load(Ordering::Relaxed);
        let indices = (0..self.hosts.len()).map(|step| (first + step) % self.hosts.len());
        let (index, connected) = race(indices.map(|index| self.connect_to(index)), NEXT_HOST).await?;
        self.latest.store(index, Ordering::Relaxed);
        Ok(connected)
    }

    /// Connects to the host of the last connection, and no other.
    pub(super) async fn connect_to_latest(&self) -> Result<(Client, DriverConnection), ConnectError> {
        let connected = self.connect_to(self.latest.load(Ordering::Relaxed)).await;
        connected.map(|(_, connected)| connected).map_err(|problem| ConnectError(vec![problem]))
    }

    /// Connects outside the pool. A broken connection shows as an error of the client.
    pub(super) async fn open(&self) -> crate::Result<ClientWrapper> {
        let (client, connection) = self.connect().await.map_err(|error| {
            let why = format!("no connection to the database: {error}");
            if error.may_pass() { StoreError::Unavailable(why) } else { StoreError::Failed(why) }
        })?;
        Ok(ClientWrapper::new(client, tokio::spawn(async { drop(connection.await) })))
    }

    async fn connect_to(&self, index: usize) -> Result<(usize, (Client, DriverConnection)), (String, Problem)> {
        let Host { config, name, ready } = &self.hosts[index];
        let accepting = config.get_connect_timeout().copied().unwrap_or(ACCEPT);
        match tokio::time::timeout(accepting + *ready, config.connect(self.tls.clone())).await {
            Ok(Ok(connected)) => Ok((index, connected)),
            Ok(Err(error)) => Err((name.clone(), Problem::Refused(error.into()))),
            Err(_) => Err((name.clone(), Problem::Silent(*ready))),
        }
    }

    /// The longest it takes to find out that no host answers.
    pub(super) fn patience(&self) -> Duration {
        let each = |host: &Host| host.config.get_connect_timeout().copied().unwrap_or(ACCEPT) + host.ready;
        let next: Duration = self.hosts.iter().map(|_| NEXT_HOST).sum();
        self.hosts.iter().map(each).max().unwrap_or_default() + next
    }
}

/// Closes a connection that nobody needs.
pub(super) fn end_in_background((client, connection): (Client, DriverConnection)) {
    drop(client);
    tokio::spawn(async { drop(connection.await) });
}

/// The first success of several tries. Each starts when the previous one has failed, or has taken as long as `pause`.
async fn race<T, F>(mut tries: impl ExactSizeIterator<Item = F>, pause: Duration) -> Result<T, ConnectError>
where
    F: Future<Output = Result<T, (String, Problem)>>,
{
    let (mut running, mut failed) = (FuturesUnordered::new(), Vec::new());
    loop {
        running.extend(tries.next());
        tokio::select! {
            outcome = running.next() => match outcome {
                Some(Ok(found)) => return Ok(found),
                Some(Err(problem)) => failed.push(problem),
                None => return Err(ConnectError(failed)),
            },
            () = tokio::time::sleep(pause), if tries.len() > 0 => {}
        }
    }
}

/// One host, with our defaults for what its URL leaves open.
fn host(url: &str, verified: bool) -> Result<Host, String> {
    let mut config = config(url, verified)?;
    let ready = config.get_connect_timeout().copied().unwrap_or(READY);
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(ACCEPT);
    }
    // What comes before it belongs to the password, and would be shown as part of the host.
    if matches!(config.get_hosts().first(), Some(HostName::Tcp(host)) if host.contains('@')) {
        return Err("the URL has more than one `@`: write `%40` for one in the user or the password".to_owned());
    }
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let name = match config.get_hosts().first() {
        Some(HostName::Tcp(host)) => format!("{host}:{port}"),
        #[cfg(unix)]
        Some(HostName::Unix(folder)) => folder.join(format!(".s.PGSQL.{port}")).display().to_string(),
        None => String::new(),
    };
    Ok(Host { config, name, ready })
}

/// The options for one host, with our defaults for what its URL leaves open.
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
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(UNACKNOWLEDGED);
    }
    config.keepalives_idle(SILENT);
    // Of several hosts, the one that accepts writes, so that a promoted standby is found automatically.
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

/// Removes what the driver does not know from a URL: how far to trust the server's certificate.
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
mod tests;
