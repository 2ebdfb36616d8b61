//! The examples of the OpenAPI document, by the name of what they show. `tests/system/openapi` validates each against its
//! schema.

use domain::Permission;
use serde_json::{Map, Value, json};

use super::error::{BadLine, Details, ErrorCode};

pub const REQUEST_ID: &str = "d4e7e68781c4e71e";
pub const RETRY_SECONDS: u64 = 2;

const HARBOUR: &str = "871203344918732833";
const OWNER: &str = "280114907635220483";

/// The data of a response; for a list, one entry.
pub fn data(name: &str) -> Option<Value> {
    Some(match name {
        "Status" => status(),
        "TeamMember" => json!({
            "username": "ottoline", "name": "Ottoline Marsh", "avatar": "https://cdn.example.com/avatars/ottoline.png",
            "discord_id": "301557200914883072", "role": "Founder", "color": "#E0A030", "category": "leadership", "position": 1,
        }),
        "FeedbackEntry" => json!({
            "feedback": "Good support, quick answers.", "rating": 4, "timestamp": 1_794_700_000,
            "submitter": {
                "username": "lowtide", "name": "lowtide", "id": "533871004227354624",
                "avatar": "https://cdn.example.com/avatars/lowtide.png",
            },
        }),
        "Stats" => json!({
            "guilds": 1234, "members": 567_890, "shards": 2, "feedback": { "count": 321, "average": 4.67 },
        }),
        "Changes" => json!({ "changed": ["status", "team", "feedback", "stats"] }),
        "UserChanges" => json!({ "changed": ["guilds", "me"] }),
        "SignInOptions" => json!({
            "authorize_url": "https://discord.com/oauth2/authorize", "client_id": "157730590492196864",
            "scope": "identify guilds", "redirect_uri": "https://dashboard.example.com/callback",
        }),
        "NewSession" => json!({ "token": "bcs_4Jx8mQ2vT7nB0kYcR5wZ1dLhG9sEf3uA6pXo", "user": user() }),
        "Me" => json!({
            "user": user(),
            "session": { "id": "5Txg0sEHwN9s0CHB", "created": 1_794_708_950, "last_seen": 1_794_712_550, "expires": 1_795_317_350 },
            "team": ["SUPPORT"],
        }),
        "Guild" => json!({
            "name": "Harbour City Roleplay", "id": HARBOUR, "icon": "https://cdn.example.com/icons/harbour.png", "members": 4812,
            "owner": OWNER, "role": "Owner", "service": true,
            "plus": { "plus": { "userid": OWNER, "guilds": [HARBOUR], "slots": 3 }, "active": true },
            "permissions": permissions(),
        }),
        "InvitableGuild" => json!({
            "name": "Lantern Valley", "id": "1031447905116248139", "icon": "https://cdn.example.com/icons/lantern.png",
            "invite": "https://discord.com/oauth2/authorize?client_id=157730590492196864&scope=bot&guild_id=1031447905116248139",
        }),
        "Session" => json!({
            "id": "5Txg0sEHwN9s0CHB", "created": 1_794_708_950, "last_seen": 1_794_712_550,
            "user_agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "current": true,
        }),
        "Nothing" => json!({}),
        "Readiness" => json!({ "status": "ready" }),
        "Taken" => json!({ "applied": 2, "ignored": 0, "next": 4 }),
        "BotState" => json!({
            "instances": [{ "instance": "bot-1", "key": "k7Qw2", "next": 4, "started_at": 1_794_700_000.0, "heartbeat_age": 4200 }],
            "shards": [{
                "shard_count": 1, "shard_id": 0, "instance": "bot-1", "key": "k7Qw2", "snapshot_age": 90_000, "guilds": 2,
                "heartbeat_age": 4200,
            }],
            "guilds": 2, "subscriptions": 1, "feedback": 321, "team": 5,
        }),
        "OpenApiDocument" => {
            json!({ "openapi": "3.1.0", "info": { "title": "bot-companion", "version": "0.1.0" }, "paths": {} })
        }
        _ => return None,
    })
}

/// The body of a request, by the name of its operation.
pub fn request(operation: &str) -> Option<Value> {
    Some(match operation {
        "sendHeartbeat" => json!({
            "instance": "bot-1", "started_at": 1_794_700_000, "memory": 91_226_112, "shard_count": 1,
            "shards": [{ "id": 0, "sent_ms_ago": 2250, "acknowledged_ms_ago": 2190, "latency": 60 }],
        }),
        "replaceShardGuilds" => json!(
            "{\"id\": \"1031447905116248139\", \"name\": \"Lantern Valley\", \"owner\": \"402775613098844173\", \"members\": 8}\n{\"end\": 1}\n"
        ),
        "replaceSubscriptions" => json!(
            "{\"userid\": \"280114907635220483\", \"slots\": 2, \"guilds\": [\"871203344918732833\"], \"active_until\": null}\n{\"end\": 1}\n"
        ),
        "sendEvents" => json!("{\"type\": \"guild_gone\", \"id\": \"1031447905116248139\"}\n"),
        _ => return None,
    })
}

const REASON: &str = "`members` must be a whole number from 0.";

/// The details that an error with this code has.
pub fn details(code: ErrorCode) -> Details {
    let has = |name| code.details().contains(&name);
    Details {
        next: has("next").then_some(4),
        configured: has("configured").then_some(2),
        line: has("line").then_some(3),
        reason: has("reason").then(|| REASON.to_owned()),
        lines: has("lines").then(|| vec![BadLine { line: 3, reason: REASON.to_owned() }]),
    }
}

fn user() -> Value {
    json!({
        "username": "marlow.quay", "name": "Marlow Quay", "id": OWNER,
        "avatar": "https://cdn.example.com/avatars/marlow.png",
    })
}

/// Those of an owner.
fn permissions() -> Value {
    let of_guild = [
        Permission::ManageServer,
        Permission::ErlcManager,
        Permission::ErlcAdmin,
        Permission::ErlcStaff,
        Permission::Admin,
        Permission::Mod,
        Permission::SessionStarter,
        Permission::Setup,
    ];
    let entry = |key: Permission| (key.name().to_owned(), of_guild.contains(&key).into());
    Value::Object(Permission::ALL.into_iter().map(entry).collect::<Map<_, _>>())
}

fn status() -> Value {
    json!({
        "version": {
            "name": "0.1.0", "branch": "main",
            "commit": {
                "sha": "5b1f7c2e9d3a4806b7e15c0f2a9d8e6431c7b0aa", "message": "Answer in time", "author": "Ottoline Marsh",
                "timestamp": 1_794_600_000,
            },
        },
        "resources": { "memory": 84.52 },
        "health": {
            "api": { "latency": { "response": 10.7, "process": 0.045 } },
            "bot": {
                "shards": {
                    "0": { "heartbeatSent": 1_794_708_941.25, "heartbeatAcknowledged": 1_794_708_941.31, "latency": 60.0 },
                },
                "uptime": { "readable": "3 days, 4 hours", "epoch": 1_794_435_348 },
            },
        },
    })
}
