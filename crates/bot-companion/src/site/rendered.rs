//! Pages that were made a moment ago, so that many visitors at once cost one rendering.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;

use super::Language;
use super::status::SharedStatusPage;
use crate::domain::Time;
use crate::views::tagged::TaggedBody;

/// Pages that are the same for everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageName {
    /// `/site/`
    Home,
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
    slots: [[PageSlot<TaggedBody>; Language::ALL.len()]; 3],
    status: [PageSlot<SharedStatusPage>; Language::ALL.len()],
    fixed: [[OnceLock<TaggedBody>; Language::ALL.len()]; 2],
    /// How many status pages were rendered.
    status_renderings: AtomicU64,
}

/// Facts that a page is made of; the same allocation means the same facts.
pub type Facts = Arc<dyn Any + Send + Sync>;

/// The last rendering of one page in one language.
struct PageSlot<T>(ArcSwapOption<RenderedPage<T>>);

impl<T> Default for PageSlot<T> {
    fn default() -> Self {
        Self(ArcSwapOption::empty())
    }
}

struct RenderedPage<T> {
    /// Pages say how long ago things were, so a rendering is good for one second.
    second: u64,
    /// What it was made of.
    facts: Vec<Facts>,
    body: Arc<T>,
}

impl<T> PageSlot<T> {
    fn get_or_render(&self, (facts, now): (Vec<Facts>, Time), render: impl FnOnce() -> T) -> Arc<T> {
        let second = now.seconds();
        if let Some(rendered) = &*self.0.load()
            && rendered.second == second
            && rendered.facts.len() == facts.len()
            && rendered.facts.iter().zip(&facts).all(|(a, b)| Arc::ptr_eq(a, b))
        {
            return Arc::clone(&rendered.body);
        }
        let body = Arc::new(render());
        self.0.store(Some(Arc::new(RenderedPage { second, facts, body: Arc::clone(&body) })));
        body
    }
}

impl RenderedPages {
    /// The page of these facts at this time: the one at hand, or a new one.
    pub fn get_or_render(
        &self,
        (page, language): (PageName, Language),
        made_of: (Vec<Facts>, Time),
        render: impl FnOnce() -> String,
    ) -> Arc<TaggedBody> {
        let slot = &self.slots[page as usize][language as usize];
        slot.get_or_render(made_of, || TaggedBody::new(render().into()))
    }

    /// `/site/status`, in the same way. One rendering serves those too who look up a server on it.
    pub fn get_or_render_status(
        &self,
        language: Language,
        made_of: (Vec<Facts>, Time),
        render: impl FnOnce() -> SharedStatusPage,
    ) -> Arc<SharedStatusPage> {
        self.status[language as usize].get_or_render(made_of, || {
            self.status_renderings.fetch_add(1, Ordering::Relaxed);
            render()
        })
    }

    /// How many status pages were rendered so far.
    pub fn status_renderings(&self) -> u64 {
        self.status_renderings.load(Ordering::Relaxed)
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
