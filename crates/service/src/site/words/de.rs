//! German.

use super::{Words, dashboard, home, reference, shared, status};

pub(in crate::site) const WORDS: Words = Words {
    dashboard: dashboard::DE,
    home: home::DE,
    reference: reference::DE,
    shared: shared::DE,
    status: status::DE,
};
