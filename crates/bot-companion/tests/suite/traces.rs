//! Traces, as received by a collector.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use parking_lot::Mutex;
use reqwest::Method;
use runtime::clock::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::binary::{Running, command, config_file};
use crate::harness::{Folder, eventually, sandbox};

/// A collector that keeps what it is sent.
struct Collector {
    address: SocketAddr,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Collector {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received: Arc<Mutex<Vec<u8>>> = Arc::default();
        let all = Arc::clone(&received);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(receive(stream, Arc::clone(&all)));
            }
        });
        Self { address, received }
    }

    fn has(&self, bytes: &[u8]) -> bool {
        self.received.lock().windows(bytes.len()).any(|window| window == bytes)
    }
}

/// Accepts one request after the other, and says that each is fine.
async fn receive(mut stream: TcpStream, all: Arc<Mutex<Vec<u8>>>) {
    let mut unread = Vec::new();
    loop {
        let head = unread.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let length = head.map(|end| {
            let head = String::from_utf8(unread[..end].to_vec()).unwrap().to_lowercase();
            assert!(head.starts_with("post /v1/traces ") && head.contains("application/x-protobuf"), "{head}");
            let length = head.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
            end + 4 + length.trim().parse::<usize>().unwrap()
        });
        if let Some(length) = length.filter(|length| unread.len() >= *length) {
            all.lock().extend(unread.drain(..length));
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n")
                .await
                .unwrap();
        } else if !matches!(stream.read_buf(&mut unread).await, Ok(1..)) {
            return;
        }
    }
}

fn serve(config: &Path) -> Command {
    command(&["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()])
}

const TRACE: [u8; 16] = *b"\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c";
const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn a_collector_receives_a_span_per_request_and_per_call_of_the_provider() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let collector = Collector::start().await;
    let configuration =
        format!("otel.endpoint = \"http://{}\"\nhttp.trusted_proxies = [\"127.0.0.1\"]", collector.address);
    let mut service = Running::start(serve(&config_file(&folder, &provider, &configuration))).await;
    let client = service.client();
    let code = provider.issue_code("owner");
    let signed_in = client.post("/auth").header("Idp-Code", &code).send().await;
    let token = signed_in.data()["token"].as_str().unwrap().to_owned();
    let cached = client.call(Method::GET, "/?secret=hush").header("traceparent", PARENT).send().await;
    assert_eq!(client.get("/made/up").await.status, 404);
    eventually("the spans of what went on", async || collector.has(b"GET /")).await;
    assert_eq!(client.with_token(&token).get("/sessions").await.status, 200);
    // What is waiting is sent before the process ends.
    service.terminate();
    assert!(service.ended().await.success());
    for text in ["bot-companion", "POST /auth", "provider token", "provider user", "GET /sessions", "GET unknown"] {
        assert!(collector.has(text.as_bytes()), "{text}");
    }
    assert!(collector.has(&TRACE), "the proxy's trace goes on");
    for answer in [&signed_in, &cached] {
        assert!(collector.has(answer.header("x-request-id").as_bytes()), "the id");
    }
    for secret in [code.as_str(), &token, "hush", "made/up"] {
        assert!(!collector.has(secret.as_bytes()), "a secret, or what a stranger made up");
    }
}

#[tokio::test]
async fn a_trace_of_a_stranger_is_not_continued_and_a_collector_that_is_away_harms_nobody() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let collector = Collector::start().await;
    let configuration = format!("otel.endpoint = \"http://{}\"", collector.address);
    let mut service = Running::start(serve(&config_file(&folder, &provider, &configuration))).await;
    let ask = |service: &Running| service.client().call(Method::GET, "/").header("traceparent", PARENT).send();
    assert_eq!(ask(&service).await.status, 200);
    service.terminate();
    assert!(service.ended().await.success());
    assert!(collector.has(b"GET /") && !collector.has(&TRACE));

    // Nobody listens on a port that was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let configuration = format!("otel.endpoint = \"http://{free}\"");
    let mut service = Running::start(serve(&config_file(&folder, &provider, &configuration))).await;
    assert_eq!(ask(&service).await.status, 200);
    service.terminate();
    assert!(service.ended().await.success());
}
