//! Words of the dashboard page.

/// The words.
pub(in crate::site) struct DashboardWords {
    /// One sentence for previews.
    pub(in crate::site) description: &'static str,
}

pub(super) const EN: DashboardWords = DashboardWords { description: "Sign in and see your servers." };

pub(super) const DE: DashboardWords = DashboardWords { description: "Melde dich an und sieh deine Server." };
