//! A connection of which every byte is the test's own, for what no real client would do.

use std::net::SocketAddr;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Answer, TestApp};

/// A test that waits longer than this for a byte waits in vain.
const PATIENCE: Duration = Duration::from_secs(30);

/// A bare connection to the service.
pub struct Wire {
    stream: TcpStream,
    /// What has arrived and was not asked for yet.
    unread: Vec<u8>,
}

impl Wire {
    pub async fn open(address: SocketAddr) -> Self {
        Self::try_open(address).await.unwrap()
    }

    pub async fn try_open(address: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, unread: Vec::new() })
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).await.unwrap();
    }

    pub async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.stream.write_all(bytes.as_ref()).await
    }

    /// A plain `GET`.
    pub async fn get(&mut self, path: &str) -> Answer {
        self.send(request("GET", path, "")).await;
        self.answer().await.unwrap_or_else(|| panic!("closed instead of answering GET {path}"))
    }

    /// Says that nothing more will be sent; answers can still be read.
    pub async fn half_close(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Everything up to the end of the next header block.
    pub async fn head(&mut self) -> String {
        self.try_head().await.expect("closed instead of answering")
    }

    async fn try_head(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.unread.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                return Some(String::from_utf8(self.unread.drain(..end + 4).collect()).unwrap());
            }
            if !self.receive().await {
                assert!(self.unread.is_empty(), "half an answer: {}", String::from_utf8_lossy(&self.unread));
                return None;
            }
        }
    }

    async fn body(&mut self, length: usize) -> Vec<u8> {
        while self.unread.len() < length {
            assert!(self.receive().await, "the body breaks off");
        }
        self.unread.drain(..length).collect()
    }

    /// The next header block, word for word, and as much of a body as it announces.
    pub async fn words(&mut self) -> (String, String) {
        let head = self.head().await;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let body = self.body(length.map_or(0, |length| length.parse().unwrap())).await;
        (head, String::from_utf8(body).unwrap())
    }

    /// The next whole answer; `None` if the service closed the connection instead. An answer that breaks off fails the test.
    pub async fn answer(&mut self) -> Option<Answer> {
        let head = self.try_head().await?;
        let (first, rest) = head.split_once("\r\n").unwrap();
        let status = first.split(' ').nth(1).unwrap().parse().unwrap();
        let headers: HeaderMap = rest
            .lines()
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap()))
            .collect();
        let length = headers.get("content-length").map_or(0, |length| length.to_str().unwrap().parse().unwrap());
        let body = self.body(length).await;
        Some(Answer { status, headers, body, version: reqwest::Version::HTTP_11 })
    }

    /// All that still comes until the service closes the connection.
    pub async fn rest(mut self) -> String {
        while self.receive().await {}
        String::from_utf8_lossy(&self.unread).into_owned()
    }

    /// Turns the clock in steps until the service closes the connection, at most this many times. Several, because the wait
    /// begins when the service sees the connection, which may be after the first turn.
    pub async fn sent_away(&mut self, app: &TestApp, step: Duration, times: usize) {
        for _ in 0..times {
            app.clock.advance(step);
            if let Ok(more) = tokio::time::timeout(Duration::from_secs(3), self.receive()).await {
                assert!(!more, "an answer nobody asked for: {}", String::from_utf8_lossy(&self.unread));
                return;
            }
        }
        panic!("the connection is still open after {:?}", step * u32::try_from(times).unwrap());
    }

    /// Reads what there is; `false` at the end, which a reset is as good as.
    async fn receive(&mut self) -> bool {
        let read = tokio::time::timeout(PATIENCE, self.stream.read_buf(&mut self.unread));
        matches!(read.await.expect("neither a byte nor the end came"), Ok(count) if count > 0)
    }
}

/// A request's bytes, with these further headers (each with its line's end).
pub fn request(method: &str, path: &str, headers: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: suite\r\n{headers}\r\n")
}
