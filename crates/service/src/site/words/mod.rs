//! Every sentence on the site, once per language. Each has a field, so that the compiler finds missing translations.
//!
//! Each page has its own struct and file, with its English and German words.

pub(super) mod dashboard;
mod failures;
pub(super) mod happenings;
pub(super) mod home;
mod permissions;
pub(super) mod reference;
pub(super) mod shared;
pub(super) mod status;

use dashboard::DashboardWords;
use happenings::HappeningWords;
use home::HomeWords;
use reference::ReferenceWords;
use shared::SharedWords;
use status::StatusWords;

/// The words of one language.
pub(super) struct Words {
    /// `/site/dashboard`
    pub(super) dashboard: DashboardWords,
    /// Announcements, maintenance and updates, wherever they are.
    pub(super) happenings: HappeningWords,
    /// `/site/`
    pub(super) home: HomeWords,
    /// `/docs`
    pub(super) reference: ReferenceWords,
    /// Frame, navigation, errors, units.
    pub(super) shared: SharedWords,
    /// `/site/status`
    pub(super) status: StatusWords,
}

/// English.
pub(super) const EN: Words = Words {
    dashboard: dashboard::EN,
    happenings: happenings::EN,
    home: home::EN,
    reference: reference::EN,
    shared: shared::EN,
    status: status::EN,
};

/// German.
pub(super) const DE: Words = Words {
    dashboard: dashboard::DE,
    happenings: happenings::DE,
    home: home::DE,
    reference: reference::DE,
    shared: shared::DE,
    status: status::DE,
};
