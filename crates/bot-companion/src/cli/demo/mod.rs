//! The demo bot of `bot-companion dev`: a client of the feed like any other, that steps aside when a real bot reports.

mod data;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tracing::{info, warn};

use crate::app::App;
use crate::domain::feed::ShardKey;
use crate::domain::health::SILENCE;
use crate::domain::token::{self, random_text};
use crate::domain::{Guild, Permission, PermissionSet, Roster, Subscription, Time};
use crate::random::secret_bytes;
use crate::store::BotKey;

/// When the demo bot says that it started.
const LONG_AGO: Duration = Duration::from_hours(24 * 365);
const BEAT_EVERY: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(10);
const SHARDS: u32 = 2;
/// The prefix of the demo bots' instance names; it tells those of earlier runs from real bots.
const NAMED: &str = "demo-";
/// The id of the demo key in a store.
pub(super) const KEY_ID: &str = "demo";

/// Makes the demo key good, in this process only.
pub(super) async fn admit_key(app: &App) -> anyhow::Result<()> {
    let hash = token::demo_key_hash();
    match app.store.key(hash).await? {
        None => {
            let label = "the demo key of `dev`".to_owned();
            let key = BotKey { id: KEY_ID.to_owned(), label, created: app.clock.now(), revoked: None };
            app.store.add_key(key, hash).await?;
        }
        Some(known) => ensure!(
            known.revoked.is_none(),
            "the demonstration key was revoked in this store, so `dev` cannot use it: give another folder with --data"
        ),
    }
    app.views.keys.admit_demo_key();
    Ok(())
}

/// A bot of two shards.
pub(super) struct DemoBot {
    app: Arc<App>,
    http: reqwest::Client,
    service: String,
    instance: String,
    started_at: Time,
}

impl DemoBot {
    /// A bot that reports to the service at this address.
    pub(super) fn new(app: Arc<App>, service: String) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build()?;
        let instance = format!("{NAMED}{}", random_text(16, secret_bytes));
        // Long ago: of two processes the later-started one counts, and that must be the real one, even if it was there first.
        Ok(Self { started_at: app.clock.now().before(LONG_AGO), app, http, service, instance })
    }

    /// Sends everything once, unless a real bot reports.
    pub(super) async fn introduce(&self) {
        if let Err(error) = self.say_everything().await {
            warn!(error = format!("{error:#}"), "the demo bot could not say all it knows");
        }
    }

    /// Sends heartbeats until it is dropped, except while a real bot does.
    pub(super) async fn live(&self) {
        let mut pace = tokio::time::interval(BEAT_EVERY);
        // The first one was sent with everything else.
        pace.tick().await;
        let mut aside = false;
        loop {
            pace.tick().await;
            let beaten = async {
                let other = self.real_bot_beats().await?;
                if other != aside {
                    aside = other;
                    info!("{}", if aside { "the demo bot steps aside for a real one" } else { "the demo bot is back" });
                }
                if aside { Ok(()) } else { self.beat().await }
            };
            if let Err(error) = beaten.await {
                let error: anyhow::Error = error;
                warn!(error = format!("{error:#}"), "the demo bot's heartbeat was lost");
            }
        }
    }

    async fn say_everything(&self) -> anyhow::Result<()> {
        if self.real_bot_beats().await? {
            return Ok(());
        }
        self.beat().await?;
        let guilds = data::guilds();
        for shard in (0..SHARDS).filter_map(|id| ShardKey::new(SHARDS, id)) {
            let own = guilds.iter().filter(|guild| shard.covers(guild.id)).map(guild_line);
            self.snapshot(&format!("/bot/shards/{SHARDS}/{}/guilds", shard.id), own.collect()).await?;
        }
        let now = self.app.clock.now();
        let subscriptions = data::subscriptions(now).iter().map(subscription_line).collect();
        self.snapshot("/bot/subscriptions", subscriptions).await?;
        let said = data::feedback(now).into_iter().map(|said| {
            let entry = said.entry;
            json!({"type": "feedback", "id": said.id, "feedback": entry.feedback, "rating": entry.rating,
                "timestamp": entry.timestamp, "submitter": entry.submitter})
        });
        let events: Vec<Value> = said.chain([team_event(&data::team())]).collect();
        self.send(self.numbered(Method::POST, "/bot/events").body(lines(&events))).await.map(drop)
    }

    /// Sends a snapshot. They are sent before any event, so their sequence is always 1.
    async fn snapshot(&self, path: &str, mut things: Vec<Value>) -> anyhow::Result<()> {
        things.push(json!({"end": things.len()}));
        self.send(self.numbered(Method::PUT, path).body(lines(&things))).await.map(drop)
    }

    async fn real_bot_beats(&self) -> anyhow::Result<bool> {
        let state = self.send(self.request(Method::GET, "/bot/state")).await?;
        let living = |instance: &Value| {
            let age = instance["heartbeat_age"].as_u64().map(Duration::from_millis);
            let real = !instance["instance"].as_str().unwrap_or_default().starts_with(NAMED);
            real && age.is_some_and(|age| age < SILENCE)
        };
        Ok(state["data"]["instances"].as_array().is_some_and(|instances| instances.iter().any(living)))
    }

    async fn beat(&self) -> anyhow::Result<()> {
        let jitter = |spread: u64| self.app.random.number() % spread;
        let shard = |id| {
            let (sent, latency) = (100 + jitter(40_000), 35 + jitter(30));
            json!({"id": id, "sent_ms_ago": sent, "acknowledged_ms_ago": sent - latency, "latency": latency})
        };
        let report = json!({
            "instance": self.instance,
            "started_at": self.started_at(),
            "memory": 84_000_000 + jitter(4_000_000),
            "library": "demo",
            "shard_count": SHARDS,
            "shards": (0..SHARDS).map(shard).collect::<Vec<_>>(),
        });
        self.send(self.request(Method::PUT, "/bot/heartbeat").body(report.to_string())).await.map(drop)
    }

    /// To the millisecond: of two bots that started within a second, the later one counts.
    fn started_at(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit a double exactly")]
        let millis = self.started_at.millis() as f64;
        millis / 1000.0
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.service)).bearer_auth(token::DEMO_KEY)
    }

    fn numbered(&self, method: Method, path: &str) -> RequestBuilder {
        self.request(method, path).header("Feed-Instance", &self.instance).header("Feed-Sequence", "1")
    }

    async fn send(&self, request: RequestBuilder) -> anyhow::Result<Value> {
        let response = request.send().await.context("the service cannot be reached")?;
        let status = response.status();
        let body: Value = response.json().await.context("the answer is no JSON")?;
        ensure!(status.is_success(), "the service answered {status}: {}", body["data"]);
        Ok(body)
    }
}

fn lines(things: &[Value]) -> String {
    things.iter().flat_map(|thing| [thing.to_string(), "\n".to_owned()]).collect()
}

fn names(keys: PermissionSet) -> Vec<&'static str> {
    keys.keys().map(Permission::name).collect()
}

fn guild_line(guild: &Guild) -> Value {
    let grants = guild.grants.iter().flatten().map(|(role, keys)| (role.to_string(), json!(names(*keys))));
    let staff = guild.staff.iter().flatten().map(|(user, roles)| (user.to_string(), json!(roles)));
    json!({"id": guild.id, "name": guild.name, "icon": guild.icon, "owner": guild.owner, "members": guild.members,
        "setup": guild.setup, "linked": guild.linked, "grants": Value::Object(grants.collect()),
        "staff": Value::Object(staff.collect())})
}

fn subscription_line(subscription: &Subscription) -> Value {
    json!({"userid": subscription.userid, "slots": subscription.slots, "guilds": subscription.guilds,
        "active_until": subscription.active_until.map(Time::seconds)})
}

fn team_event(team: &Roster) -> Value {
    let members = team.0.iter().map(|entry| {
        let mut member = json!(crate::api::team::TeamMemberData::from(entry.member.clone()));
        member["permissions"] = json!(names(entry.permissions));
        member
    });
    json!({"type": "team", "members": members.collect::<Vec<_>>()})
}
