//! The whole suite logs everything at `trace`, so that a check of the log afterwards can find a secret that slipped in.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, Once, PoisonError};

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use super::on_postgres;

/// Where a log of the suite goes. Each store has its own.
pub fn suite_log(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("../suite-logs");
    std::fs::create_dir_all(&folder).unwrap();
    let store = if on_postgres() { "postgres" } else { "sqlite" };
    folder.join(format!("{name}-{store}-{}.log", std::process::id()))
}

/// The last warnings and errors of all tests.
static LAST: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());
const MOST: usize = 20;

#[expect(clippy::print_stderr, reason = "the harness of tests shows it with the failure")]
pub(super) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let file = File::create(suite_log("suite")).unwrap();
        let all = layer().with_ansi(false).with_writer(Mutex::new(file)).with_filter(EnvFilter::new("trace"));
        let last = layer().with_ansi(false).with_writer(|| KeepLast).with_filter(LevelFilter::WARN);
        tracing_subscriber::registry().with(all).with(last).init();
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            usual(panic);
            // The log itself may be gone by the time someone reads that a test has failed.
            let last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
            eprintln!(
                "the last warnings in the log, of this test and others:\n{}",
                last.iter().map(String::as_str).collect::<String>()
            );
        }));
    });
}

/// Keeps the last lines written to it.
struct KeepLast;

impl io::Write for KeepLast {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() == MOST {
            last.pop_front();
        }
        last.push_back(String::from_utf8_lossy(line).into_owned());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
