//! The result of one check: a line of `check`, and a reason for `serve` to warn or not to start.

use serde_json::{Value, json};

use super::exit;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckStatus {
    Fine,
    Warning,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CheckLine {
    /// What was checked, in one word.
    pub(super) name: &'static str,
    pub(super) status: CheckStatus,
    /// What was found, and what to do.
    pub(super) text: String,
    /// The exit code if it failed.
    code: u8,
}

impl CheckLine {
    pub(super) fn fine(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, status: CheckStatus::Fine, text: text.into(), code: 0 }
    }

    pub(super) fn warning(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, status: CheckStatus::Warning, text: text.into(), code: 0 }
    }

    /// A problem on this machine or elsewhere that may be gone on the next try.
    pub(super) fn failed(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, status: CheckStatus::Failed, text: text.into(), code: exit::FAILURE }
    }

    /// A mistake in the configuration, or in a file it names.
    pub(super) fn wrong(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, status: CheckStatus::Failed, text: text.into(), code: exit::CONFIGURATION }
    }

    pub(super) fn require(&self) -> Result<(), CheckError> {
        if self.has_failed() { Err(CheckError { text: self.text.clone(), code: self.code }) } else { Ok(()) }
    }

    pub(super) fn is_warning(&self) -> bool {
        self.status == CheckStatus::Warning
    }

    pub(super) fn has_failed(&self) -> bool {
        self.status == CheckStatus::Failed
    }

    fn word(&self) -> &'static str {
        match self.status {
            CheckStatus::Fine => "ok",
            CheckStatus::Warning => "warning",
            CheckStatus::Failed => "failed",
        }
    }

    pub(super) fn value(&self) -> Value {
        json!({ "check": self.name, "status": self.word(), "text": self.text })
    }

    pub(super) fn cells(&self) -> Vec<String> {
        vec![self.word().to_owned(), self.name.to_owned(), self.text.clone()]
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(super) struct CheckError {
    text: String,
    pub(super) code: u8,
}

/// Fails if one of the checks failed, with the most specific exit code: restarting cannot fix the configuration.
pub(super) fn require_all(lines: &[CheckLine]) -> Result<(), CheckError> {
    let failed: Vec<_> = lines.iter().filter(|line| line.has_failed()).collect();
    let Some(code) = failed.iter().map(|line| line.code).max() else { return Ok(()) };
    Err(CheckError { text: format!("{} of {} checks failed", failed.len(), lines.len()), code })
}
