//! The demo bot of `bot-companion dev`. Once a real bot reports, it leaves and takes its data with it.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use domain::feed::{GuildLine, InstanceId, Lines, Scope, ShardKey};
use domain::health::{Heartbeat, SILENCE, ShardHeartbeat, is_silent};
use domain::token::{self, random_text};
use domain::{Change, Roster, Time, TokenKind};
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method};
use runtime::random::secret_bytes;
use secrecy::{ExposeSecret, SecretString};
use store::{BotKey, Committed};
use tokio::sync::Mutex;
use tracing::{info, warn};

use super::demo_data as data;
use super::demo_history;
use crate::app::App;
use crate::http::bot_key;

const BEAT_EVERY: Duration = Duration::from_secs(15);
/// Longer than a process may be silent, even measured from a heartbeat that waited while the demo bot removed its data.
pub(super) const LONG_SILENT: Duration = SILENCE.saturating_add(Duration::from_mins(1));
const SHARDS: u32 = 2;
/// How long it has been running when `dev` starts.
const UP_FOR: Duration = Duration::from_hours(6 * 24 + 5);
/// The prefix of the demo bots' instance names, which tells earlier demo bots from real ones.
const NAMED: &str = "demo-";
const KEY_ID: &str = "demo";

/// The bot key that `dev` prints, so everyone knows it. The store never has it: [`make_room`] puts a secret key of this folder in
/// its place.
pub(super) const PUBLISHED_KEY: &str = "bck_Y004p6GQjzC6OnvIyCaSwSOetlS41FxG9G14";

/// The secret key in the data folder, which is created on the first start.
pub(super) fn own_key(data: &Path) -> anyhow::Result<SecretString> {
    let path = data.join("demo-bot.key");
    let new = token::generate(TokenKind::BotKey, secret_bytes);
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Ok(mut file) => file.write_all(new.expose_secret().as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
    .with_context(|| format!("cannot create the demo bot's key {}", path.display()))?;
    let key = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let is_key = token::parse(TokenKind::BotKey, key.as_bytes()).is_some();
    ensure!(is_key, "{} contains no bot key: delete the data folder, or choose another with --data", path.display());
    Ok(key.into())
}

/// Stores the demo bot's own key.
async fn add_key(app: &App, key: &SecretString) -> anyhow::Result<()> {
    let hash = token::hash_of(key);
    let known = app.sources.store.keys().await?.into_iter().find(|known| known.id == KEY_ID);
    if known.is_none() {
        let label = "the demo bot of `dev`".to_owned();
        let key = BotKey { id: KEY_ID.to_owned(), label, created: app.sources.clock.now(), revoked: None };
        app.sources.store.add_key(key, hash).await?;
    } else {
        let valid = app.sources.store.key(hash).await?.filter(|known| known.revoked.is_none());
        let advice = "the demo bot's key was revoked in this store, or comes from another data folder: choose another folder \
                      with --data, or another database with --store";
        ensure!(valid.is_some(), advice);
    }
    Ok(())
}

/// A heartbeat that says nothing about the shards.
fn heartbeat(instance: InstanceId, started_at: Time, shard_count: u32) -> Heartbeat {
    Heartbeat { instance, started_at, memory: 0, shard_count, shards: Vec::new(), leaving: false }
}

/// Middleware: the published key becomes the secret one, and a real bot's call waits until the demo bot and its data are gone.
/// Only real bots use the feed, and any valid key counts as one, whether or not the service then accepts what was sent.
pub(super) async fn make_room(State(bot): State<Arc<DemoBot>>, mut request: Request, next: Next) -> Response {
    if bot_key(request.headers()) == token::parse(TokenKind::BotKey, PUBLISHED_KEY.as_bytes()) {
        request.headers_mut().insert(AUTHORIZATION, bot.authorization.clone());
    }
    let sends = match request.uri().path() {
        "/bot/events" => *request.method() == Method::POST,
        path => {
            let is_whole = ["/bot/heartbeat", "/bot/subscriptions"].contains(&path) || path.starts_with("/bot/shards/");
            *request.method() == Method::PUT && is_whole
        }
    };
    if sends
        && let Some(key) = bot_key(request.headers())
        // The demo bot must not stay because the store was busy: the service may find the key valid a moment later.
        && bot.app.views.keys.is_valid(key).await.unwrap_or(true)
    {
        bot.leave().await;
    }
    next.run(request).await
}

/// A bot with two shards. It does not go through the feed, because it has to make room for bots that started earlier: its data
/// belongs to a process that counts as silent, so that a real bot's data takes precedence, and only its heartbeats come from a
/// live one.
pub(super) struct DemoBot {
    app: Arc<App>,
    /// The header with the secret key.
    authorization: HeaderValue,
    /// The instance that sends its heartbeats.
    living: InstanceId,
    /// The instance that owns its data.
    silent: InstanceId,
    started_at: Time,
    presence: Mutex<Presence>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    /// It has sent nothing yet.
    Coming,
    /// It has sent everything and sends heartbeats.
    Here,
    /// It was told to send no heartbeats.
    Offline,
    /// A real bot is reporting.
    Gone,
}

impl DemoBot {
    pub(super) async fn new(app: Arc<App>, key: &SecretString, started_at: Time) -> anyhow::Result<Self> {
        add_key(&app, key).await?;
        let mut authorization = HeaderValue::try_from(format!("Bearer {}", key.expose_secret()))?;
        authorization.set_sensitive(true);
        let name = || {
            let name = format!("{NAMED}{}", random_text(16, secret_bytes));
            InstanceId::parse(KEY_ID, &name).context("a name of the demo bot")
        };
        let presence = Mutex::new(Presence::Coming);
        Ok(Self {
            app,
            authorization,
            living: name()?,
            silent: name()?,
            started_at: started_at.before(UP_FOR),
            presence,
        })
    }

    /// Sends everything once, unless a real bot is reporting.
    pub(super) async fn introduce(&self) {
        let mut presence = self.presence.lock().await;
        if *presence != Presence::Coming {
            return;
        }
        *presence = Presence::Here;
        match self.send_everything().await {
            Ok(true) => {}
            Ok(false) => {
                info!("a real bot is reporting, so the demo bot stays away");
                *presence = Presence::Gone;
            }
            Err(error) => warn!(error = format!("{error:#}"), "the demo bot could not send all its data"),
        }
    }

    /// Sends heartbeats until it is dropped or gone.
    pub(super) async fn live(&self) {
        let mut pace = tokio::time::interval(BEAT_EVERY);
        // The first one was sent along with everything else.
        pace.tick().await;
        loop {
            pace.tick().await;
            let presence = self.presence.lock().await;
            if *presence == Presence::Here
                && let Err(error) = self.send_heartbeat(self.app.sources.clock.now()).await
            {
                warn!(error = format!("{error:#}"), "the demo bot's heartbeat was lost");
            }
        }
    }

    /// Stops or resumes its heartbeats, which the status shows immediately. `false` if it is gone.
    pub(super) async fn set_online(&self, online: bool) -> anyhow::Result<bool> {
        let mut presence = self.presence.lock().await;
        match *presence {
            Presence::Gone => return Ok(false),
            _ if online => {
                self.send_heartbeat(self.app.sources.clock.now()).await?;
                *presence = Presence::Here;
            }
            _ => {
                // As if this had been its last heartbeat, with nothing new about the shards.
                let silent = |id| ShardHeartbeat { id, sent: None, acknowledged: None, latency: None };
                let shards = (0..SHARDS).map(silent).collect();
                let last = self.app.sources.clock.now().before(LONG_SILENT);
                self.report(shards, last).await?;
                *presence = Presence::Offline;
            }
        }
        Ok(true)
    }

    pub(super) async fn is_offline(&self) -> bool {
        *self.presence.lock().await == Presence::Offline
    }

    /// Whether a real bot is reporting.
    pub(super) async fn is_gone(&self) -> bool {
        *self.presence.lock().await == Presence::Gone
    }

    /// `false` if a real bot is reporting.
    async fn send_everything(&self) -> anyhow::Result<bool> {
        let now = self.app.sources.clock.now();
        let health = self.app.sources.store.health().await?;
        let is_real = |id: &InstanceId| !(id.key == KEY_ID && id.name.as_str().starts_with(NAMED));
        if health.instances.iter().any(|(id, instance)| is_real(id) && !is_silent(instance.reported, now)) {
            demo_history::remove(&self.app.sources.store).await?;
            return Ok(false);
        }
        // Demo bots of earlier runs, which may have just ended.
        for (instance, known) in health.instances {
            let last = heartbeat(instance, known.started_at, SHARDS);
            self.app.sources.store.record_heartbeat(last, now.before(LONG_SILENT)).await?;
        }
        // Before the first heartbeat, because history is recorded from then on.
        self.add_history(now).await?;
        self.send_heartbeat(now).await?;
        let guilds = data::guilds();
        for shard in (0..SHARDS).filter_map(|id| ShardKey::new(SHARDS, id)) {
            let own = guilds.iter().filter(|guild| shard.covers(guild.id)).cloned().map(GuildLine::Guild);
            self.snapshot(Scope::Shard(shard), Lines::Guilds(own.collect())).await?;
        }
        self.snapshot(Scope::Subscriptions, Lines::Subscriptions(data::subscriptions(now))).await?;
        let said = data::feedback(now).into_iter().map(Change::Feedback).chain([Change::Team(data::team())]);
        self.app.sources.store.apply(said.collect()).await?;
        Ok(true)
    }

    /// Writes the demo history, unless the store has a real one.
    async fn add_history(&self, now: Time) -> anyhow::Result<()> {
        let known = self.app.sources.store.history().await?;
        if demo_history::is_demo(&known) || known.days.is_empty() && known.incidents.is_empty() {
            let new = demo_history::history(demo_history::without_demo(known), now);
            self.app.sources.store.replace_history(new).await?;
        }
        Ok(())
    }

    /// Removes everything it has sent, so that only the real bot's data is left.
    async fn remove_everything(&self) -> anyhow::Result<()> {
        for shard in (0..SHARDS).filter_map(|id| ShardKey::new(SHARDS, id)) {
            self.snapshot(Scope::Shard(shard), Lines::Guilds(Vec::new())).await?;
        }
        self.snapshot(Scope::Subscriptions, Lines::Subscriptions(Vec::new())).await?;
        let now = self.app.sources.clock.now();
        let said = data::feedback(now).into_iter().map(|said| Change::FeedbackGone(said.id));
        self.app.sources.store.apply(said.chain([Change::Team(Roster(Vec::new()))]).collect()).await?;
        demo_history::remove(&self.app.sources.store).await?;
        // The first report, without shards, removes those of its former shards; the second makes it look silent.
        for reported in [now, now.before(LONG_SILENT)] {
            let last = heartbeat(self.living.clone(), self.started_at, 0);
            self.app.sources.store.record_heartbeat(last, reported).await?;
        }
        Ok(())
    }

    /// Replaces everything in a scope. Events are never numbered, so the next number is always 1.
    async fn snapshot(&self, scope: Scope, lines: Lines) -> anyhow::Result<()> {
        let (store, then) = (&self.app.sources.store, self.app.sources.clock.now().before(LONG_SILENT));
        let snapshot = store.begin_snapshot(scope, self.silent.clone(), 1, then).await?;
        store.stage(snapshot, lines).await?;
        let committed = store.commit_snapshot(snapshot, None, then).await?;
        ensure!(matches!(committed, Committed::Replaced { .. }), "a snapshot was not accepted: {committed:?}");
        Ok(())
    }

    async fn send_heartbeat(&self, now: Time) -> anyhow::Result<()> {
        let jitter = |spread: u64| self.app.sources.random.number() % spread;
        let shard = |id| {
            let latency = 35 + jitter(30);
            let sent = now.before(Duration::from_millis(100 + jitter(40_000)));
            #[expect(clippy::cast_precision_loss, reason = "a few milliseconds")]
            let shown = latency as f64;
            let acknowledged = Some(sent.after(Duration::from_millis(latency)));
            ShardHeartbeat { id, sent: Some(sent), acknowledged, latency: Some(shown) }
        };
        self.report((0..SHARDS).map(shard).collect(), now).await
    }

    async fn report(&self, shards: Vec<ShardHeartbeat>, now: Time) -> anyhow::Result<()> {
        let memory = 84_000_000 + self.app.sources.random.number() % 4_000_000;
        let heartbeat = Heartbeat { memory, shards, ..heartbeat(self.living.clone(), self.started_at, SHARDS) };
        Ok(self.app.sources.store.record_heartbeat(heartbeat, now).await?)
    }

    /// Removes its data and leaves for good.
    async fn leave(&self) {
        let mut presence = self.presence.lock().await;
        if *presence == Presence::Gone {
            return;
        }
        // If the caller goes away in the meantime, the next one starts over.
        let taken_back = if *presence == Presence::Coming { Ok(()) } else { self.remove_everything().await };
        if let Err(error) = taken_back {
            let error = format!("{error:#}");
            return warn!(error, "the demo bot could not remove all its data; the next call from a bot tries again");
        }
        *presence = Presence::Gone;
        info!(
            "a real bot is reporting, so the demo bot and its data are gone; to get them back, delete the data folder or choose another with --data"
        );
    }
}
