//! The whole suite logs everything at `trace`, so that a look at the log afterwards can find a secret that slipped into it.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, Once};

use tracing_subscriber::EnvFilter;

/// Where a log of the suite goes.
pub fn suite_log(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../suite-logs");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(format!("{name}-{}.log", std::process::id()))
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
