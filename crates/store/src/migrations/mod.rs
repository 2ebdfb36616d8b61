//! The schema, one numbered file per step, for both databases. A released step is never edited; the next one is added below it.
//!
//! Words in braces stand for those of a database. A line after `@sqlite` or `@postgres` is for that one alone.

use crate::schema_version::Steps;

pub(crate) const STEPS: Steps = Steps(&[include_str!("0010_start.sql")]);
pub(crate) const NEWEST: usize = STEPS.newest();

/// How a step is written for one database.
pub(crate) struct Dialect {
    /// What its own lines begin with.
    pub(crate) mark: &'static str,
    pub(crate) words: [(&'static str, &'static str); 7],
}

impl Dialect {
    pub(crate) fn write(&self, step: &str) -> String {
        let own = |line| if str::starts_with(line, '@') { line.strip_prefix(self.mark) } else { Some(line) };
        let text = step.lines().filter_map(own).collect::<Vec<_>>().join("\n");
        self.words.iter().fold(text, |text, (word, own)| text.replace(word, own))
    }
}
