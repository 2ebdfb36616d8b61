//! Exit codes. They tell a supervisor whether restarting can help: with systemd, `RestartPreventExitStatus=78`.

use std::process::ExitCode;

use super::check_line::CheckError;
use crate::app::BuildError;
use crate::config::{ConfigError, keyfile};
use crate::server::{InheritedError, TlsError};

pub(super) const HELP: &str = "\
Exit codes:
  0   done
  1   failed
  64  usage error: arguments that the command does not accept
  78  configuration error: restarting won't help until you fix it";

/// Arguments that the command does not accept (`EX_USAGE` in sysexits.h).
const USAGE: u8 = 64;
/// A mistake that someone has to correct (`EX_CONFIG` in sysexits.h).
pub(super) const CONFIGURATION: u8 = 78;
/// Anything else.
pub(super) const FAILURE: u8 = 1;

/// Arguments that are valid individually but make no sense together.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct UsageError(pub(super) String);

/// The exit code for a command that failed with this.
pub(super) fn code_of(error: &anyhow::Error) -> u8 {
    let code = |cause: &(dyn std::error::Error + 'static)| {
        if cause.is::<UsageError>() {
            return Some(USAGE);
        }
        if let Some(failed) = cause.downcast_ref::<CheckError>() {
            return Some(failed.code);
        }
        let key_file: Option<&keyfile::KeyFileError> = match cause.downcast_ref() {
            Some(BuildError::Key(error)) => Some(error),
            _ => cause.downcast_ref(),
        };
        let configured = cause.is::<ConfigError>()
            || cause.is::<TlsError>()
            || cause.is::<InheritedError>()
            || matches!(
                cause.downcast_ref(),
                Some(BuildError::Vault(_) | BuildError::Provider(_) | BuildError::SiteFile(_))
            )
            || key_file.is_some_and(|error| error.is_unusable);
        configured.then_some(CONFIGURATION)
    };
    error.chain().find_map(code).unwrap_or(FAILURE)
}

/// Prints the argument parser's message. Output that was asked for, like the help, is not a failure.
pub fn of_arguments(error: &clap::Error) -> ExitCode {
    // Standard output or standard error may be closed.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

/// The exit code for a command that failed with this.
pub fn of_failure(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(code_of(error))
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};
    use store::StoreError;

    use super::*;
    use crate::cli::check_line::CheckLine;
    use crate::config::Config;
    use crate::site::SiteFileError;
    use crate::vault::VaultError;

    #[test]
    fn each_failure_has_its_code() {
        let wrong = || Config::load(None, [("COMPANION_HTTP_LISTEN", "x")]).unwrap_err();
        let key = |is_unusable| {
            let (path, problem) = ("a.key".into(), String::new());
            keyfile::KeyFileError { path, problem, is_unusable }
        };
        for (error, code) in [
            (anyhow!("x"), 1),
            (BuildError::Store(StoreError::Failed("x".to_owned())).into(), 1),
            (wrong().into(), 78),
            (Err::<(), _>(wrong()).context("outer").unwrap_err(), 78),
            (BuildError::Vault(VaultError::NoKey).into(), 78),
            (BuildError::Key(key(true)).into(), 78),
            (BuildError::Key(key(false)).into(), 1),
            (key(true).into(), 78),
            (UsageError("x".to_owned()).into(), 64),
            (BuildError::SiteFile(SiteFileError::NotText { option: "site.style", path: "a".into() }).into(), 78),
            (CheckLine::wrong("x", "y").require().unwrap_err().into(), 78),
            (CheckLine::failed("x", "y").require().unwrap_err().into(), 1),
        ] {
            assert_eq!(code_of(&error), code, "{error:#}");
        }
    }
}
