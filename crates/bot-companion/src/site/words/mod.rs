//! Every sentence of the site, once per language. A field for each, so that the compiler finds what is not translated.
//!
//! Each page has a struct of its own, in a file of its own, with its English and German words.

pub(super) mod de;
pub(super) mod en;
pub(super) mod home;
pub(super) mod shared;

use home::HomeWords;
use shared::SharedWords;

/// The words of one language.
pub(super) struct Words {
    /// Frame, navigation, errors, units.
    pub(super) shared: SharedWords,
    /// `/site/`
    pub(super) home: HomeWords,
}
