//! A snapshot: its lines are staged as they arrive, and committed in one step when the last one confirms that all arrived.

use std::sync::Arc;
use std::time::Duration;

use api::error::ErrorCode;
use api::feed::FeedResult;
use domain::feed::{
    GuildLine, InstanceId, Lines, LostShards, Reason, Scope, ShardKey, SnapshotLine, guild_line, subscription_line,
};
use domain::{Snowflake, Subscription};
use store::{Committed, SnapshotId, StoreError};
use tokio::task::JoinHandle;

use super::bad_lines::BadLines;
use super::body::Upload;
use super::{overruled_reason, warn_operator};
use crate::app::{App, SnapshotPermit};
use crate::http::credentials::{Bot, Sender};
use crate::http::error::ApiError;

/// A batch is staged at this many lines or bytes.
const BATCH_LINES: usize = 2_000;
const BATCH_BYTES: usize = 4 << 20;
/// How many bytes a line counts for if it keeps stored data as it is: that is copied, however short the line is.
const CARRIED_BYTES: usize = BATCH_BYTES / 256;
/// When a client that got no permit should retry.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// The kind of a snapshot: which lines it consists of, and what it replaces.
pub(super) trait SnapshotKind {
    type Line: Send + 'static;
    fn read(&self, line: &[u8]) -> Result<SnapshotLine<Self::Line>, Reason>;
    /// Whether this snapshot covers what the line is about.
    fn is_own(&self, line: &Self::Line) -> bool;
    /// What staging the line costs beyond its own bytes.
    fn weight(line: &Self::Line) -> usize;
    fn lines(batch: Vec<Self::Line>) -> Lines;
    fn scope(&self) -> Scope;
}

impl SnapshotKind for ShardKey {
    type Line = GuildLine;

    fn read(&self, line: &[u8]) -> Result<SnapshotLine<GuildLine>, Reason> {
        let read = guild_line(line)?;
        let SnapshotLine::One(guild, ignored) = &read else { return Ok(read) };
        let id = guild.id();
        if self.covers(id) {
            return Ok(read);
        }
        let home = Self::of(id, self.count);
        let reason = format!("`id` belongs to shard {} of {}, not to this one.", home.id, home.count);
        match guild {
            GuildLine::Guild(_) => Err(Reason::new(reason)),
            // It is counted but not staged, because it belongs to another shard.
            GuildLine::Unavailable(_) => {
                Ok(SnapshotLine::One(guild.clone(), ignored.iter().cloned().chain([reason]).collect()))
            }
        }
    }

    fn is_own(&self, line: &GuildLine) -> bool {
        self.covers(line.id())
    }

    fn weight(line: &GuildLine) -> usize {
        match line {
            GuildLine::Guild(guild) if guild.grants.is_none() || guild.staff.is_none() => CARRIED_BYTES,
            GuildLine::Guild(_) | GuildLine::Unavailable(_) => 0,
        }
    }

    fn lines(batch: Vec<GuildLine>) -> Lines {
        Lines::Guilds(batch)
    }

    fn scope(&self) -> Scope {
        Scope::Shard(*self)
    }
}

pub(super) struct Subscriptions;

impl SnapshotKind for Subscriptions {
    type Line = Subscription;

    fn read(&self, line: &[u8]) -> Result<SnapshotLine<Subscription>, Reason> {
        subscription_line(line)
    }

    fn is_own(&self, _: &Subscription) -> bool {
        true
    }

    fn weight(_: &Subscription) -> usize {
        0
    }

    fn lines(batch: Vec<Subscription>) -> Lines {
        Lines::Subscriptions(batch)
    }

    fn scope(&self) -> Scope {
        Scope::Subscriptions
    }
}

/// Receives a snapshot completely or not at all.
pub(super) async fn receive<K: SnapshotKind>(
    app: &Arc<App>,
    kind: K,
    bot: &Bot,
    sender: &Sender,
    mut upload: Upload,
) -> Result<FeedResult, ApiError> {
    let Some(permit) = app.uploads.try_acquire(kind.scope(), bot.hash) else {
        return Err(ApiError::new(ErrorCode::SnapshotBusy).after(RETRY_AFTER));
    };
    let mut staging = SnapshotStaging::begin(app, kind.scope(), sender.instance(bot), sender.sequence, permit).await?;
    match stage_all(&mut staging, &kind, &mut upload).await {
        Ok(count) => staging.commit(sender.after, count).await,
        Err(refusal) => {
            drop(staging);
            upload.discard().await;
            Err(refusal)
        }
    }
}

/// Stages every line; returns how many there were.
async fn stage_all<K: SnapshotKind>(
    staging: &mut SnapshotStaging,
    kind: &K,
    upload: &mut Upload,
) -> Result<u64, ApiError> {
    let mut bad = BadLines::default();
    let mut batch = Vec::new();
    let mut bytes = 0;
    let mut count = 0_u64;
    let mut end = None;
    while let Some(line) = upload.next_line().await? {
        bytes += line.len();
        let read = kind.read(line);
        let number = upload.number();
        if end.is_some() {
            return Err(ApiError::line(number, &"Nothing may follow the line with `end`."));
        }
        match read {
            Err(reason) => {
                count += 1;
                bad.add(number, &reason);
            }
            // Only what else is wrong matters now.
            Ok(SnapshotLine::One(..)) if bad.any() => count += 1,
            Ok(SnapshotLine::End(said)) if said == count => end = Some(said),
            Ok(SnapshotLine::End(_)) => {
                let reason = format!("`end` must be the number of lines before it, which is {count}.");
                return Err(ApiError::line(number, &reason));
            }
            Ok(SnapshotLine::One(line, reasons)) => {
                count += 1;
                staging.result.ignore(reasons);
                bytes += K::weight(&line);
                if kind.is_own(&line) {
                    batch.push(line);
                }
                if batch.len() >= BATCH_LINES || bytes >= BATCH_BYTES {
                    staging.stage(K::lines(std::mem::take(&mut batch))).await?;
                    bytes = 0;
                }
            }
        }
    }
    bad.refuse()?;
    if end.is_none() {
        let reason =
            "The last line must be {\"end\": N} with the number of lines before it; the body may have been cut.";
        return Err(ApiError::line(upload.number() + 1, &reason));
    }
    if !batch.is_empty() {
        staging.stage(K::lines(batch)).await?;
    }
    staging.finish_batch().await?;
    Ok(count)
}

/// A snapshot being staged. If it is dropped before its commit, a background task discards it.
struct SnapshotStaging {
    app: Arc<App>,
    scope: Scope,
    instance: InstanceId,
    snapshot: SnapshotId,
    result: FeedResult,
    /// The batch being written while the next one is read.
    batch: Option<JoinHandle<Result<Vec<Snowflake>, StoreError>>>,
    /// How many lines were replaced by a later line about the same user.
    replaced: u64,
    _permit: SnapshotPermit,
    is_committed: bool,
}

impl SnapshotStaging {
    /// In the background: if the client leaves in the meantime, the snapshot is dropped there, and so discarded.
    async fn begin(
        app: &Arc<App>,
        scope: Scope,
        instance: InstanceId,
        sequence: u64,
        permit: SnapshotPermit,
    ) -> Result<Self, ApiError> {
        let app = Arc::clone(app);
        let background = app.sources.background.clone();
        let begun = background.spawn(async move {
            let snapshot =
                app.sources.store.begin_snapshot(scope, instance.clone(), sequence, app.sources.clock.now()).await?;
            Ok::<_, StoreError>(Self {
                app,
                scope,
                instance,
                snapshot,
                result: FeedResult::default(),
                batch: None,
                replaced: 0,
                _permit: permit,
                is_committed: false,
            })
        });
        Ok(begun.await.map_err(|error| ApiError::new(ErrorCode::Internal).because(&error))??)
    }

    async fn stage(&mut self, lines: Lines) -> Result<(), ApiError> {
        self.finish_batch().await?;
        let (store, snapshot) = (Arc::clone(&self.app.sources.store), self.snapshot);
        self.batch = Some(self.app.sources.background.spawn(async move { store.stage(snapshot, lines).await }));
        Ok(())
    }

    /// Waits until the current batch is written.
    async fn finish_batch(&mut self) -> Result<(), ApiError> {
        let Some(batch) = &mut self.batch else { return Ok(()) };
        let staged = batch.await;
        self.batch = None;
        let replaced = staged.map_err(|error| ApiError::new(ErrorCode::Internal).because(&error))??;
        self.replaced += replaced.len() as u64;
        self.result.ignore(replaced.into_iter().map(replaced_reason).collect());
        Ok(())
    }

    /// Runs to the end even if the client leaves.
    async fn commit(mut self, after: Option<u64>, count: u64) -> Result<FeedResult, ApiError> {
        let app = Arc::clone(&self.app);
        let instance = self.instance.clone();
        let scope = self.scope;
        let (result, applied) = (std::mem::take(&mut self.result), count.saturating_sub(self.replaced));
        let commit = app.sources.background.spawn(async move {
            let committed =
                self.app.sources.store.commit_snapshot(self.snapshot, after, self.app.sources.clock.now()).await;
            self.is_committed = matches!(committed, Ok(Committed::Replaced { .. }));
            self.app.uploads.clean_up();
            committed
        });
        match commit.await.map_err(|error| ApiError::new(ErrorCode::Internal).because(&error))?? {
            Committed::Replaced { next } => Ok(result.with(applied, 0, next)),
            Committed::Outranked { next, owner } => {
                warn_operator(&app, &instance, &owner, count);
                let mut result = FeedResult::default();
                result.explain_first(overruled_reason(count, &owner));
                result.note_lost(&LostShards { replaced: scope.shard().into_iter().collect(), free: Vec::new() });
                Ok(result.with(0, count, next))
            }
            Committed::KeyRefused => Err(ErrorCode::BotKeyInvalid.into()),
            Committed::Resync { next } => Err(ApiError::new(ErrorCode::ResyncRequired).with_next(next)),
            Committed::Outdated { next } => Err(ApiError::new(ErrorCode::SnapshotOutdated).with_next(next)),
        }
    }
}

/// Why a subscription does not count.
fn replaced_reason(user: Snowflake) -> String {
    format!("The list has several lines for the user {user}; only the last one counts. Send one line per user.")
}

impl Drop for SnapshotStaging {
    fn drop(&mut self) {
        if self.is_committed {
            return;
        }
        let app = Arc::clone(&self.app);
        let snapshot = self.snapshot;
        let batch = self.batch.take();
        self.app.sources.background.spawn(async move {
            // A batch that is still being written must not be staged after the snapshot was discarded.
            if let Some(batch) = batch {
                let _ = batch.await;
            }
            app.uploads.discard(snapshot).await;
        });
    }
}
