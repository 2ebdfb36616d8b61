//! A connection whose every byte the test controls, for what no real client would do.

use std::net::SocketAddr;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Answer, PATIENCE, TestApp};

/// How long the service may take to notice that the clock moved, before it is moved again.
const NOTICED: Duration = Duration::from_secs(3);

/// A bare connection to the service.
pub struct Wire {
    stream: TcpStream,
    /// What has arrived but was not requested yet.
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

    /// The next header block, without the body that it may announce; `None` if the service closed the connection instead.
    pub async fn head(&mut self) -> Option<Answer> {
        let head = loop {
            if let Some(end) = self.unread.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break self.unread.drain(..end + 4).collect::<Vec<_>>();
            }
            if !self.receive().await {
                assert!(self.unread.is_empty(), "half an answer: {}", String::from_utf8_lossy(&self.unread));
                return None;
            }
        };
        let head = String::from_utf8(head).unwrap();
        let (first, rest) = head.split_once("\r\n").unwrap();
        let status = first.split(' ').nth(1).unwrap().parse().unwrap();
        let headers: HeaderMap = rest
            .lines()
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap()))
            .collect();
        Some(Answer { status, headers, body: Vec::new(), version: reqwest::Version::HTTP_11 })
    }

    /// The next whole answer; `None` if the service closed the connection instead. An incomplete answer fails the test.
    pub async fn answer(&mut self) -> Option<Answer> {
        let head = self.head().await?;
        let length = if head.has("content-length") { head.header("content-length").parse().unwrap() } else { 0 };
        while self.unread.len() < length {
            assert!(self.receive().await, "the body breaks off");
        }
        Some(Answer { body: self.unread.drain(..length).collect(), ..head })
    }

    /// Everything else that comes until the service closes the connection.
    pub async fn rest(mut self) -> String {
        while self.receive().await {}
        String::from_utf8_lossy(&self.unread).into_owned()
    }

    /// Moves the clock in steps until the service closes the connection, at most this many times. Several, because the wait
    /// begins when the service sees the connection, which may be after the first step.
    pub async fn sent_away(&mut self, app: &TestApp, step: Duration, times: usize) {
        for turn in 1..=times {
            app.clock.advance(step);
            let patience = if turn == times { PATIENCE } else { NOTICED };
            if let Ok(more) = tokio::time::timeout(patience, self.receive()).await {
                assert!(!more, "an answer nobody asked for: {}", String::from_utf8_lossy(&self.unread));
                return;
            }
        }
        panic!("the connection is still open after {:?}", step * u32::try_from(times).unwrap());
    }

    /// Reads what there is; `false` at the end, or after a reset.
    async fn receive(&mut self) -> bool {
        let read = tokio::time::timeout(2 * PATIENCE, self.stream.read_buf(&mut self.unread));
        matches!(read.await.expect("neither a byte nor the end came"), Ok(count) if count > 0)
    }
}

/// A request's bytes, with these extra headers (each with its line end).
pub fn request(method: &str, path: &str, headers: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: suite\r\n{headers}\r\n")
}
