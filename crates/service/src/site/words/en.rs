//! English.

use super::{Words, dashboard, home, reference, shared, status};

pub(in crate::site) const WORDS: Words = Words {
    dashboard: dashboard::EN,
    home: home::EN,
    reference: reference::EN,
    shared: shared::EN,
    status: status::EN,
};
