//! What the site's pages show: the same public data as the JSON, as values.

use domain::feedback::FeedbackEntry;
use domain::{Health, Stats, TeamMember};
use store::{Result, Topic};
use telemetry::metrics::CacheName;

use super::cached::CacheRead;
use super::public::PublicKind;
use crate::sources::Sources;

#[derive(Clone, Debug, Default)]
pub struct SiteFacts {
    /// The bot's health; what counts as alive depends on the time.
    pub health: Health,
    pub stats: Stats,
    /// The team, in display order.
    pub team: Vec<TeamMember>,
    /// Five entries, drawn again whenever any of this changes.
    pub reviews: Vec<FeedbackEntry>,
}

pub struct SiteView;

impl PublicKind for SiteView {
    type Value = SiteFacts;
    const NAME: CacheName = CacheName::Site;

    async fn read(sources: &Sources, read: &mut CacheRead<'_>) -> Result<SiteFacts> {
        let store = read.depend_on([Topic::Health, Topic::Stats, Topic::Team, Topic::Feedback]);
        let sample = store.sample_feedback(sources.clock.now().millis()).await?;
        Ok(SiteFacts {
            health: store.health().await?,
            stats: store.stats().await?,
            team: store.team().await?.into_ordered(),
            reviews: sample.entries.into_iter().map(|(_, stored)| stored.entry).collect(),
        })
    }
}
