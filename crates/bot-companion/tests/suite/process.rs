//! The process: the real binary, its signals, its crash, and the commands that act on a running service.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use provider::idp::Endpoint;
use reqwest::Method;
use runtime::clock::Clock;
use sandbox::people::{MEMBER, OWNER};

use crate::harness::binary::{Running, command, config_file, run};
use crate::harness::{CLIENT_SECRET, Client, Folder, ORIGIN, eventually, sandbox, sqlite_only};

fn serve(config: &Path) -> Command {
    command(&["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()])
}

async fn signed_in(client: &Client, code: &str) -> Client {
    let answer = client.post("/auth").header("Idp-Code", code).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    client.with_token(answer.data()["token"].as_str().unwrap())
}

#[tokio::test]
async fn asked_to_stop_it_finishes_what_is_in_flight_and_exits_with_0() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let mut service = Running::start(serve(&config_file(&folder, &provider, ""))).await;
    let hold = provider.hold(Endpoint::Token);
    let (client, code) = (service.client(), provider.issue_code("owner"));
    let in_flight = tokio::spawn(async move { client.post("/auth").header("Idp-Code", code).send().await });
    hold.arrived(1).await;
    service.terminate();
    eventually("the drain begins", async || service.logged().contains("draining")).await;
    hold.release();
    assert_eq!(in_flight.await.unwrap().status, 200);
    assert_eq!(service.ended().await.code(), Some(0));
    assert!(service.logged().contains("stopped"));
}

#[tokio::test]
async fn a_second_service_on_the_same_port_is_refused_and_told_what_to_do() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let first = Running::start(serve(&config)).await;
    let address = first.address.to_string();
    let second = run(command(&["serve", "--listen", &address, "--config", config.to_str().unwrap()])).await;
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("cannot listen on {address}")), "{said}");
    assert!(said.contains("http.listen (or --listen)"), "{said}");
    assert_eq!(first.client().get("/").await.status, 200);
}

#[tokio::test]
async fn the_database_and_its_key_are_for_their_owner_only() {
    sqlite_only!("its files are the server's, and the key is the operator's");
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let service = Running::start(serve(&config_file(&folder, &provider, ""))).await;
    signed_in(&service.client(), &provider.issue_code("owner")).await;
    for entry in std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with("data.db") {
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{name}");
        }
    }
    assert!(folder.path().join("data.db.key").exists() && folder.file().exists());
}

#[tokio::test]
async fn a_blocked_user_is_out_of_the_running_service_and_back_when_unblocked() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let service = Running::start(serve(&config)).await;
    let users = |arguments: &[&str]| {
        let users = command(&[&["users"], arguments, &["--config", config.to_str().unwrap()]].concat());
        async {
            let output = run(users).await;
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        }
    };
    let (owner_id, member_id) = (OWNER.to_string(), MEMBER.to_string());
    assert_eq!(users(&["blocked"]).await, "Nobody is blocked.\n");
    let owner = signed_in(&service.client(), &provider.issue_code("owner")).await;
    let member = signed_in(&service.client(), &provider.issue_code("member")).await;
    assert_eq!(owner.get("/guilds").await.status, 200);

    let said = users(&["block", &owner_id, "--reason", "spam"]).await;
    assert_eq!(said, format!("User {owner_id} is blocked; 1 session ended.\n"));
    eventually("the session is refused", async || owner.get("/guilds").await.status == 401).await;
    let refused = service.client().post("/auth").header("Idp-Code", provider.issue_code("owner")).send().await;
    assert_eq!((refused.status, refused.error().as_str()), (403, "user_blocked"));
    assert_eq!(member.get("/guilds").await.status, 200, "nobody else is touched");
    let listed = users(&["blocked"]).await;
    assert!(listed.starts_with(&owner_id) && listed.ends_with("spam\n"), "{listed}");

    assert_eq!(users(&["unblock", &member_id]).await, format!("User {member_id} was not blocked.\n"));
    assert_eq!(users(&["unblock", &owner_id]).await, format!("User {owner_id} may sign in again.\n"));
    let back = signed_in(&service.client(), &provider.issue_code("owner")).await;
    assert_eq!(back.get("/guilds").await.status, 200);
    assert_eq!(owner.get("/guilds").await.status, 401, "the old session stays ended");
}

#[tokio::test]
async fn the_log_of_a_whole_sign_in_holds_no_secret_and_no_colours() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let mut service = Running::start(serve(&config_file(&folder, &provider, ""))).await;
    let code = provider.issue_code("owner");
    let user = signed_in(&service.client(), &code).await;
    assert_eq!(user.get("/guilds").await.status, 200);
    assert_eq!(user.get("/sessions").await.status, 200);
    assert_eq!(user.delete("/auth").send().await.status, 200);
    service.terminate();
    assert!(service.ended().await.success());
    let log = service.logged();
    assert!(log.contains("TRACE") && log.lines().count() > 20, "a log at trace");
    let key = folder.key();
    let secrets = [code.as_str(), user.token(), CLIENT_SECRET, key.trim(), "sandboxaccess_", "sandboxrefresh_"];
    for (index, secret) in secrets.iter().enumerate() {
        assert!(!log.contains(secret), "secret {index} is logged in {}", service.log.display());
    }
    assert!(!log.contains('\u{1b}'), "colours in a file");
}

#[tokio::test]
async fn a_page_of_an_origin_that_is_not_listed_is_in_the_log_once() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let mut service = Running::start(serve(&config_file(&folder, &provider, ""))).await;
    let call = |origin: &'static str| service.client().call(Method::GET, "/guilds").header("Origin", origin);
    call(ORIGIN).send().await.refused(401, "token_missing");
    // A page of the service's own site.
    call("https://api.example").header("Sec-Fetch-Site", "same-origin").send().await.refused(401, "token_missing");
    for _ in 0..3 {
        call("https://staging.example").send().await.refused(401, "token_missing");
    }
    let public = service.client().call(Method::GET, "/team").header("Origin", "https://elsewhere.example");
    assert_eq!(public.send().await.status, 200);
    service.terminate();
    assert!(service.ended().await.success());
    let log = service.logged();
    let told: Vec<_> = log.lines().filter(|line| line.contains("http.allowed_origins")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("WARN") && told[0].contains("origin=https://staging.example"), "{}", told[0]);
}
