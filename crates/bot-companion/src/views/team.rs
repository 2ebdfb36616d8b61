//! `GET /team`: the cached response with its `ETag`.

use std::fmt::Write;
use std::sync::Arc;

use aws_lc_rs::digest;
use bytes::Bytes;

use super::cached::{CacheRead, CacheSlot, Cached};
use super::warm::Warm;
use crate::api::team;
use crate::sources::Sources;
use crate::store::{Result, Topic};

/// The view.
pub struct TeamView {
    sources: Sources,
    cache: CacheSlot<TeamResponse>,
}

/// A response that is ready to send.
#[derive(Debug)]
pub struct TeamResponse {
    /// The whole body.
    pub body: Bytes,
    /// Changes with the body; with its quotes.
    pub etag: String,
}

impl TeamView {
    pub(super) fn new(sources: &Sources) -> Self {
        Self { sources: sources.clone(), cache: CacheSlot::new(sources) }
    }

    /// The response, if it is cached and fresh.
    pub fn cached(&self) -> Option<Arc<Cached<TeamResponse>>> {
        self.cache.get_fresh()
    }

    /// The response, from the store if need be; stale if the store cannot be asked.
    pub async fn get(&self) -> Result<Arc<Cached<TeamResponse>>> {
        match self.cached() {
            Some(cached) => Ok(cached),
            None => self.read().await.or_else(|error| self.cache.or_stale(error, Some)),
        }
    }

    async fn read(&self) -> Result<Arc<Cached<TeamResponse>>> {
        let mut read = CacheRead::begin(&self.sources);
        let roster = read.depend_on([Topic::Team]).team().await?;
        let body = team::list(roster);
        Ok(self.cache.insert(read, TeamResponse { etag: etag(&body), body }))
    }
}

impl Warm for TeamView {
    type Value = TeamResponse;

    fn cache(&self) -> &CacheSlot<TeamResponse> {
        &self.cache
    }

    async fn refresh(&self) -> Result<()> {
        self.read().await.map(drop)
    }
}

fn etag(body: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA256, body);
    let mut etag = String::from("\"");
    for byte in &digest.as_ref()[..16] {
        // Writing to a string cannot fail.
        let _ = write!(etag, "{byte:02x}");
    }
    etag.push('"');
    etag
}
