//! Words of the status page.

/// The words.
pub(in crate::site) struct StatusWords {
    /// One sentence for previews.
    pub(in crate::site) description: &'static str,
}

pub(super) const EN: StatusWords = StatusWords { description: "Is the bot up, and how has it been?" };

pub(super) const DE: StatusWords = StatusWords { description: "Läuft der Bot, und wie lief er bisher?" };
