//! The one binary: parse the arguments, run the command, print what went wrong.

use std::process::ExitCode;

use clap::Parser;
use service::cli::{self, Cli};
use telemetry::{Commit, Version};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match Cli::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return cli::exit::of_arguments(&error),
    };
    match cli::run(arguments, version()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "this is where a person reads why the command failed")]
            {
                eprint!("{}", cli::fatal_line(&error));
            }
            cli::exit::of_failure(&error)
        }
    }
}

/// This build, as `build.rs` found it. Only this crate knows it, so a new commit compiles no other crate again.
fn version() -> Version {
    Version {
        name: Version::NAME,
        branch: env!("COMPANION_BUILD_BRANCH"),
        commit: Commit {
            sha: env!("COMPANION_BUILD_SHA"),
            message: env!("COMPANION_BUILD_MESSAGE"),
            author: env!("COMPANION_BUILD_AUTHOR"),
            // "unknown" if there is no git and the environment doesn't say.
            timestamp: env!("COMPANION_BUILD_TIMESTAMP").parse().unwrap_or(0),
        },
    }
}
