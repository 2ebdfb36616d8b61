//! The one binary: parse the arguments, run the command, print what went wrong.

use std::process::ExitCode;

use bot_companion::cli::{self, Cli};
use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match Cli::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return cli::exit::of_arguments(&error),
    };
    match cli::run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "this is where a person reads why the command failed")]
            {
                eprint!("{}", cli::last_words(&error));
            }
            cli::exit::of_failure(&error)
        }
    }
}
