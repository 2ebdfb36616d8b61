//! The configuration, read from a file, the environment and the defaults. Its secrets cannot be printed.

mod checks;
mod key;
pub mod keyfile;
mod layers;
mod listen;
mod load;
mod log_filter;
mod reloadable;
mod risks;
mod site_value;
mod suggest;
#[cfg(test)]
mod tests;
mod value;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use domain::SessionLimits;
pub use key::{SecretKey, SecretKeyError};
pub use layers::{EffectiveValue, SecretFile};
pub use listen::{ListenAddress, SocketAccess};
pub use load::{ConfigError, Layer};
pub use reloadable::{ConfigChanges, CurrentConfig, ReloadableConfig};
use runtime::Network;
use secrecy::SecretString;
pub(crate) use site_value::{site_name, site_url};
use store::StoreOptions;
pub(crate) use suggest::suggest;
pub(crate) use value::{any_duration, discord_id, origin_of, redirect_uri};

/// The commented defaults, which are also the reference for all options.
pub const DEFAULTS: &str = include_str!("default.toml");

/// The options that only test programs change.
const UNDOCUMENTED: &str = include_str!("undocumented.toml");

/// All options. `default.toml` next to this file documents each one and has its default.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[http]`
    pub http: HttpConfig,
    /// `[tls]`: both files, or neither for plain HTTP.
    pub tls: Option<TlsConfig>,
    /// `[store]`
    pub store: StoreOptions,
    /// `[idp]`
    pub idp: IdpConfig,
    /// `[secrets]`: every key decrypts, the first one encrypts.
    pub secrets: Vec<SecretKey>,
    /// `[sessions]`
    pub sessions: SessionLimits,
    /// `[guilds]`
    pub guilds: GuildsConfig,
    /// `[limits]`
    pub limits: LimitsConfig,
    /// `[feed]`
    pub feed: FeedConfig,
    /// `[audit]`
    pub audit: AuditConfig,
    /// `[log]`
    pub log: LogConfig,
    /// `[admin]`
    pub admin: AdminConfig,
    /// `[site]`
    pub site: SiteConfig,
    /// `[otel]`
    pub otel: OtelConfig,
    pub secret_files: Vec<SecretFile>,
    /// A summary of what was written, to see what another configuration changes.
    written: reloadable::WrittenValues,
}

/// How much of the audit is kept.
#[derive(Clone, Copy, Debug)]
pub struct AuditConfig {
    /// How many rows are kept. Not an option.
    pub rows: u64,
    /// `audit.keep`: zero for no audit.
    pub keep: Duration,
}

/// Where the service listens and who may call it from a browser.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    /// `http.listen`
    pub listen: ListenAddress,
    /// `http.listen_mode` and `http.listen_group`
    pub socket_access: SocketAccess,
    /// `http.base_path`: empty, or `/` and a path without a trailing slash.
    pub base_path: String,
    /// `http.allowed_origins`
    pub allowed_origins: Vec<String>,
    /// `http.allowed_headers`, in lower case.
    pub allowed_headers: Vec<String>,
    /// `http.trusted_proxies`
    pub trusted_proxies: Vec<Network>,
    /// Whether the service only answers to loopback names. A command decides.
    pub loopback_names_only: bool,
}

/// The files for HTTPS.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// `tls.cert`: PEM, the chain.
    pub cert: PathBuf,
    /// `tls.key`: PEM.
    pub key: PathBuf,
}

/// The identity provider.
#[derive(Clone, Debug)]
pub struct IdpConfig {
    /// `idp.base_url`, without a trailing slash.
    pub base_url: String,
    /// `idp.client_id`
    pub client_id: String,
    /// `idp.client_secret`
    pub client_secret: SecretString,
    /// `idp.redirect_uri`: one or more with distinct origins, each in `http.allowed_origins`.
    pub redirect_uri: Vec<String>,
    /// `idp.authorize_url`: the consent page.
    pub authorize_url: String,
    /// `idp.invite_url`: where a user adds the bot to a guild, with `{guild}` for its ID and `{client_id}` for ours.
    pub invite_url: String,
    /// `idp.cdn_url`: where the provider's images are loaded from, without a trailing slash.
    pub cdn_url: String,
    /// `idp.connect_timeout`
    pub connect_timeout: Duration,
    /// `idp.sign_in_timeout`: exchange and user together.
    pub sign_in_timeout: Duration,
    /// `idp.list_timeout`: the guild list.
    pub list_timeout: Duration,
    /// `idp.failure_budget`: calls stop after this many 401, 403 and 429 responses within ten minutes.
    pub failure_budget: u32,
    /// `idp.code_memory`: how long a used code is remembered and refused.
    pub code_memory: Duration,
}

impl IdpConfig {
    /// The redirect address for pages with this origin, or else the first one. Origins are compared as browsers write them; the
    /// address is returned as written in the configuration.
    pub fn redirect_uri_for(&self, origin: Option<&str>) -> Option<&str> {
        let of_page =
            self.redirect_uri.iter().find(|uri| origin.is_some() && value::origin_of(uri).as_deref() == origin);
        of_page.or(self.redirect_uri.first()).map(String::as_str)
    }

    /// The redirect address for the site at this host (a name, possibly with a port), or else the first one.
    pub fn redirect_uri_at(&self, host: &str) -> Option<&str> {
        let at_host = |uri: &&String| {
            value::origin_of(uri).is_some_and(|origin| {
                origin.split_once("://").is_some_and(|(_, authority)| authority.eq_ignore_ascii_case(host))
            })
        };
        self.redirect_uri.iter().find(at_host).or(self.redirect_uri.first()).map(String::as_str)
    }

    /// The redirect address that is written exactly like this.
    pub fn redirect_uri_named(&self, name: &[u8]) -> Option<&str> {
        self.redirect_uri.iter().find(|uri| uri.as_bytes() == name).map(String::as_str)
    }
}

/// How old a guild list may be.
#[derive(Clone, Debug)]
pub struct GuildsConfig {
    /// `guilds.fresh`: up to this age, a list is served as is.
    pub fresh: Duration,
    /// `guilds.stale_while_revalidate`: up to this age, it is served immediately and refreshed in the background.
    pub stale_while_revalidate: Duration,
    /// `guilds.max_stale`: up to this age, it is served if it cannot be refreshed.
    pub max_stale: Duration,
    /// `guilds.refresh_wait`: how long a request waits for a refresh if it has an older list to fall back on.
    pub refresh_wait: Duration,
    /// `guilds.failure_backoff`: after a failure, no call for that user for this long.
    pub failure_backoff: Duration,
    /// `guilds.forced_refresh_interval`: how often a user's clients may force a refresh.
    pub forced_refresh_interval: Duration,
}

/// Limits. A rate of 0 turns that limit off.
#[derive(Clone, Debug)]
pub struct LimitsConfig {
    /// `limits.refused_sign_ins_per_minute`, per client address.
    pub refused_sign_ins_per_minute: u32,
    /// `limits.sign_ins_per_user`: codes exchanged by one user in ten minutes.
    pub sign_ins_per_user: u32,
    /// Codes being exchanged at the same time, in total. Not an option.
    pub concurrent_exchanges: usize,
    /// `limits.concurrent_exchanges_per_address`: codes being exchanged at the same time for one client address; 0 means no limit.
    pub concurrent_exchanges_per_address: usize,
    /// `limits.requests_per_second`, per client address.
    pub requests_per_second: u32,
    /// `limits.requests_burst`: how many requests may come in a burst.
    pub requests_burst: u32,
    /// `limits.exempt`: networks without rate limits.
    pub exempt: Vec<Network>,
    /// `limits.connections`: open at the same time.
    pub connections: usize,
    /// `limits.connections_per_address`: of those, from one client address; 0 means no limit.
    pub connections_per_address: u32,
    /// `limits.concurrent_requests`: handled at the same time; beyond that the service answers that it is overloaded.
    pub concurrent_requests: usize,
    /// `limits.live`: open live streams.
    pub live: usize,
    /// `limits.live_per_address`: of those, from one client address; 0 means no limit.
    pub live_per_address: usize,
    /// HTTP/2 streams per connection. Not an option.
    pub streams_per_connection: u32,
    /// `limits.handshake_timeout`: TLS.
    pub handshake_timeout: Duration,
    /// `limits.header_timeout`: until a request's headers have arrived.
    pub header_timeout: Duration,
    /// `limits.request_timeout`: until the request has arrived, and then until the response is ready.
    pub request_timeout: Duration,
    /// `limits.write_timeout`: for a client that reads nothing of its responses.
    pub write_timeout: Duration,
    /// `limits.idle_timeout`: for an open connection without a request.
    pub idle_timeout: Duration,
    /// `limits.drain_delay`: how long to keep taking requests after being asked to stop.
    pub drain_delay: Duration,
    /// `limits.drain_timeout`: for requests in flight when the service stops.
    pub drain_timeout: Duration,
}

/// Limits on what bots send.
#[derive(Clone, Debug)]
pub struct FeedConfig {
    /// `feed.snapshot_bytes`: of one snapshot, decompressed.
    pub snapshot_bytes: u64,
    /// `feed.idle_timeout`: an upload ends after this long without data.
    pub idle_timeout: Duration,
    /// `feed.requests_per_second`, per key; twice as many in a burst. 0 means no limit.
    pub requests_per_second: u32,
    /// `feed.refused_keys_per_minute`, per client address. 0 means no limit.
    pub refused_keys_per_minute: u32,
}

/// The admin listener.
#[derive(Clone, Copy, Debug)]
pub struct AdminConfig {
    /// `admin.listen`; `None` if it is turned off.
    pub listen: Option<SocketAddr>,
    /// Whether it was set explicitly: a default that cannot be used is not an error.
    pub is_set: bool,
}

/// What to log, and how.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// `log.filter`: a level, or directives like `info,bot_companion=debug`.
    pub filter: String,
    /// `log.format`
    pub format: LogFormat,
    /// `log.access`
    pub access: AccessLog,
}

#[derive(Clone, Debug)]
pub struct SiteConfig {
    /// `site.enabled`
    pub enabled: bool,
    /// `site.url`: the public address, without a trailing slash; `None` if it is unknown.
    pub url: Option<String>,
    /// `site.name`: the bot's.
    pub name: String,
    /// `site.tagline`; may be empty.
    pub tagline: String,
    /// `site.icon`
    pub icon: Option<PathBuf>,
    /// `site.preview`: the picture that chat apps show with a link.
    pub preview: Option<PathBuf>,
    /// `site.accent`: a colour like `#4250c9`; `None` for the default.
    pub accent: Option<String>,
    /// `site.style`: a style sheet that is loaded after ours.
    pub style: Option<PathBuf>,
    /// `site.features`: a page in Markdown.
    pub features: Option<PathBuf>,
    /// `site.hide`
    pub hide: Vec<SitePart>,
    /// `site.manage_url`, with `{guild}` for a server's ID; `None` for no links.
    pub manage_url: Option<String>,
    /// `site.invite_url`, with `{client_id}` for ours; `None` for no button.
    pub invite_url: Option<String>,
    /// `site.links`
    pub links: Vec<SiteLink>,
}

/// A page, or a part of one, that operators can hide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SitePart {
    /// On the home page.
    Numbers,
    Reviews,
    Team,
    /// `/site/status` and the feeds of incidents
    Status,
    /// `/site/dashboard`
    Dashboard,
    /// `/docs`
    Docs,
}

impl SitePart {
    pub const ALL: [(&'static str, Self); 6] = [
        ("numbers", Self::Numbers),
        ("reviews", Self::Reviews),
        ("team", Self::Team),
        ("status", Self::Status),
        ("dashboard", Self::Dashboard),
        ("docs", Self::Docs),
    ];
}

/// A link in the footer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteLink {
    pub label: String,
    pub url: String,
}

/// Traces for OpenTelemetry.
#[derive(Clone, Debug)]
pub struct OtelConfig {
    /// `otel.endpoint`, without a trailing slash; `None` for no traces.
    pub endpoint: Option<String>,
    /// `otel.sample_percent`: of the traces that start here.
    pub sample_percent: u8,
}

/// Which requests are logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessLog {
    #[default]
    Off,
    /// Those answered with an error, ours or the client's.
    Errors,
    All,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}
