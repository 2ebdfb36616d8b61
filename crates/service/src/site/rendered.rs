//! Recently rendered pages, so that many visitors at once cost one rendering.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use domain::Time;

use super::Language;
use crate::views::tagged::TaggedBody;

/// Pages that are the same for everyone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageName {
    /// `/site/`
    Home,
    /// `/site/status`
    Status,
    /// `/site/dashboard`
    Dashboard,
    /// The same, if nobody can sign in there.
    DashboardWithoutSignIn,
    /// `/site/incidents.atom`
    Incidents,
    /// `/site/roles.css`, the same in each language.
    RoleColours,
    /// `/site/incidents.json`, the same in each language.
    IncidentsJson,
    /// `/docs`
    Reference,
    /// `/docs/feed`
    Feed,
    /// `/site/features`
    Features,
}

/// The last rendering of each page in each language.
#[derive(Default)]
pub struct RenderedPages {
    slots: [[ArcSwapOption<RenderedPage>; Language::ALL.len()]; 10],
    renderings: AtomicU64,
}

/// How far ahead of the clock a rendering may be and still be used. One that is further ahead is from before the clock was set back.
const MOST_SECONDS_AHEAD: u64 = 60;

/// The facts behind a page; the same allocation means the same facts.
pub type Facts = Arc<dyn Any + Send + Sync>;

struct RenderedPage {
    /// Pages say how long ago things were, so a rendering is good for one second.
    second: u64,
    facts: Vec<Facts>,
    body: Arc<TaggedBody>,
}

impl RenderedPage {
    /// Whether it can be shown for these facts in this second. So can a later one: visitors who read the clock a
    /// moment before others must not cause another rendering.
    fn serves(&self, facts: &[Facts], second: u64) -> bool {
        (second..=second.saturating_add(MOST_SECONDS_AHEAD)).contains(&self.second)
            && self.facts.len() == facts.len()
            && self.facts.iter().zip(facts).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

impl RenderedPages {
    /// The page for these facts at this time: the cached one, or a new one.
    pub fn get_or_render<B: Into<Bytes>>(
        &self,
        (page, language): (PageName, Language),
        (facts, now): (Vec<Facts>, Time),
        render: impl FnOnce() -> B,
    ) -> Arc<TaggedBody> {
        let slot = &self.slots[page as usize][language as usize];
        let second = now.seconds();
        if let Some(rendered) = &*slot.load()
            && rendered.serves(&facts, second)
        {
            return Arc::clone(&rendered.body);
        }
        self.renderings.fetch_add(1, Ordering::Relaxed);
        let body = Arc::new(TaggedBody::new(render().into()));
        let new = Arc::new(RenderedPage { second, facts, body: Arc::clone(&body) });
        // Another request may have stored a later one in the meantime.
        slot.rcu(|stored| match stored {
            Some(stored) if stored.serves(&new.facts, second) => Some(Arc::clone(stored)),
            _ => Some(Arc::clone(&new)),
        });
        body
    }

    /// The same for a page that does not say how long ago things were: it is good for as long as its facts are, and without any for as
    /// long as the process runs.
    pub fn get_or_render_timeless(
        &self,
        page: (PageName, Language),
        facts: Vec<Facts>,
        render: impl FnOnce() -> String,
    ) -> Arc<TaggedBody> {
        self.get_or_render(page, (facts, Time::from_seconds(0)), render)
    }

    /// How many pages have been rendered so far.
    pub fn renderings(&self) -> u64 {
        self.renderings.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_rendering_of_the_same_facts_serves_everybody_until_the_clock_is_far_behind() {
        let pages = RenderedPages::default();
        let (facts, changed): (Facts, Facts) = (Arc::new(1), Arc::new(2));
        let shown = |facts: &Facts, second: u64| {
            let made_of = (vec![Arc::clone(facts)], Time::from_seconds(second));
            let page = pages.get_or_render((PageName::Home, Language::English), made_of, || second.to_string());
            String::from_utf8(page.body.plain().to_vec()).unwrap()
        };
        assert_eq!(shown(&facts, 100), "100");
        assert_eq!(shown(&facts, 101), "101");
        for _ in 0..3 {
            assert_eq!((shown(&facts, 100), shown(&facts, 101)), ("101".to_owned(), "101".to_owned()));
        }
        assert_eq!(pages.renderings(), 2);
        assert_eq!(shown(&changed, 100), "100", "other facts are another page");
        assert_eq!((shown(&changed, 40), shown(&changed, 39)), ("100".to_owned(), "39".to_owned()), "it was set back");
        assert_eq!(shown(&changed, 40), "40");
    }
}
