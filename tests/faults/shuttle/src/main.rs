//! A concurrency model of the cache's mark-read-keep rule and of the single flight. It compiles the service's own files, with
//! shuttle's locks and atomics in place of the real ones, and runs each scenario under many schedules: shuttle picks which thread
//! continues at every lock, atomic and await.
//!
//!     cargo run -- SCHEDULES
//!
//! A failing schedule is printed. `SHUTTLE_RANDOM_SEED` with the printed seed runs it again.
#![allow(dead_code, reason = "the service's files have more in them than the model uses")]

// The names under which the service's files import what the model replaces.
extern crate self as arc_swap;
extern crate self as quick_cache;
extern crate self as runtime;
extern crate self as store;
extern crate self as telemetry;

mod flights;
mod stand_ins;
mod views;

#[path = "../../../../crates/runtime/src/clock.rs"]
pub mod clock;
#[path = "../../../../crates/store/src/freshness.rs"]
pub mod freshness;
#[path = "../../../../crates/runtime/src/single_flight.rs"]
pub mod single_flight;

use std::panic::catch_unwind;

pub use freshness::{Freshness, Topic};
use shuttle::sync::atomic;
pub use stand_ins::{
    ArcSwapOption, DefaultHashBuilder, Lifecycle, Result, Store, StoreError, Weighter, background, metrics, sources,
    sync,
};

/// How many times a schedule that switches rarely does so. Most races need two or three switches.
const SWITCHES: usize = 3;

const SCENARIOS: [(&str, fn()); 6] = [
    ("a public view shows every change that was acknowledged", views::public_view),
    ("a private view shows every change that was acknowledged", views::private_view),
    ("a session is refused once its end was acknowledged", views::ended_session),
    ("a change by another process shows while and after the cache is suspended", views::suspension),
    ("many who ask share one call, and the next one makes another", flights::shared_calls),
    ("a call that is lost leaves nobody waiting", flights::lost_calls),
];

fn main() {
    let schedules = std::env::args().nth(1).map_or(1_000, |count| count.parse().expect("SCHEDULES is a number"));
    for (promise, scenario) in SCENARIOS {
        // Half of the schedules switch often, the other half only a few times: they find different races.
        let run = || {
            shuttle::check_random(scenario, schedules / 2);
            shuttle::check_pct(scenario, schedules - schedules / 2, SWITCHES);
        };
        if catch_unwind(run).is_err() {
            eprintln!("broken: {promise}");
            std::process::exit(1);
        }
        println!("{schedules} schedules: {promise}");
    }
}
