//! For commands that work on the service's database, whether it is running or not. A running service notices changes within a
//! second.

use std::sync::Arc;
use std::time::Duration;

use runtime::clock::Clock;
use runtime::file_access;
use store::{self, Freshness, Store};

use super::{ConfigFile, logging, runtime};
use crate::app::{self, App};
use crate::config::{Config, ConfigError, LogConfig, keyfile};
use crate::vault::Vault;

/// How long to wait for background tasks that still run.
const BACKGROUND_WAIT: Duration = Duration::from_secs(10);

/// The longest that a read or write may wait for its turn.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// Commands only log what matters, which includes a new store.
const FILTER: &str = "warn,bot_companion::new_store=info";

/// What to do if there is no database yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// Create it: this command may be the first to use it.
    Make,
    /// Fail: without a database, this must be the wrong configuration.
    Refuse,
}

/// Runs the work on the configured database.
pub(super) fn with<T>(
    file: &ConfigFile,
    missing: Missing,
    work: impl AsyncFnOnce(&Arc<App>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let config = prepare(file, missing)?;
    refuse_lost(&config)?;
    on(config, work)
}

/// Refuses to create an empty database next to the key file of another one, which must be lost or on a volume that is not
/// mounted. A restore does not check this, because it brings the data.
pub(super) fn refuse_lost(config: &Config) -> Result<(), ConfigError> {
    let database = store::local_file(&config.store.url).filter(|_| config.secrets.is_empty());
    let Some((database, key)) = database.and_then(|path| keyfile::without_database(&path).map(|key| (path, key)))
    else {
        return Ok(());
    };
    let shown = std::path::absolute(&database).unwrap_or(database);
    Err(ConfigError::one(format!(
        "the database {} is missing, but its key file {} is still there: mount its volume, put the file back, or restore a backup \
         with `bot-companion restore FILE`. To start with an empty database, move the key file away, or run \
         `bot-companion serve --new-database` once as its owner, the user {}",
        shown.display(),
        key.display(),
        file_access::owner(&key),
    )))
}

/// Loads the configuration, and starts logging for a command.
pub(super) fn prepare(file: &ConfigFile, missing: Missing) -> anyhow::Result<Config> {
    let mut config = file.load()?;
    // Only this command is waiting, so each step may wait as long for a busy database as startup does.
    config.store.wait = config.store.wait.max(config.store.start_wait.min(LONGEST_WAIT));
    logging::start(&LogConfig { filter: FILTER.to_owned(), ..config.log.clone() })?;
    refuse_missing(file, &config, missing)?;
    Ok(config)
}

/// Runs the work on the database of this configuration.
pub(super) fn on<T>(config: Config, work: impl AsyncFnOnce(&Arc<App>) -> anyhow::Result<T>) -> anyhow::Result<T> {
    runtime()?.block_on(async {
        let app = Arc::new(App::for_command(config).await?);
        let done = work(&app).await;
        app.close(BACKGROUND_WAIT).await;
        done
    })
}

/// Runs the work on the store alone, which needs no keys and creates none.
pub(super) fn on_store<T>(
    config: &Config,
    work: impl AsyncFnOnce(&Arc<Store>, &Clock) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    runtime()?.block_on(async {
        let clock = Clock::system();
        let store = store::open(config.store.clone(), Arc::new(Freshness::new(clock.clone()))).await?;
        let done = work(&store, &clock).await;
        store.close().await;
        done
    })
}

/// What a read-only command works with.
pub(super) struct Reading {
    pub(super) store: Arc<Store>,
    pub(super) clock: Clock,
    config: Config,
}

impl Reading {
    /// The existing keys; creates none.
    pub(super) fn vault(&self) -> anyhow::Result<Vault> {
        Ok(app::existing_keys(&self.config)?)
    }
}

/// Runs read-only work on the configured database. Creates, migrates and encrypts nothing: a missing database, an older schema
/// and a missing key file stay as they are.
pub(super) fn reading<T>(
    file: &ConfigFile,
    work: impl AsyncFnOnce(&Reading) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let config = prepare(file, Missing::Refuse)?;
    runtime()?.block_on(async {
        let clock = Clock::system();
        let store = store::open_read_only(config.store.clone(), Arc::new(Freshness::new(clock.clone()))).await?;
        let reading = Reading { store, clock, config };
        let done = work(&reading).await;
        reading.store.close().await;
        done
    })
}

/// Avoids an empty database in the folder where a command happens to run.
fn refuse_missing(file: &ConfigFile, config: &Config, missing: Missing) -> Result<(), ConfigError> {
    let Some(database) = store::local_file(&config.store.url).filter(|database| !database.exists()) else {
        return Ok(());
    };
    let shown = std::path::absolute(&database).unwrap_or(database);
    let problem = match missing {
        Missing::Refuse => {
            format!("there is no database at {}; pass the service's own --config, or set store.url", shown.display())
        }
        Missing::Make if file.file.is_none() && !config.is_set("store.url") => {
            format!(
                "no configuration was given, and there is no database at {}: pass the service's own --config FILE, or set \
                 COMPANION_CONFIG or COMPANION_STORE_URL. To create a database there, set COMPANION_STORE_URL=sqlite:{}",
                shown.display(),
                shown.display()
            )
        }
        Missing::Make => return Ok(()),
    };
    Err(ConfigError::one(problem))
}
