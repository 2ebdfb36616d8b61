//! Pages that were made a moment ago, so that many visitors at once cost one rendering.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;

use super::Language;
use crate::domain::Time;
use crate::views::tagged::TaggedBody;

/// Pages that are the same for everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageName {
    /// `/site/`
    Home,
    /// `/site/status`
    Status,
    /// `/site/dashboard`
    Dashboard,
    /// The same where nobody can sign in.
    DashboardWithoutSignIn,
}

/// Pages that do not change while the process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixedPage {
    /// `/docs`
    Reference,
    /// `/docs/feed`
    Feed,
}

/// The last rendering of each page in each language.
#[derive(Default)]
pub struct RenderedPages {
    slots: [[ArcSwapOption<RenderedPage>; Language::ALL.len()]; 4],
    fixed: [[OnceLock<TaggedBody>; Language::ALL.len()]; 2],
}

/// Facts that a page is made of; the same allocation means the same facts.
pub type Facts = Arc<dyn Any + Send + Sync>;

struct RenderedPage {
    /// Pages say how long ago things were, so a rendering is good for one second.
    second: u64,
    /// What it was made of.
    facts: Vec<Facts>,
    body: Arc<TaggedBody>,
}

impl RenderedPages {
    /// The page of these facts at this time: the one at hand, or a new one.
    pub fn get_or_render(
        &self,
        (page, language): (PageName, Language),
        (facts, now): (Vec<Facts>, Time),
        render: impl FnOnce() -> String,
    ) -> Arc<TaggedBody> {
        let slot = &self.slots[page as usize][language as usize];
        let second = now.seconds();
        if let Some(rendered) = &*slot.load()
            && rendered.second == second
            && rendered.facts.len() == facts.len()
            && rendered.facts.iter().zip(&facts).all(|(a, b)| Arc::ptr_eq(a, b))
        {
            return Arc::clone(&rendered.body);
        }
        let body = Arc::new(TaggedBody::new(render().into()));
        slot.store(Some(Arc::new(RenderedPage { second, facts, body: Arc::clone(&body) })));
        body
    }

    /// A page that is rendered once.
    pub fn get_or_render_once(
        &self,
        (page, language): (FixedPage, Language),
        render: impl FnOnce() -> String,
    ) -> &TaggedBody {
        self.fixed[page as usize][language as usize].get_or_init(|| TaggedBody::new(render().into()))
    }
}
