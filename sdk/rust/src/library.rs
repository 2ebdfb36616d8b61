//! What the adapters share: a source that answers from the table of guilds, and asks the library for the rest.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::source::{GuildState, ListingError, Member, Page, ShardHealth, Source};
use crate::table::Table;

/// Members per page. Discord allows no more.
pub(crate) const PAGE: u16 = 1_000;

/// How long to wait after a 429 if the library does not say. Discord's global limit resets every second.
pub(crate) const UNNAMED_LIMIT: Duration = Duration::from_secs(1);

/// What differs from library to library.
pub(crate) trait Library: Send + Sync + 'static {
    fn name(&self) -> String;
    fn has_members_intent(&self) -> bool;
    /// As [`Source::cached_holders`].
    fn cached_holders(&self, guild: u64, roles: &[u64]) -> Option<Vec<Member>>;
    fn list_members(&self, guild: u64, after: u64) -> BoxFuture<'static, Result<Page, ListingError>>;
    /// Adds what the library currently knows about the shards.
    fn look_at(&self, _shards: &mut [ShardHealth]) {}
}

/// A bot library as the feed sees it.
pub(crate) struct LibrarySource<L> {
    pub(crate) table: Arc<Table>,
    pub(crate) library: Arc<L>,
}

impl<L: Library> Source for LibrarySource<L> {
    fn name(&self) -> Option<String> {
        self.table.name()
    }

    fn library(&self) -> Option<String> {
        Some(self.library.name())
    }

    fn shard_count(&self) -> u32 {
        self.table.shard_count()
    }

    fn shards(&self) -> Vec<ShardHealth> {
        let mut shards = self.table.shards();
        self.library.look_at(&mut shards);
        shards
    }

    fn expects_shards(&self) -> bool {
        self.table.expects_shards()
    }

    fn guild_ids(&self, shard: u32) -> Vec<u64> {
        self.table.guild_ids(shard)
    }

    fn guild(&self, id: u64) -> GuildState {
        self.table.guild(id)
    }

    fn has_members_intent(&self) -> bool {
        self.library.has_members_intent()
    }

    fn cached_holders(&self, guild: u64, roles: &[u64]) -> Option<Vec<Member>> {
        self.library.cached_holders(guild, roles)
    }

    fn list_members(&self, guild: u64, after: u64) -> BoxFuture<'static, Result<Page, ListingError>> {
        self.library.list_members(guild, after)
    }
}

/// A page of members.
pub(crate) fn page(mut members: Vec<Member>) -> Page {
    members.sort_unstable_by_key(|member| member.user);
    Page { is_last: members.len() < usize::from(PAGE), members }
}
