//! Keys and imports on the command line, while the service runs.

use std::path::Path;

use reqwest::Method;
use serde_json::json;

use crate::harness::binary::{Running, command, config_file, run};
use crate::harness::{Client, Folder, TestApp, eventually};

/// Runs a command with this configuration, and returns whether it succeeded and both outputs.
async fn said(config: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = command(arguments);
    command.arg("--config").arg(config);
    let output = run(command).await;
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

async fn state(client: &Client, key: &str) -> u16 {
    let call = client.call(Method::GET, "/bot/state").header("Authorization", format!("Bearer {key}"));
    call.send().await.status
}

#[tokio::test]
async fn keys_are_made_listed_and_revoked_beside_the_running_service() {
    let (provider, folder) = (TestApp::start().await, Folder::new());
    let config = config_file(&folder, &provider.sandbox, "");
    let (made, text) = said(&config, &["key", "create", "--label", "my \u{1b}bot"]).await;
    assert!(made, "{text}");
    let key = text.lines().find(|line| line.starts_with("bck_")).unwrap().to_owned();
    let id = text.split_whitespace().nth(2).unwrap().trim_end_matches('.').to_owned();
    let service = Running::start({
        let mut command = command(&["serve", "--listen", "127.0.0.1:0"]);
        command.arg("--config").arg(&config);
        command
    })
    .await;
    assert_eq!(state(&service.client(), &key).await, 200);
    let (_, listed) = said(&config, &["key", "list"]).await;
    assert!(listed.contains(&id) && listed.contains("my \\u{1b}bot") && !listed.contains(&key), "{listed}");
    let (revoked, text) = said(&config, &["key", "revoke", &id]).await;
    assert!(revoked, "{text}");
    eventually("the service notices", async || state(&service.client(), &key).await == 401).await;
    let (again, text) = said(&config, &["key", "revoke", &id]).await;
    assert!(!again && text.contains("key list"), "{text}");
}

#[tokio::test]
async fn a_team_is_imported_and_exported() {
    let (provider, folder) = (TestApp::start().await, Folder::new());
    let config = config_file(&folder, &provider.sandbox, "");
    assert!(said(&config, &["key", "create", "--label", "x"]).await.0);
    let file = folder.path().join("team.toml");
    let path = file.to_str().unwrap();
    let member = "[[members]]\nusername = 'ann'\nname = 'Ann'\ndiscord_id = '77'\nrole = 'Helper'\ncolor = '#5865F2'\n\
        category = 'support'\nposition = 1\npermissions = ['SUPPORT']\n";
    std::fs::write(&file, member.replace("#5865F2", "red")).unwrap();
    let (fine, text) = said(&config, &["team", "import", path]).await;
    assert!(!fine && text.contains("Member 1: `color` must be"), "{text}");
    std::fs::write(&file, member.replace("category", "catgeory")).unwrap();
    let (fine, text) = said(&config, &["team", "import", path]).await;
    assert!(!fine && text.contains("Member 1: `catgeory` is not a field; did you mean `category`?"), "{text}");
    std::fs::write(&file, member).unwrap();
    let (fine, text) = said(&config, &["team", "import", path, "--dry-run"]).await;
    assert!(fine && text.contains("Nothing was changed"), "{text}");
    assert!(said(&config, &["team", "import", path]).await.0);
    for (format, name) in [("toml", "again.toml"), ("json", "again.json")] {
        let (fine, exported) = said(&config, &["team", "export", "--format", format]).await;
        assert!(fine && exported.contains("Ann"), "{exported}");
        let again = folder.path().join(name);
        std::fs::write(&again, &exported).unwrap();
        assert!(said(&config, &["team", "import", again.to_str().unwrap()]).await.0);
        assert_eq!(said(&config, &["team", "export", "--format", format]).await.1, exported);
    }
}

#[tokio::test]
async fn feedback_is_imported_with_a_report_of_what_was_refused() {
    let (provider, folder) = (TestApp::start().await, Folder::new());
    let config = config_file(&folder, &provider.sandbox, "");
    assert!(said(&config, &["key", "create", "--label", "x"]).await.0);
    let entry = |id: usize, rating| {
        json!({"id": id.to_string(), "feedback": "good", "rating": rating, "timestamp": 5,
            "submitter": {"id": "77", "username": "ann"}})
        .to_string()
    };
    let file = folder.path().join("said.ndjson");
    let path = file.to_str().unwrap();
    std::fs::write(&file, (0..1_500).map(|id| entry(id, 5) + "\n").collect::<String>() + &entry(0, 7)).unwrap();
    let (fine, text) = said(&config, &["feedback", "import", path, "--dry-run"]).await;
    assert!(!fine && text.contains("line 1501: `rating`") && text.contains("1500 entries would be imported"), "{text}");
    let (fine, text) = said(&config, &["feedback", "import", path]).await;
    assert!(!fine && text.contains("1500 entries imported, 1 line refused"), "{text}");
    let table = folder.path().join("said.csv");
    let head = "id,feedback,rating,timestamp,submitter_id,submitter_username\n";
    std::fs::write(&table, format!("{head}x,\"fine, thanks\",4,5,77,ann\n")).unwrap();
    let (fine, text) = said(&config, &["feedback", "import", table.to_str().unwrap()]).await;
    assert!(fine && text.contains("1 entry imported, 0 lines refused"), "{text}");
    let service = Running::start({
        let mut command = command(&["serve", "--listen", "127.0.0.1:0"]);
        command.arg("--config").arg(&config);
        command
    })
    .await;
    let stats = async || service.client().get("/stats").await.data()["feedback"].clone();
    assert_eq!(stats().await, json!({"count": 1_501, "average": 5.0}));
    std::fs::write(&table, format!("{head}x,no,1,5,77,ann\n0,no,1,5,77,ann\ny,no,1,5,77,ann\n")).unwrap();
    let (fine, text) = said(&config, &["feedback", "import", table.to_str().unwrap()]).await;
    assert!(fine && text.contains("3 entries imported"), "{text}");
    eventually("the service notices", async || stats().await == json!({"count": 1_502, "average": 4.99})).await;
    let (fine, text) = said(&config, &["feedback", "import", "/absent.csv"]).await;
    assert!(!fine && text.contains("cannot read /absent.csv"), "{text}");
}
