//! English.

use super::{Words, dashboard, happenings, home, reference, shared, status};

pub(in crate::site) const WORDS: Words = Words {
    dashboard: dashboard::EN,
    demo: &[],
    happenings: happenings::EN,
    home: home::EN,
    reference: reference::EN,
    shared: shared::EN,
    status: status::EN,
};
