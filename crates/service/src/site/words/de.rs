//! German.

use super::{Words, dashboard, happenings, home, reference, shared, status};

pub(in crate::site) const WORDS: Words = Words {
    dashboard: dashboard::DE,
    happenings: happenings::DE,
    home: home::DE,
    reference: reference::DE,
    shared: shared::DE,
    status: status::DE,
};
