//! What a reload changes: which options a running service takes over, and which need a restart. This is the only list of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use arc_swap::{ArcSwap, Guard};

use super::{AccessLog, Config, FeedConfig, LimitsConfig};

/// The options that a running service takes over; all others need a restart. A name that ends with a dot is a whole section.
const RELOADABLE: [&str; 10] = [
    "feed.",
    "http.allowed_headers",
    "http.allowed_origins",
    "limits.",
    "log.access",
    "log.filter",
    "secrets.keys",
    "secrets.keys_file",
    "tls.cert",
    "tls.key",
];

/// Options that can change while the service runs. The certificate, the keys and the log filter can change too; they are kept
/// where they are used.
#[derive(Clone, Debug)]
pub struct ReloadableConfig {
    /// `[limits]`
    pub limits: LimitsConfig,
    /// `[feed]`
    pub feed: FeedConfig,
    /// `http.allowed_origins`
    pub allowed_origins: Vec<String>,
    /// `http.allowed_headers`, in lower case.
    pub allowed_headers: Vec<String>,
}

impl From<&Config> for ReloadableConfig {
    fn from(config: &Config) -> Self {
        Self {
            limits: config.limits.clone(),
            feed: config.feed.clone(),
            allowed_origins: config.http.allowed_origins.clone(),
            allowed_headers: config.http.allowed_headers.clone(),
        }
    }
}

/// The current options; cheap to clone and to read.
#[derive(Clone, Debug)]
pub struct CurrentConfig {
    current: Arc<ArcSwap<ReloadableConfig>>,
    /// Separate from the others, because every request reads it.
    access: Arc<AtomicU8>,
}

impl CurrentConfig {
    pub fn new(config: &Config) -> Self {
        Self {
            current: Arc::new(ArcSwap::from_pointee(config.into())),
            access: Arc::new(AtomicU8::new(config.log.access as u8)),
        }
    }

    /// The current options; hold them briefly, not across an await.
    pub fn get(&self) -> Guard<Arc<ReloadableConfig>> {
        self.current.load()
    }

    /// `log.access`
    pub fn access(&self) -> AccessLog {
        let current = self.access.load(Ordering::Relaxed);
        [AccessLog::Errors, AccessLog::All].into_iter().find(|access| *access as u8 == current).unwrap_or_default()
    }

    pub fn replace(&self, config: &Config) {
        self.current.store(Arc::new(config.into()));
        self.access.store(config.log.access as u8, Ordering::Relaxed);
    }
}

/// The names of the options that differ between two configurations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigChanges {
    /// A running service takes these over.
    pub reloadable: Vec<String>,
    /// These need a restart.
    pub need_restart: Vec<String>,
    /// Reloadable options that were set and no longer are, so that their defaults apply.
    pub unset: Vec<String>,
}

impl Config {
    pub fn changes_to(&self, new: &Self) -> ConfigChanges {
        // Turning HTTPS on or off needs a restart.
        let switches_tls = self.tls.is_some() != new.tls.is_some();
        let is_reloadable = |name: &str| {
            let is_listed =
                RELOADABLE.iter().any(|listed| name == *listed || listed.ends_with('.') && name.starts_with(listed));
            is_listed && !(switches_tls && name.starts_with("tls."))
        };
        let hash = |config: &Self, name: &str| config.written.0.get(name).map(|value| value.hash);
        let changed = new.written.0.keys().filter(|name| hash(self, name) != hash(new, name));
        let (reloadable, need_restart): (Vec<_>, _) = changed.cloned().partition(|name| is_reloadable(name));
        let is_unset = |name: &&String| self.is_set(name) && !new.is_set(name);
        ConfigChanges { unset: reloadable.iter().filter(is_unset).cloned().collect(), reloadable, need_restart }
    }

    /// Whether any layer other than the defaults sets it.
    pub fn is_set(&self, name: &str) -> bool {
        self.written.0.get(name).is_some_and(|value| value.is_set)
    }
}

/// A hash of each option as written, to see what changed without keeping secrets.
#[derive(Clone, Default)]
pub(super) struct WrittenValues(pub(super) BTreeMap<String, WrittenValue>);

#[derive(Clone, Copy)]
pub(super) struct WrittenValue {
    pub(super) hash: u64,
    /// Whether any layer other than the defaults sets it.
    pub(super) is_set: bool,
}

// Not even a secret's hash belongs in the log.
impl fmt::Debug for WrittenValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WrittenValues").field(&self.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Layer;
    use super::*;

    fn config(text: &str) -> Config {
        let nothing = std::iter::empty::<(String, String)>();
        Config::load_over(&[Layer::new("test", text)], None, nothing).unwrap()
    }

    #[test]
    fn what_differs_is_named_by_what_it_needs() {
        let key = |byte: char| format!("secrets.keys = [\"a:{}A=\"]", byte.to_string().repeat(42));
        let tls = "tls.cert = \"a\"\ntls.key = \"b\"";
        let table: &[(&str, &str, &[&str], &[&str])] = &[
            ("", "", &[], &[]),
            ("", "limits.live = 5", &["limits.live"], &[]),
            ("limits.live = 5", "", &["limits.live"], &[]),
            ("", "limits.live = 10000", &[], &[]),
            ("", "http.allowed_origins = [\"https://a.example\"]", &["http.allowed_origins"], &[]),
            ("", "log.filter = \"debug\"\nlog.format = \"json\"", &["log.filter"], &["log.format"]),
            (
                "",
                "http.listen = \"127.0.0.1:1\"\nfeed.requests_per_second = 9",
                &["feed.requests_per_second"],
                &["http.listen"],
            ),
            (&key('A'), &key('B'), &["secrets.keys"], &[]),
            ("", tls, &[], &["tls.cert", "tls.key"]),
            (tls, "tls.cert = \"c\"\ntls.key = \"b\"", &["tls.cert"], &[]),
        ];
        for (old, new, reloadable, need_restart) in table {
            let changes = config(old).changes_to(&config(new));
            assert_eq!(changes.reloadable, *reloadable, "{old} -> {new}");
            assert_eq!(changes.need_restart, *need_restart, "{old} -> {new}");
        }
    }

    #[test]
    fn an_option_that_is_no_longer_written_is_told_from_one_that_is_written_as_its_default() {
        let table: &[(&str, &str, &[&str])] = &[
            ("limits.live = 5", "", &["limits.live"]),
            ("limits.live = 5", "limits.live = 10000", &[]),
            ("limits.live = 10000", "", &[]),
            ("http.allowed_origins = [\"https://a.example\"]", "limits.live = 1", &["http.allowed_origins"]),
            ("http.allowed_origins = [\"https://a.example\"]", "http.allowed_origins = []", &[]),
            ("http.base_path = \"/api\"", "", &[]),
        ];
        for (old, new, unset) in table {
            assert_eq!(config(old).changes_to(&config(new)).unset, *unset, "{old} -> {new}");
        }
    }

    #[test]
    fn what_can_be_reloaded_is_an_option() {
        let written = config("").written.0;
        for name in RELOADABLE {
            assert!(written.keys().any(|key| key == name || name.ends_with('.') && key.starts_with(name)), "{name}");
        }
    }

    #[test]
    fn nothing_of_a_value_is_printed() {
        let written = config("site.name = \"hush\"").written;
        let shown = format!("{written:?}");
        assert!(shown.starts_with("WrittenValues(") && !shown.contains("site"), "{shown}");
    }
}
