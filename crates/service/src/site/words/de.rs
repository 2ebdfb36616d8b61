//! German.

use super::{Words, dashboard, demo, happenings, home, reference, shared, status};

pub(in crate::site) const WORDS: Words = Words {
    dashboard: dashboard::DE,
    demo: demo::DE,
    happenings: happenings::DE,
    home: home::DE,
    reference: reference::DE,
    shared: shared::DE,
    status: status::DE,
};
