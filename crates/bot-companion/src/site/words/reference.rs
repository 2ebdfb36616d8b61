//! Words of the reference page.

/// The words.
pub(in crate::site) struct ReferenceWords {
    /// One sentence for previews.
    pub(in crate::site) description: &'static str,
}

pub(super) const EN: ReferenceWords = ReferenceWords { description: "Every route of the API, with examples." };

pub(super) const DE: ReferenceWords = ReferenceWords { description: "Jede Route der API, mit Beispielen." };
