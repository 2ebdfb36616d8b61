//! The whole suite logs everything at `trace`, so that a look at the log afterwards can find a secret that slipped into it.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, Once};

use tracing_subscriber::EnvFilter;

use super::on_postgres;

/// Where a log of the suite goes. Each store has its own.
pub fn suite_log(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../suite-logs");
    std::fs::create_dir_all(&folder).unwrap();
    let store = if on_postgres() { "postgres" } else { "sqlite" };
    folder.join(format!("{name}-{store}-{}.log", std::process::id()))
}

pub(super) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let file = File::create(suite_log("suite")).unwrap();
        tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new("trace"))
            .with_ansi(false)
            .with_writer(Mutex::new(file))
            .init();
    });
}
