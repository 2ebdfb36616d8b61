//! The lines of an upload that can't be accepted. All of them are named in one response, so that a sender needs one more try and not
//! one per line.

use api::error::BadLine;

use crate::http::error::ApiError;

/// The most lines in a response.
const MOST: usize = 1_000;

/// The first of the bad lines, and why each is bad.
#[derive(Debug, Default)]
pub(super) struct BadLines(Vec<BadLine>);

impl BadLines {
    pub(super) fn add(&mut self, line: u64, reason: &impl ToString) {
        if self.0.len() < MOST {
            self.0.push(BadLine { line, reason: reason.to_string() });
        }
    }

    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// An error if there are any.
    pub(super) fn refuse(self) -> Result<(), ApiError> {
        if self.0.is_empty() { Ok(()) } else { Err(ApiError::lines(self.0)) }
    }
}
