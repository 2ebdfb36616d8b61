//! The address of the database: what a URL says, and what it leaves to us.

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use tokio_postgres::Config;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::tls::{self, Trust};

/// How long one host may take to answer.
const CONNECT: Duration = Duration::from_secs(1);
/// How long sent bytes may stay unacknowledged before the connection counts as dead.
const UNACKNOWLEDGED: Duration = Duration::from_secs(3);
/// After how long a silent connection is probed.
const SILENT: Duration = Duration::from_secs(15);

/// Where the database is, and how to speak with it.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) tls: MakeRustlsConnect,
}

impl Address {
    /// Reads a URL. The errors never show any of it.
    pub(super) fn parse(url: &SecretString) -> Result<Self, String> {
        let (plain, trust) = split(url.expose_secret())?;
        let mut config: Config = plain.parse().map_err(|error: tokio_postgres::Error| {
            // Its source says which option, and only the names of options, never their values.
            let source = std::error::Error::source(&error).map(ToString::to_string);
            format!("the URL cannot be read: {}", source.unwrap_or_else(|| error.to_string()))
        })?;
        if config.get_hosts().is_empty() {
            return Err("the URL names no host: write `postgres://USER:PASSWORD@HOST/DATABASE`".to_owned());
        }
        if config.get_user().is_none() {
            return Err("the URL names no user: write `postgres://USER:PASSWORD@HOST/DATABASE`".to_owned());
        }
        if trust.is_some() {
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
        Ok(Self { config, tls: MakeRustlsConnect::new(tls::client(trust)?) })
    }
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

    fn parsed(url: &str) -> Result<Config, String> {
        Address::parse(&url.into()).map(|address| address.config)
    }

    #[test]
    fn a_url_says_where_and_we_say_how() {
        let config = parsed("postgres://me:secret@one:5433,two:5434/data").unwrap();
        assert_eq!((config.get_hosts().len(), config.get_ports()), (2, &[5433, 5434][..]));
        assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        assert_eq!(config.get_connect_timeout(), Some(&CONNECT));
        assert_eq!(config.get_tcp_user_timeout(), Some(&UNACKNOWLEDGED));
        let own = parsed("postgres://me@one/data?connect_timeout=7&sslmode=disable").unwrap();
        assert_eq!(own.get_connect_timeout(), Some(&Duration::from_secs(7)));
        assert_eq!(own.get_ssl_mode(), SslMode::Disable);
        assert!(parsed("postgres://me@%2Frun%2Fpostgresql/data").is_ok());
        assert!(parsed("postgres:///data?host=/run/postgresql&user=me").is_ok());
        assert_eq!(parsed("postgres://me@one/data?sslmode=verify-full").unwrap().get_ssl_mode(), SslMode::Require);
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
