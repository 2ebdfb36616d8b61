//! Cases that take a clock, a neighbour or an operator to go wrong at just the wrong moment.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::harness::{Client, Folder};

#[tokio::test]
async fn the_service_outlives_whoever_reads_its_log() {
    let folder = Folder::new();
    let service = Command::new(env!("CARGO_BIN_EXE_bot-companion"))
        .args(["dev", "--listen", "127.0.0.1:0", "--data"])
        .arg(folder.path().join("dev"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut service = Process(service);
    drop(service.0.stderr.take());
    let said = BufReader::new(service.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let address =
        said.into_iter().find_map(|line| line.trim().strip_prefix("service").map(|url| url.trim().to_owned()));
    let client = Client::new(address.unwrap().trim_end_matches('/').to_owned());
    for _ in 0..2 {
        // Each is noted in the log.
        assert_eq!(client.post("/auth").header("Idp-Code", "owner").send().await.status, 200);
        assert_eq!(client.post("/auth").header("Idp-Code", "nonsense").send().await.status, 502);
    }
    assert!(Command::new("kill").arg(service.0.id().to_string()).status().unwrap().success());
    assert!(service.0.wait().unwrap().success(), "it drained");
}

/// A process that does not outlive its test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
