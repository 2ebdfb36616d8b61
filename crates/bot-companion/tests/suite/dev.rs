//! `dev` with a bot of one's own.

use std::fs;
use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::binary::{Running, command};
use crate::harness::{Client, Folder, eventually, names, ndjson, snapshot};

const GUILD: &str = "615550123456789012";
const OWNER: &str = "700000000000000001";
const ADMINISTRATOR: &str = "700000000000000002";
const MODERATOR: &str = "700000000000000003";

struct Dev {
    service: Running,
    client: Client,
    key: String,
}

impl Dev {
    async fn start(data: &Path, listen: &str) -> Self {
        let service = Running::spawn(command(&["dev", "--json", "--listen", listen, "--data", data.to_str().unwrap()]));
        let printed = || fs::read_to_string(&service.output).unwrap();
        eventually("dev says where it is", async || printed().ends_with('\n')).await;
        let said: Value = serde_json::from_str(&printed()).unwrap();
        let text = |name: &str| said[name].as_str().unwrap().to_owned();
        Self { client: Client::new(text("service")), key: text("bot_key"), service }
    }

    async fn sign_in(&self, person: &str) -> (Value, Client) {
        let session = self.client.post("/auth").header("Idp-Code", person).send().await.data();
        (session["user"].clone(), self.client.with_token(session["token"].as_str().unwrap()))
    }

    async fn feed(&self, method: Method, path: &str, body: String) {
        let call = self.client.call(method, path).header("Authorization", format!("Bearer {}", self.key));
        let answer = call.header("Feed-Instance", "own").header("Feed-Sequence", "1").body(body).send().await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
}

#[tokio::test]
async fn the_demo_people_are_in_the_guilds_of_a_bot_of_ones_own() {
    let folder = Folder::new();
    let dev = Dev::start(&folder.path().join("dev"), "127.0.0.1:0").await;
    let shards = json!([{"id": 0, "latency": 40}]);
    let heartbeat = json!({"instance": "own", "started_at": 1_790_000_000, "memory": 1_000_000, "shard_count": 1, "shards": shards});
    dev.feed(Method::PUT, "/bot/heartbeat", ndjson(&[heartbeat])).await;
    let guild = json!({"id": GUILD, "name": "My own server", "icon": null, "owner": OWNER, "member_count": 12,
        "grants": {"7": ["ADMIN"], "8": ["MOD"]}, "staff": {ADMINISTRATOR: ["7"], MODERATOR: ["8"]}});
    dev.feed(Method::PUT, "/bot/shards/1/0/guilds", snapshot(&[guild])).await;

    let joined = async || names(&dev.sign_in("member").await.1.guilds().await).contains(&"My own server");
    eventually("the member has joined", joined).await;
    for (person, id, role) in [
        ("owner", Some(OWNER), "Owner"),
        ("manager", None, "Manager"),
        ("administrator", Some(ADMINISTRATOR), "Administrator"),
        ("moderator", Some(MODERATOR), "Moderator"),
    ] {
        let (user, client) = dev.sign_in(person).await;
        let guilds = client.guilds().await;
        assert_eq!(names(&guilds), ["My own server"], "{person}");
        assert_eq!(guilds[0]["role"], role, "{person}");
        assert!(id.is_none_or(|id| user["id"] == id), "{person}: {user}");
    }
    assert!(dev.sign_in("newcomer").await.1.guilds().await.is_empty());
}

#[tokio::test]
async fn who_has_signed_in_stays_signed_in_when_dev_starts_again() {
    let folder = Folder::new();
    let data = folder.path().join("dev");
    let mut dev = Dev::start(&data, "127.0.0.1:0").await;
    let (_, client) = dev.sign_in("owner").await;
    dev.service.terminate();
    assert!(dev.service.ended().await.success());
    let again = Dev::start(&data, "127.0.0.1:0").await;
    let user = again.client.with_token(client.token());
    // The list of the session is asked from the provider, which has started again, too.
    let list = user.call(Method::GET, "/guilds").header("Cache-Control", "no-cache").send().await;
    assert_eq!(list.status, 200, "{}", list.text());
    assert!(!list.data().as_array().unwrap().is_empty());
}
