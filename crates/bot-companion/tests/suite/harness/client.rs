//! A real HTTP client, and a bare socket for what no client would send.

use std::io::Read as _;
use std::net::SocketAddr;

use domain::Permission;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{PATIENCE, documented};

/// Someone who calls the service.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
}

/// A request under construction.
pub struct Call(reqwest::RequestBuilder);

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    pub version: reqwest::Version,
}

impl Client {
    pub fn new(base: String) -> Self {
        let http = reqwest::Client::builder()
            .no_proxy()
            // Moving the clock makes idle connections overdue, and a reused one could be closed during the next request.
            .pool_max_idle_per_host(0)
            .redirect(reqwest::redirect::Policy::none())
            // The service's certificate is made for the test.
            .danger_accept_invalid_certs(true)
            .build()
            .unwrap();
        Self { http, base, token: None }
    }

    /// The same client with this session.
    pub fn with_token(&self, token: impl Into<String>) -> Self {
        Self { token: Some(token.into()), ..self.clone() }
    }

    pub fn token(&self) -> &str {
        self.token.as_deref().unwrap()
    }

    pub fn call(&self, method: Method, path: &str) -> Call {
        let request = self.http.request(method, format!("{}{path}", self.base));
        Call(match &self.token {
            Some(token) => request.header("Token", token),
            None => request,
        })
    }

    pub fn post(&self, path: &str) -> Call {
        self.call(Method::POST, path)
    }

    pub fn delete(&self, path: &str) -> Call {
        self.call(Method::DELETE, path)
    }

    /// A plain `GET`.
    pub async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path).send().await
    }

    /// The guilds, which must be available.
    pub async fn guilds(&self) -> Vec<Value> {
        let answer = self.get("/guilds").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.data().as_array().unwrap().clone()
    }
}

impl Call {
    pub fn header(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        Self(self.0.header(name, value.as_ref()))
    }

    pub fn body(self, body: impl Into<reqwest::Body>) -> Self {
        Self(self.0.body(body))
    }

    pub async fn send(self) -> Answer {
        self.try_send().await.unwrap()
    }

    /// The status alone, without waiting for the end of the body.
    pub async fn status(self) -> u16 {
        self.0.send().await.unwrap().status().as_u16()
    }

    /// The answer, which must match the OpenAPI document.
    pub async fn try_send(self) -> reqwest::Result<Answer> {
        let (client, request) = self.0.build_split();
        let request = request?;
        let (method, path) = (request.method().clone(), request.url().path().to_owned());
        let response = client.execute(request).await?;
        let answer = Answer {
            status: response.status().as_u16(),
            version: response.version(),
            headers: response.headers().clone(),
            body: response.bytes().await?.to_vec(),
        };
        documented::check(&method, &path, &answer);
        Ok(answer)
    }
}

impl Call {
    /// Opens a live stream, which must succeed.
    pub async fn open(self) -> LiveStream {
        let response = self.0.send().await.unwrap();
        assert_eq!(response.status(), 200);
        LiveStream { headers: response.headers().clone(), response, unread: String::new() }
    }
}

pub struct LiveStream {
    pub headers: HeaderMap,
    response: reqwest::Response,
    unread: String,
}

impl LiveStream {
    /// The next message, an event or a comment; `None` at the end.
    pub async fn message(&mut self) -> Option<String> {
        loop {
            if let Some((message, rest)) = self.unread.split_once("\n\n") {
                let (message, rest) = (message.to_owned(), rest.to_owned());
                self.unread = rest;
                return Some(message);
            }
            let chunk = tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("no message came");
            let Some(bytes) = chunk.unwrap() else {
                assert_eq!(self.unread, "", "half a message");
                return None;
            };
            self.unread.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    /// The topics of the next event, which must be `changed`; comments do not count.
    pub async fn changed(&mut self) -> Vec<String> {
        loop {
            let message = self.message().await.expect("the stream ended");
            if message == ":" {
                continue;
            }
            let event = message.rsplit_once("event: changed\ndata: ").unwrap_or_else(|| panic!("{message}")).1;
            let data: Value = serde_json::from_str(event).unwrap();
            let topics = data["changed"].as_array().unwrap().iter();
            return topics.map(|topic| topic.as_str().unwrap().to_owned()).collect();
        }
    }
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// The text of a body that came compressed.
    pub fn decompressed(&self) -> String {
        assert_eq!(self.header("content-encoding"), "gzip");
        let mut text = String::new();
        flate2::read::GzDecoder::new(&self.body[..]).read_to_string(&mut text).unwrap();
        text
    }

    /// The whole envelope, after checking what holds for every one.
    pub fn envelope(&self) -> Value {
        let envelope: Value = serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()));
        assert_eq!(self.header("content-type"), "application/json");
        assert_eq!(envelope["code"], self.status, "the status is the code");
        assert!(envelope["message"].is_string() && (envelope["data"].is_object() || envelope["data"].is_array()));
        assert!(
            self.text().starts_with(&format!("{{\"code\":{},\"message\":", self.status)),
            "the order: {}",
            self.text()
        );
        envelope
    }

    pub fn data(&self) -> Value {
        self.envelope()["data"].clone()
    }

    /// The stable code of an error, after checking what holds for every error.
    pub fn error(&self) -> String {
        let envelope = self.envelope();
        let data = &envelope["data"];
        assert!(self.status >= 400, "no error: {}", self.text());
        assert_eq!(data["request_id"], self.header("x-request-id"), "one id in body and header");
        assert_eq!(self.header("cache-control"), "no-store");
        if self.has("retry-after") {
            let seconds = self.header("retry-after");
            let wait = format!(" again in {seconds} {}.", if seconds == "1" { "second" } else { "seconds" });
            assert!(envelope["message"].as_str().unwrap().ends_with(&wait), "{wait}: {envelope}");
        }
        data["error"].as_str().unwrap().to_owned()
    }

    /// Checks that this is that error, and returns it for a closer look.
    #[track_caller]
    pub fn refused(self, status: u16, error: &str) -> Self {
        assert_eq!((self.status, self.error().as_str()), (status, error), "{}", self.text());
        self
    }

    /// The seconds after which a client should come back: at least one.
    #[track_caller]
    pub fn retry_after(&self) -> u64 {
        let seconds = self.header("retry-after").parse().unwrap();
        assert!(seconds >= 1, "a client that obeys would come back at once");
        seconds
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name}: {:?}", self.headers)).to_str().unwrap()
    }

    pub fn has(&self, name: &str) -> bool {
        self.headers.contains_key(name)
    }
}

/// Sends exactly these bytes on a new connection and returns everything that comes back until the service closes it.
pub async fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    // A reset after the answer is as good as a close.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("it stays open");
    String::from_utf8_lossy(&answer).into_owned()
}

/// The names of these guilds, in order.
pub fn names(guilds: &[Value]) -> Vec<&str> {
    guilds.iter().map(|entry| entry["name"].as_str().unwrap()).collect()
}

/// The permissions that are true in this entry, in the specification's order, after checking that all keys are present.
pub fn true_keys(entry: &Value) -> Vec<&'static str> {
    let keys = entry["permissions"].as_object().unwrap();
    assert_eq!(keys.len(), Permission::ALL.len());
    let all = Permission::ALL.into_iter().map(Permission::name);
    all.filter(|key| keys[*key].as_bool().unwrap()).collect()
}
