//! Replays every scenario of `sdk/conformance/scenarios`, and reports each by its name.
//!
//! `cargo test --test conformance -- NAME…` replays those whose names contain one of the words.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    unreachable_pub,
    reason = "a test"
)]

#[path = "conformance_runner/clock.rs"]
mod clock;
#[path = "conformance_runner/scenario.rs"]
mod scenario;
#[path = "conformance_runner/service.rs"]
mod service;
#[path = "conformance_runner/world.rs"]
mod world;

use std::panic::catch_unwind;
use std::process::ExitCode;

fn main() -> ExitCode {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../conformance/scenarios");
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("the scenarios").map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "ndjson"));
    files.sort();
    let (mut right, mut wrong) = (0, Vec::new());
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        if !words.is_empty() && !words.iter().any(|word| name.contains(word)) {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let result = catch_unwind(|| scenario::replay(&text)).unwrap_or_else(|_| Err("it panicked".to_owned()));
        match result {
            Ok(()) => {
                println!("scenario {name} ... ok");
                right += 1;
            }
            Err(error) => {
                println!("scenario {name} ... FAILED\n    {error}");
                wrong.push(name);
            }
        }
    }
    println!("\n{right} scenarios passed, {} failed", wrong.len());
    for name in &wrong {
        println!("    {name}");
    }
    if wrong.is_empty() && right > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
