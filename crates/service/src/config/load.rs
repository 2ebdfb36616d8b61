//! Loads the configuration: reads the defaults, the layers over them and the environment, parses each value, and then checks
//! the values against each other.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::{SessionLimits, retention};
use runtime::file_access;
use store::StoreOptions;

use super::layers::Layers;
use super::{
    AdminConfig, AuditConfig, Config, DEFAULTS, EffectiveValue, FeedConfig, GuildsConfig, HttpConfig, IdpConfig,
    LimitsConfig, LogConfig, OtelConfig, SiteConfig, SocketAccess, TlsConfig, UNDOCUMENTED, checks, log_filter,
    site_value,
};
use super::{listen, value};

/// TOML text with some of the options.
#[derive(Clone)]
pub struct Layer {
    /// Its name in errors: the file's path, or what created it.
    pub name: String,
    pub text: String,
    /// The file it was read from, if any.
    pub(super) file: Option<PathBuf>,
}

impl Layer {
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into(), file: None }
    }

    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let name = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Self { name, text, file: Some(path.to_owned()) }),
            Err(error) => Err(ConfigError::one(format!("{name}: {}", file_access::cannot_be_read(path, &error)))),
        }
    }
}

// The text may contain secrets.
impl fmt::Debug for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layer").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Everything that is wrong with a configuration, one problem per line. It contains no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", problems.join("\n"))]
pub struct ConfigError {
    problems: Vec<String>,
}

impl ConfigError {
    pub(super) fn of(problems: Vec<String>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self { problems }) }
    }

    pub(crate) fn one(problem: String) -> Self {
        Self { problems: vec![problem] }
    }

    /// The problems, each on one line and with its location.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl Config {
    /// The defaults, then the file, then the environment (`std::env::vars_os()`). Later ones override earlier ones.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
    ) -> Result<Self, ConfigError> {
        Self::load_over(&[], file, environment)
    }

    /// Like [`Config::load`], with layers between the defaults and the file.
    pub fn load_over(
        layers: &[Layer],
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
    ) -> Result<Self, ConfigError> {
        read(layers, file, environment).map(|(config, _)| config)
    }

    /// Every option with its value and source, for a configuration that can be loaded. Secrets are hidden.
    pub fn effective(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
    ) -> Result<Vec<EffectiveValue>, ConfigError> {
        read(&[], file, environment).map(|(_, layers)| layers.effective())
    }
}

fn read(
    layers: &[Layer],
    file: Option<&Path>,
    environment: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
) -> Result<(Config, Layers), ConfigError> {
    let file = file.map(Layer::read).transpose()?;
    let mut written =
        Layers::new(&Layer::new("default.toml", DEFAULTS), &Layer::new("undocumented.toml", UNDOCUMENTED));
    for layer in layers.iter().chain(&file) {
        written.layer(layer);
    }
    written.environment(environment.into_iter().map(|(name, value)| (name.into(), value.into())));
    written.read_secret_files();

    let config = build(&mut written);
    if let Some(config) = &config {
        checks::cross_check(config, &mut written);
    }
    written.finish()?;
    let config = config.ok_or_else(|| ConfigError::one("the defaults of this build are incomplete".into()))?;
    Ok((config, written))
}

/// Parses every option. `None` only if the defaults are broken; problems in other layers are added to `layers`.
fn build(layers: &mut Layers) -> Option<Config> {
    let s = layers;
    let cert = s.text("tls.cert", value::optional(value::path))?;
    let key = s.text("tls.key", value::optional(value::path))?;
    checks::tls_pair(cert.is_some(), key.is_some(), s);
    Some(Config {
        http: HttpConfig {
            listen: s.text("http.listen", str::parse)?,
            socket_access: SocketAccess {
                mode: s.text("http.listen_mode", listen::mode)?,
                group: s.text("http.listen_group", value::optional(value::line))?,
            },
            base_path: s.text("http.base_path", value::base_path)?,
            allowed_origins: value::distinct(s.list("http.allowed_origins", value::origin)?),
            allowed_headers: value::distinct(s.list("http.allowed_headers", value::header_name)?),
            trusted_proxies: s.list("http.trusted_proxies", value::network)?,
            loopback_names_only: false,
        },
        tls: cert.zip(key).map(|(cert, key)| TlsConfig { cert, key }),
        store: StoreOptions {
            url: s.text("store.url", value::store_url)?,
            wait: s.duration("store.wait", TEN_MS..=MINUTE)?,
            connections: s.number("store.connections", 2..=1_000)?,
            start_wait: s.text("store.start_wait", value::duration("30s", Duration::ZERO..=10 * MINUTE))?,
        },
        idp: IdpConfig {
            base_url: s.text("idp.base_url", value::base_url)?,
            client_id: s.text("idp.client_id", value::line)?,
            client_secret: s.text("idp.client_secret", value::secret)?,
            redirect_uri: s.list("idp.redirect_uri", value::redirect_uri)?,
            authorize_url: s.text("idp.authorize_url", value::page_url)?,
            invite_url: s.text("idp.invite_url", value::invite_url)?,
            cdn_url: s.text("idp.cdn_url", value::cdn_url)?,
            connect_timeout: s.duration("idp.connect_timeout", TEN_MS..=MINUTE)?,
            sign_in_timeout: s.duration("idp.sign_in_timeout", TEN_MS..=2 * MINUTE)?,
            list_timeout: s.duration("idp.list_timeout", TEN_MS..=2 * MINUTE)?,
            failure_budget: s.number("idp.failure_budget", 1..=10_000)?,
            code_memory: s.duration("idp.code_memory", Duration::ZERO..=HOUR)?,
        },
        secrets: s.list("secrets.keys", value::secret_key)?,
        sessions: SessionLimits {
            idle: s.duration("sessions.idle", MINUTE..=365 * DAY)?,
            absolute: s.duration("sessions.absolute", MINUTE..=365 * DAY)?,
            per_user: s.number("sessions.per_user", 1..=1_000)?,
        },
        guilds: GuildsConfig {
            fresh: s.duration("guilds.fresh", Duration::ZERO..=DAY)?,
            stale_while_revalidate: s.duration("guilds.stale_while_revalidate", Duration::ZERO..=DAY)?,
            max_stale: s.duration("guilds.max_stale", Duration::ZERO..=7 * DAY)?,
            refresh_wait: s.duration("guilds.refresh_wait", Duration::ZERO..=MINUTE)?,
            failure_backoff: s.duration("guilds.failure_backoff", Duration::ZERO..=HOUR)?,
            forced_refresh_interval: s.duration("guilds.forced_refresh_interval", Duration::ZERO..=HOUR)?,
        },
        limits: LimitsConfig {
            refused_sign_ins_per_minute: s.number("limits.refused_sign_ins_per_minute", 0..=MILLION)?,
            sign_ins_per_user: s.number("limits.sign_ins_per_user", 0..=MILLION)?,
            concurrent_exchanges: 256,
            concurrent_exchanges_per_address: s.number("limits.concurrent_exchanges_per_address", 0..=MILLION)?,
            requests_per_second: s.number("limits.requests_per_second", 0..=MILLION)?,
            requests_burst: s.number("limits.requests_burst", 1..=MILLION)?,
            exempt: s.list("limits.exempt", value::network)?,
            connections: s.number("limits.connections", 1..=MILLION)?,
            connections_per_address: s.number("limits.connections_per_address", 0..=MILLION)?,
            concurrent_requests: s.number("limits.concurrent_requests", 1..=MILLION)?,
            live: s.number("limits.live", 0..=MILLION)?,
            live_per_address: s.number("limits.live_per_address", 0..=MILLION)?,
            streams_per_connection: 256,
            handshake_timeout: s.duration("limits.handshake_timeout", TEN_MS..=5 * MINUTE)?,
            header_timeout: s.duration("limits.header_timeout", TEN_MS..=5 * MINUTE)?,
            request_timeout: s.duration("limits.request_timeout", TEN_MS..=5 * MINUTE)?,
            write_timeout: s.duration("limits.write_timeout", TEN_MS..=HOUR)?,
            idle_timeout: s.duration("limits.idle_timeout", TEN_MS..=HOUR)?,
            drain_delay: s.duration("limits.drain_delay", Duration::ZERO..=MINUTE)?,
            drain_timeout: s.duration("limits.drain_timeout", Duration::ZERO..=10 * MINUTE)?,
        },
        feed: FeedConfig {
            snapshot_bytes: s.number("feed.snapshot_bytes", 65_536..=1 << 40)?,
            idle_timeout: s.duration("feed.idle_timeout", TEN_MS..=10 * MINUTE)?,
            requests_per_second: s.number("feed.requests_per_second", 0..=MILLION)?,
            refused_keys_per_minute: s.number("feed.refused_keys_per_minute", 0..=MILLION)?,
        },
        audit: AuditConfig {
            rows: retention::AUDIT_ROWS,
            keep: s.duration("audit.keep", Duration::ZERO..=3_650 * DAY)?,
        },
        log: LogConfig {
            filter: s.text("log.filter", log_filter::log_filter)?,
            format: s.text("log.format", value::log_format)?,
            access: s.text("log.access", value::access_log)?,
        },
        admin: AdminConfig { listen: s.text("admin.listen", value::listen_or_off)?, is_set: s.is_set("admin.listen") },
        site: site(s)?,
        otel: OtelConfig {
            endpoint: s.text("otel.endpoint", value::optional(value::collector_url))?,
            sample_percent: s.number("otel.sample_percent", 0..=100)?,
        },
        secret_files: s.secret_files(),
        written: s.written(),
    })
}

fn site(s: &mut Layers) -> Option<SiteConfig> {
    Some(SiteConfig {
        enabled: s.switch("site.enabled")?,
        url: s.text("site.url", value::optional(site_value::site_url))?,
        name: s.text("site.name", site_value::site_name)?,
        tagline: s.text("site.tagline", value::line)?,
        icon: s.text("site.icon", value::optional(value::path))?,
        preview: s.text("site.preview", value::optional(value::path))?,
        accent: s.text("site.accent", value::optional(site_value::site_accent))?,
        style: s.text("site.style", value::optional(value::path))?,
        features: s.text("site.features", value::optional(value::path))?,
        hide: s.list("site.hide", site_value::site_part)?,
        manage_url: s.text("site.manage_url", value::optional(site_value::site_manage_url))?,
        invite_url: s.text("site.invite_url", value::optional(site_value::site_invite_url))?,
        links: s.list("site.links", site_value::site_link)?,
    })
}

const TEN_MS: Duration = Duration::from_millis(10);
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
const MILLION: u64 = 1_000_000;
