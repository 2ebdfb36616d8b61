//! The steps in docs/keys.md, "Change the encryption key", on a running service; and who creates a key file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use runtime::clock::Clock;
use sandbox::Sandbox;
use serde_json::Value;

use crate::harness::binary::{Running, command, config_file, run};
use crate::harness::{Folder, eventually, on_postgres, sandbox, sqlite_only};

const NEW: &str = "2026-11:QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=";
/// Each request for guilds asks the provider, which needs the user's grant.
const CONFIGURATION: &str = r#"
    admin.listen = "127.0.0.1:0"
    guilds.fresh = "0s"
    guilds.stale_while_revalidate = "0s"
    guilds.max_stale = "0s"
    guilds.failure_backoff = "0s"
"#;

struct Site {
    folder: Folder,
    provider: Arc<Sandbox>,
    config: PathBuf,
}

impl Site {
    fn new() -> Self {
        let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
        let config = config_file(&folder, &provider, CONFIGURATION);
        Self { folder, provider, config }
    }

    /// Writes the keys into a file, which the configuration names.
    fn set_keys_in_file(&self, keys: &[&str]) {
        let file = self.folder.path().join("keys");
        std::fs::write(&file, keys.join("\n") + "\n").unwrap();
        self.set_secrets(&format!("keys_file = \"{}\"", file.display()));
    }

    /// Edits `[secrets]` in the configuration file.
    fn set_keys(&self, keys: &[&str]) {
        self.set_secrets(&format!("keys = {keys:?}"));
    }

    fn set_secrets(&self, secrets: &str) {
        let text = std::fs::read_to_string(&self.config).unwrap();
        let (text, _) = text.split_once("[secrets]").unwrap_or((&text, ""));
        let others: String =
            text.lines().filter(|line| !line.contains("secrets.keys")).map(|line| format!("{line}\n")).collect();
        std::fs::write(&self.config, format!("{others}[secrets]\n{secrets}\n")).unwrap();
    }

    async fn serve(&self) -> Running {
        Running::start(command(&["serve", "--listen", "127.0.0.1:0", "--config", self.config.to_str().unwrap()])).await
    }

    /// The session's token.
    async fn sign_in(&self, service: &Running, person: &str) -> String {
        let answer = service.client().post("/auth").header("Idp-Code", self.provider.issue_code(person)).send().await;
        assert_eq!(answer.status, 200, "{}", service.logged());
        answer.data()["token"].as_str().unwrap().to_owned()
    }

    /// Whether the service can still use the grant of this session's user, whose access token has expired.
    async fn can_refresh(&self, service: &Running, person: &str, token: &str) -> bool {
        self.provider.expire_access(person);
        service.client().with_token(token).get("/guilds").await.status == 200
    }
}

/// Runs a command next to the service, and returns its exit code, output and messages.
async fn said(config: &Path, variables: &[(&str, &str)], arguments: &[&str]) -> (i32, String, String) {
    let mut command = command(arguments);
    command.arg("--config").arg(config).envs(variables.iter().copied());
    let output = run(command).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

async fn admin_of(service: &Running) -> String {
    let mark = "metrics and health are on http://";
    eventually("the admin listener is there", async || service.logged().contains(mark)).await;
    service.logged().split_once(mark).unwrap().1.split('/').next().unwrap().to_owned()
}

#[tokio::test]
async fn the_key_changes_while_the_service_runs_and_every_session_goes_on() {
    let site = Site::new();
    let service = site.serve().await;
    let admin = admin_of(&service).await;
    let running = [("COMPANION_ADMIN_LISTEN", admin.as_str())];
    let reseal = ["secrets", "reseal"];
    let old = site.folder.key().trim().to_owned();
    let old_id = old.split_once(':').unwrap().0;
    let before = site.sign_in(&service, "owner").await;

    // The new key goes first. Until the reload, the service encrypts with the old one.
    site.set_keys(&[NEW, &old]);
    let (code, output, error) = said(&site.config, &running, &reseal).await;
    assert!(code == 1 && output.is_empty(), "{output}{error}");
    let refusal = format!("encrypts with the key `{old_id}`, but this command would encrypt with `2026-11`");
    assert!(error.contains(&refusal) && error.contains("Nothing was changed"), "{error}");
    service.reload("reloaded changed=secrets.keys").await;
    let during = site.sign_in(&service, "manager").await;

    // A command with other keys than the service, which has both.
    let other = [running[0], ("COMPANION_SECRETS_KEYS", old.as_str())];
    let (code, _, error) = said(&site.config, &other, &reseal).await;
    assert!(code == 1 && error.contains("encrypts with the key `2026-11`"), "{error}");

    let (code, output, error) = said(&site.config, &running, &reseal).await;
    assert!(code == 0 && output.starts_with("Encrypted 1 of 2 grants with 2026-11.\n"), "{output}{error}");
    assert!(output.contains(&format!("Nothing needs the key {old_id} any more")), "{output}");
    assert_eq!(error.contains("was asked. Every service that uses this store"), on_postgres(), "{error}");

    site.set_keys(&[NEW]);
    service.reload("reloaded changed=secrets.keys").await;
    if !on_postgres() {
        std::fs::remove_file(site.folder.path().join("data.db.key")).unwrap();
    }
    let people = [("owner", &before), ("manager", &during)];
    for (person, token) in people {
        assert!(site.can_refresh(&service, person, token).await, "{person}: {}", service.logged());
    }
    drop(service);
    let service = site.serve().await;
    for (person, token) in people {
        assert!(site.can_refresh(&service, person, token).await, "{person}: {}", service.logged());
    }
    let (_, status, _) = said(&site.config, &[], &["secrets", "status", "--json"]).await;
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status.as_array().unwrap().len(), 1, "{status}");
    assert_eq!(
        (&status[0]["id"], &status[0]["grants"], &status[0]["unreadable"]),
        (&"2026-11".into(), &2.into(), &0.into())
    );
    assert!(!site.folder.path().join("data.db.key").exists(), "nothing creates another key");
}

#[tokio::test]
async fn keys_in_a_file_are_the_same_for_the_service_and_every_command() {
    let site = Site::new();
    let service = site.serve().await;
    let admin = admin_of(&service).await;
    let running = [("COMPANION_ADMIN_LISTEN", admin.as_str())];
    site.sign_in(&service, "owner").await;
    let old = site.folder.key().trim().to_owned();

    site.set_keys_in_file(&[&old]);
    service.reload("reloaded changed=").await;
    site.set_keys_in_file(&[NEW, &old]);
    // The option didn't change, but the file did.
    service.reload("reloaded changed=secrets.keys\n").await;
    let (code, output, error) = said(&site.config, &running, &["secrets", "reseal"]).await;
    assert!(code == 0 && output.starts_with("Encrypted 1 of 1 grant with 2026-11.\n"), "{output}{error}");
    site.set_keys_in_file(&[NEW]);
    let own = site.folder.path().join("data.db.key");
    if !on_postgres() {
        std::fs::remove_file(&own).unwrap();
    }
    let backup = site.folder.path().join("companion.backup");
    for (arguments, part) in [
        (&["check"][..], "is fine"),
        (&["secrets", "status"], "2026-11"),
        (&["backup", backup.to_str().unwrap()], "1 of 1 grant"),
        (&["users", "forget", "7", "--yes"], ""),
    ] {
        let (code, output, error) = said(&site.config, &running, arguments).await;
        assert!(code == 0 && (output.clone() + &error).contains(part), "{arguments:?}: {output}{error}");
        assert!(!error.contains("cannot be read"), "{arguments:?}: {error}");
    }
    assert!(!own.exists(), "nothing creates another key");
}

#[tokio::test]
async fn only_the_service_creates_a_key_file() {
    sqlite_only!("it has no key file");
    let site = Site::new();
    let key = site.folder.path().join("data.db.key");
    let commands: [&[&str]; 6] = [
        &["key", "create", "--label", "lantern"],
        &["key", "list"],
        &["users", "block", "7"],
        &["users", "forget", "7", "--yes"],
        &["secrets", "status"],
        &["store", "vacuum"],
    ];
    for arguments in commands {
        let (code, output, error) = said(&site.config, &[], arguments).await;
        assert_eq!(code, 0, "{arguments:?}: {output}{error}");
        assert!(!key.exists(), "{arguments:?} created a key");
    }
    let (code, _, error) = said(&site.config, &[], &["secrets", "reseal"]).await;
    assert!(code == 1 && error.contains("there is no key here") && !key.exists(), "{error}");
    let _service = site.serve().await;
    assert!(key.exists());
}
