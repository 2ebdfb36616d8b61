//! The values that single options accept. Each function returns the value, or advice on what to write instead.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;
use runtime::Network;
use secrecy::SecretString;

use super::{AccessLog, LogFormat, SecretKey};

/// What to write instead. The caller decides whether to show the refused value.
pub(super) type Advice = String;

/// An address, or `None` if the text is empty or `off`.
pub(super) fn listen_or_off(text: &str) -> Result<Option<SocketAddr>, Advice> {
    if text.is_empty() || text == "off" {
        return Ok(None);
    }
    let advice = "write an IP address (not a name) and a port, like \"127.0.0.1:9464\", or \"off\"";
    text.parse().map(Some).map_err(|_| advice.into())
}

/// A value that `parse` reads, or `None` if the text is empty.
pub(super) fn optional<T>(parse: impl Fn(&str) -> Result<T, Advice>) -> impl Fn(&str) -> Result<Option<T>, Advice> {
    move |text| if text.is_empty() { Ok(None) } else { parse(text).map(Some) }
}

/// A single line of text; may be empty.
pub(super) fn line(text: &str) -> Result<String, Advice> {
    if text.chars().any(char::is_control) {
        return Err("write it on one line, without control characters".into());
    }
    Ok(text.to_owned())
}

pub(super) fn path(text: &str) -> Result<PathBuf, Advice> {
    Ok(line(text)?.into())
}

pub(super) fn secret(text: &str) -> Result<SecretString, Advice> {
    if !text.is_empty() && text.trim().is_empty() {
        return Err("it is blank: write the secret".into());
    }
    Ok(line(text)?.into())
}

/// The ID of an application at Discord.
pub(crate) fn discord_id(text: &str) -> Result<String, Advice> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(text.to_owned());
    }
    Err("write the application's ID, which consists of digits; Discord's developer portal shows it".into())
}

pub(super) fn secret_key(text: &str) -> Result<SecretKey, Advice> {
    text.parse().map_err(|error: super::SecretKeyError| error.to_string())
}

pub(super) fn network(text: &str) -> Result<Network, Advice> {
    text.parse().map_err(|error: runtime::NetworkError| error.to_string())
}

pub(super) fn access_log(text: &str) -> Result<AccessLog, Advice> {
    match text {
        "off" => Ok(AccessLog::Off),
        "errors" => Ok(AccessLog::Errors),
        "all" => Ok(AccessLog::All),
        _ => Err("write \"off\", \"errors\" or \"all\"".into()),
    }
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, Advice> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("write \"text\" or \"json\"".into()),
    }
}

/// `example` appears in the advice and is within `range`.
pub(super) fn duration(example: &str, range: RangeInclusive<Duration>) -> impl Fn(&str) -> Result<Duration, Advice> {
    move |text| {
        let parsed = span(text).ok_or_else(|| format!("write a number and a unit, like \"{example}\""))?;
        if range.contains(&parsed) {
            Ok(parsed)
        } else {
            Err(format!("write a duration from {} to {}", show_span(*range.start()), show_span(*range.end())))
        }
    }
}

pub(crate) fn any_duration(text: &str) -> Result<Duration, Advice> {
    duration("1h", Duration::ZERO..=Duration::from_hours(24 * 36_500))(text)
}

const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

fn span(text: &str) -> Option<Duration> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let (_, milliseconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*milliseconds).map(Duration::from_millis)
}

fn show_span(span: Duration) -> String {
    let milliseconds = span.as_millis();
    let whole = UNITS
        .iter()
        .rev()
        .find(|(_, size)| milliseconds >= (*size).into() && milliseconds.is_multiple_of(u128::from(*size)));
    whole.map_or_else(|| "0s".into(), |(unit, size)| format!("{}{unit}", milliseconds / u128::from(*size)))
}

/// `sqlite:PATH` or `postgres://…`. Other common forms (two slashes before a path, `postgresql:`) are converted to these.
pub(super) fn store_url(text: &str) -> Result<SecretString, Advice> {
    let odd = text.contains(char::is_control);
    if text.contains(":memory:") {
        return Err("the data must be in a file, or it would be lost at each restart: write its path".into());
    }
    if let Some(path) = text.strip_prefix("sqlite:").map(|rest| rest.strip_prefix("//").unwrap_or(rest))
        && !(odd || path.is_empty() || path.contains('?'))
    {
        return Ok(format!("sqlite:{path}").into());
    }
    if let Some(address) = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"))
        && !(odd || address.is_empty())
    {
        return Ok(format!("postgres://{address}").into());
    }
    Err("write \"sqlite:\" and the path of the database, like \"sqlite:bot-companion.db\", or \
         \"postgres://USER:PASSWORD@HOST/DATABASE\""
        .into())
}

/// Empty, or `/` and a path without a trailing slash.
pub(super) fn base_path(text: &str) -> Result<String, Advice> {
    let path = text.strip_suffix('/').unwrap_or(text);
    let path = path.strip_prefix('/').unwrap_or(path);
    if path.is_empty() {
        return Ok(String::new());
    }
    let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let plain = |part: &str| !["", ".", ".."].contains(&part) && part.bytes().all(unreserved);
    if path.split('/').all(plain) {
        Ok(format!("/{path}"))
    } else {
        Err("write a path like \"/api/v1\", made of letters, digits, \"-\", \".\", \"_\" and \"~\"".into())
    }
}

/// An exact origin, in the form that browsers send.
pub(super) fn origin(text: &str) -> Result<String, Advice> {
    let advice = "write an exact origin, like \"https://dashboard.example\"";
    let url = full_url(text, advice)?;
    let origin = url.origin().ascii_serialization();
    // Anything the parser would repair (a path, backslashes, spaces) is refused, so that the text means what it says.
    let authority = text.split_once("://").map_or("", |(_, rest)| rest);
    if url.path() != "/" || url.query().is_some() || authority.contains(['/', '?', '#', '*']) {
        return Err(format!("{advice}, without a path, a trailing slash or \"*\""));
    }
    Ok(origin)
}

/// A header's name, in lower case.
pub(super) fn header_name(text: &str) -> Result<String, Advice> {
    // In the list of allowed headers, a star would mean every header.
    let name = http::HeaderName::try_from(text).ok().filter(|name| name != "*");
    name.map(|name| name.to_string()).ok_or_else(|| "write the name of a header, like \"traceparent\"".into())
}

/// The provider's API, without a trailing slash.
pub(super) fn base_url(text: &str) -> Result<String, Advice> {
    let url = url_without_query(text, "write an address like \"https://discord.com/api/v10\"")?;
    refuse_http(&url, "over http, tokens would be sent in the clear")?;
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// The address of a collector, without a trailing slash.
pub(super) fn collector_url(text: &str) -> Result<String, Advice> {
    let advice = "write the address of a collector that accepts OTLP over HTTP, like \"http://127.0.0.1:4318\"";
    Ok(url_without_query(text, advice)?.as_str().trim_end_matches('/').to_owned())
}

/// A page that browsers are sent to, exactly as written.
pub(super) fn page_url(text: &str) -> Result<String, Advice> {
    let url = full_url(text, "write the full address, like \"https://discord.com/oauth2/authorize\"")?;
    refuse_http(&url, "over http, anyone on the network could change the page")?;
    Ok(text.to_owned())
}

/// The template of the address where a bot is added to a guild.
pub(super) fn invite_url(text: &str) -> Result<String, Advice> {
    if !text.contains("{guild}") {
        return Err("write an address with \"{guild}\" in place of the guild's ID".into());
    }
    // Digits, because IDs consist of them.
    page_url(&text.replace("{guild}", "1").replace("{client_id}", "1"))?;
    Ok(text.to_owned())
}

/// The address under which images are served, without a trailing slash.
pub(super) fn cdn_url(text: &str) -> Result<String, Advice> {
    let url = url_without_query(text, "write the full address, like \"https://cdn.discordapp.com\"")?;
    refuse_http(&url, "a page over https does not show images over http")?;
    Ok(text.trim_end_matches('/').to_owned())
}

/// Kept exactly as written, because the provider compares it letter by letter.
pub(crate) fn redirect_uri(text: &str) -> Result<String, Advice> {
    full_url(text, "write the full address, like \"https://dashboard.example/callback\"")?;
    Ok(text.to_owned())
}

/// The origin of an address that [`redirect_uri`] accepted.
pub(crate) fn origin_of(address: &str) -> Option<String> {
    web_url(address).map(|url| url.origin().ascii_serialization())
}

/// An http or https address with a host, without credentials or a fragment, that the parser did not have to repair.
fn web_url(text: &str) -> Option<Url> {
    let clean = text.chars().all(|letter| !letter.is_control() && !letter.is_whitespace() && letter != '\\');
    let url = Url::parse(text).ok().filter(|_| clean)?;
    let (scheme, rest) = text.split_once("://")?;
    let whole = url.has_host() && !rest.starts_with('/') && scheme.eq_ignore_ascii_case(url.scheme());
    let bare = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    (whole && bare && ["http", "https"].contains(&url.scheme())).then_some(url)
}

/// An address that [`web_url`] accepts. Forgetting the scheme is the usual mistake, so it has its own advice.
pub(super) fn full_url(text: &str, advice: &str) -> Result<Url, Advice> {
    let lacks_scheme = || !text.contains("://") && web_url(&format!("https://{text}")).is_some();
    let advice = || {
        if lacks_scheme() {
            "the scheme is missing: write \"https://\" before it, or \"http://\" if it is on this machine"
        } else {
            advice
        }
    };
    web_url(text).ok_or_else(|| advice().to_owned())
}

fn url_without_query(text: &str, advice: &str) -> Result<Url, Advice> {
    let url = full_url(text, advice)?;
    if url.query().is_none() { Ok(url) } else { Err(advice.to_owned()) }
}

/// Only on this machine may an address be http.
pub(super) fn refuse_http(url: &Url, reason: &str) -> Result<(), Advice> {
    let host = url.host_str().unwrap_or_default();
    let address: Option<IpAddr> = host.trim_start_matches('[').trim_end_matches(']').parse().ok();
    let is_loopback = host == "localhost" || address.is_some_and(|address| address.to_canonical().is_loopback());
    if is_loopback || url.scheme() != "http" { Ok(()) } else { Err(format!("use https: {reason}")) }
}

/// The values in order, without duplicates.
pub(super) fn distinct(values: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    values.into_iter().filter(|value| seen.insert(value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    #[test]
    fn spans() {
        for (text, milliseconds) in
            [("500ms", 500), ("15s", 15_000), ("2m", 120_000), ("1h", 3_600_000), ("7d", 604_800_000), ("0s", 0)]
        {
            assert_eq!(span(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "7", "s", "7 d", "-7d", "1.5h", "7days", "7D", "99999999999999999999s", "999999999999999999d"]
        {
            assert_eq!(span(text), None, "{text}");
        }
        for (milliseconds, text) in [(0, "0s"), (10, "10ms"), (60_000, "1m"), (90_000, "90s"), (86_400_000, "1d")] {
            assert_eq!(show_span(Duration::from_millis(milliseconds)), text);
        }
    }

    #[test]
    fn origins() {
        for (text, normal) in [
            ("https://a.example", "https://a.example"),
            ("HTTPS://A.Example:443", "https://a.example"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://a.example:80", "http://a.example"),
            ("https://[::1]:8443", "https://[::1]:8443"),
        ] {
            assert_eq!(origin(text).as_deref(), Ok(normal));
        }
        for text in [
            "",
            "*",
            "null",
            "a.example",
            "https://",
            "https:a.example",
            "https://a.example/",
            "https://a.example/x",
            "https://a.example?x",
            "https://a.example#x",
            "https://*.a.example",
            "https://u:p@a.example",
            "ftp://a.example",
            " https://a.example",
            "https:\\\\a.example",
            "https:///a.example",
            "file:///x",
            "https://a.example:99999",
        ] {
            assert!(origin(text).is_err(), "{text}");
        }
    }

    #[test]
    fn base_urls() {
        for (text, normal) in [
            ("https://discord.com/api/v10/", "https://discord.com/api/v10"),
            ("https://discord.com", "https://discord.com"),
            ("http://127.0.0.1:9000/api", "http://127.0.0.1:9000/api"),
            ("http://[::1]:9000", "http://[::1]:9000"),
            ("http://localhost", "http://localhost"),
        ] {
            assert_eq!(base_url(text).as_deref(), Ok(normal));
        }
        for text in [
            "",
            "discord.com",
            "http://discord.com",
            "http://localhost.example",
            "https://u:p@x",
            "https://x?y",
            "https://x#y",
        ] {
            assert!(base_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn base_paths() {
        for (text, normal) in [("", ""), ("/", ""), ("/api", "/api"), ("api/v1/", "/api/v1"), ("/~x/a.b", "/~x/a.b")] {
            assert_eq!(base_path(text).as_deref(), Ok(normal));
        }
        for text in ["///", "/a//b", "/../x", "/a b", "/ä", "/a?b", "/{x}", "/a%20"] {
            assert!(base_path(text).is_err(), "{text}");
        }
    }

    #[test]
    fn store_urls() {
        for (text, normal) in [
            ("sqlite:a.db", "sqlite:a.db"),
            ("sqlite:///var/a.db", "sqlite:/var/a.db"),
            ("sqlite://a.db", "sqlite:a.db"),
            ("postgres://u:p@a,b/x?sslmode=require", "postgres://u:p@a,b/x?sslmode=require"),
            ("postgresql:///x?host=/run", "postgres:///x?host=/run"),
        ] {
            assert_eq!(store_url(text).map(|url| url.expose_secret().to_owned()).as_deref(), Ok(normal));
        }
        assert!(store_url("sqlite::memory:").unwrap_err().contains("must be in a file"));
        for text in ["", "a.db", "sqlite:", "sqlite://", "postgres://", "mysql://localhost/x", "sqlite:a.db?mode=rwc"] {
            assert!(store_url(text).is_err(), "{text}");
        }
    }
}
