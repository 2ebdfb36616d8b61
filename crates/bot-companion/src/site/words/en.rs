//! English.

use super::{Words, home, shared};

/// The words.
pub(in crate::site) const WORDS: Words = Words { shared: shared::EN, home: home::EN };
