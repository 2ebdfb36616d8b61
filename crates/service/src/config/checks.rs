//! Checks across options.

use std::collections::BTreeSet;
use std::time::Duration;

use secrecy::ExposeSecret as _;

use super::layers::{Layers, SECRETS, variable};
use super::{Config, ConfigError, value};

impl Config {
    /// Checks that the provider's options are complete, without which nobody can sign in. The error says how to set them.
    pub fn require_idp(&self) -> Result<(), ConfigError> {
        let missing = [
            ("idp.client_id", self.idp.client_id.is_empty()),
            ("idp.client_secret", self.idp.client_secret.expose_secret().is_empty()),
            ("idp.redirect_uri", self.idp.redirect_uri.is_empty()),
        ];
        let problem = |key: &str| {
            let variable = variable(key);
            if SECRETS.contains(&key) {
                return format!(
                    "{key} is not set: write it into a file and name that in {key}_file (or {variable}_FILE), or set \
                     {variable}"
                );
            }
            format!("{key} is not set: write it in the configuration file, or set {variable}")
        };
        ConfigError::of(missing.iter().filter(|(_, missing)| *missing).map(|(key, _)| problem(key)).collect())
    }
}

/// The certificate is useless without its key, and vice versa.
pub(super) fn tls_pair(cert: bool, key: bool, layers: &mut Layers) {
    if !layers.are_valid(&["tls.cert", "tls.key"]) {
        return;
    }
    match (cert, key) {
        (true, false) => layers.conflict("tls.cert", "tls.cert is set without tls.key: set both, or neither"),
        (false, true) => layers.conflict("tls.key", "tls.key is set without tls.cert: set both, or neither"),
        _ => {}
    }
}

/// Finds conflicts between options that are each valid on their own.
pub(super) fn cross_check(config: &Config, layers: &mut Layers) {
    let guilds = &config.guilds;
    let sessions = &config.sessions;
    let mut not_longer = |short: (&'static str, Duration), long: (&'static str, Duration)| {
        if layers.are_valid(&[short.0, long.0]) && short.1 > long.1 {
            layers.conflict(short.0, format!("{} must not be longer than {}", short.0, long.0));
        }
    };
    not_longer(("sessions.idle", sessions.idle), ("sessions.absolute", sessions.absolute));
    not_longer(("guilds.fresh", guilds.fresh), ("guilds.stale_while_revalidate", guilds.stale_while_revalidate));
    not_longer(
        ("guilds.stale_while_revalidate", guilds.stale_while_revalidate),
        ("guilds.max_stale", guilds.max_stale),
    );
    store_url(config, layers);
    client_id(config, layers);
    key_ids(config, layers);
    shared_keys(config, layers);
    redirects(config, layers);
    site_url(config, layers);
}

/// The store knows best what its URL should look like.
fn store_url(config: &Config, layers: &mut Layers) {
    if layers.are_valid(&["store.url"])
        && let Err(problem) = store::check(&config.store.url)
    {
        layers.conflict("store.url", format!("store.url: {problem}"));
    }
}

/// Another provider's IDs may look different.
fn client_id(config: &Config, layers: &mut Layers) {
    let id = &config.idp.client_id;
    if layers.are_valid(&["idp.client_id", "idp.base_url"])
        && config.idp.base_url.starts_with("https://discord.com/")
        && !id.is_empty()
        && let Err(advice) = value::discord_id(id)
    {
        layers.conflict("idp.client_id", format!("idp.client_id = {id:?}: {advice}"));
    }
}

fn key_ids(config: &Config, layers: &mut Layers) {
    let mut ids = BTreeSet::new();
    if let Some(index) = config.secrets.iter().position(|key| !ids.insert(&key.id)) {
        layers.conflict(
            "secrets.keys",
            format!("secrets.keys: key {} has the same ID as an earlier one: give each its own", index + 1),
        );
    }
}

/// The other replicas could not use this one's own key.
fn shared_keys(config: &Config, layers: &mut Layers) {
    if layers.are_valid(&["store.url", "secrets.keys"])
        && config.secrets.is_empty()
        && store::needs_shared_keys(&config.store.url)
    {
        let advice = "set secrets.keys to a key that all replicas share: the contents of the .key file if you moved from \
        SQLite, or \"main:\" and the output of `openssl rand -base64 32`";
        let kind = store::kind(&config.store.url);
        layers.conflict("store.url", format!("store.url names {kind}: {advice}"));
    }
}

/// Every page is below the base path, so a public address without it leads nowhere.
fn site_url(config: &Config, layers: &mut Layers) {
    let base_path = &config.http.base_path;
    let path = |url: &str| url.splitn(4, '/').nth(3).map(|path| format!("/{path}")).unwrap_or_default();
    if let Some(url) = &config.site.url
        && layers.are_valid(&["site.url", "http.base_path"])
        && !path(url).ends_with(base_path.as_str())
    {
        layers.conflict(
            "site.url",
            format!(
                "site.url: the pages are below http.base_path, so write \"{url}{base_path}\", or change http.base_path"
            ),
        );
    }
}

/// The request's origin selects the redirect address, so the origins must differ and be allowed.
fn redirects(config: &Config, layers: &mut Layers) {
    const KEY: &str = "idp.redirect_uri";
    if !layers.are_valid(&[KEY, "http.allowed_origins"]) {
        return;
    }
    let mut origins = BTreeSet::new();
    for origin in config.idp.redirect_uri.iter().filter_map(|address| value::origin_of(address)) {
        if !config.http.allowed_origins.contains(&origin) {
            layers.conflict(KEY, format!("{KEY}: add its origin \"{origin}\" to http.allowed_origins"));
        }
        if !origins.insert(origin.clone()) {
            layers.conflict(KEY, format!("{KEY}: two addresses have the origin \"{origin}\": keep one of them"));
        }
    }
}
