//! The service's side: pending requests, and the scenario's responses to them.

use std::sync::{Arc, Mutex};

use bot_companion_feed::{Body, Request, Response, Transport};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

type Answer = Result<Response, String>;

/// A request whose body is complete.
pub struct Arrived {
    pub name: String,
    pub sequence: Option<u64>,
    pub after: Option<u64>,
    pub body: String,
    answer: oneshot::Sender<Answer>,
}

impl Arrived {
    pub fn answer(self, answer: Answer) {
        let _ = self.answer.send(answer);
    }

    /// The body as JSON values, one per line.
    pub fn lines(&self) -> Result<Vec<Value>, String> {
        if !self.body.is_empty() && !self.body.ends_with('\n') {
            return Err(format!("the body does not end with a newline: {:?}", self.body));
        }
        self.body.lines().map(|line| serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))).collect()
    }
}

#[derive(Default)]
struct Inner {
    is_away: bool,
    expects_heartbeats: bool,
    arrived: Vec<Arrived>,
    /// Requests that are never answered.
    hung: Vec<Arrived>,
}

#[derive(Clone, Default)]
pub struct Service(Arc<Mutex<Inner>>);

impl Service {
    pub fn new(expects_heartbeats: bool) -> Self {
        Self(Arc::new(Mutex::new(Inner { expects_heartbeats, ..Inner::default() })))
    }

    pub fn set_away(&self, is_away: bool) {
        self.0.lock().unwrap().is_away = is_away;
    }

    /// Takes the pending request with this name; the error lists the others.
    pub fn take(&self, name: &str) -> Result<Arrived, String> {
        let mut inner = self.0.lock().unwrap();
        inner.arrived.retain(|request| !request.answer.is_closed());
        let index = inner.arrived.iter().position(|request| request.name == name);
        let names: Vec<&str> = inner.arrived.iter().map(|request| request.name.as_str()).collect();
        let index = index.ok_or_else(|| format!("{name} is not under way; these are: {names:?}"))?;
        Ok(inner.arrived.remove(index))
    }

    pub fn hang(&self, request: Arrived) {
        self.0.lock().unwrap().hung.push(request);
    }

    /// The pending requests.
    pub fn under_way(&self) -> Vec<String> {
        let mut inner = self.0.lock().unwrap();
        inner.arrived.retain(|request| !request.answer.is_closed());
        inner
            .arrived
            .iter()
            .map(|request| format!("{} {:?} {}", request.name, request.sequence, request.body))
            .collect()
    }
}

/// A response in the envelope.
pub fn envelope(status: u16, data: Value) -> Response {
    let data = match data {
        Value::Object(data) => data,
        _ => Map::new(),
    };
    Response { status, retry_after: None, data: Some(data) }
}

impl Transport for Service {
    fn send(&self, request: Request) -> BoxFuture<'static, Answer> {
        let service = self.clone();
        Box::pin(async move {
            let name = format!("{} {}", request.method, request.path);
            {
                let inner = service.0.lock().unwrap();
                if inner.is_away {
                    return Err("the service is away".to_owned());
                }
                if name == "PUT /bot/heartbeat" && !inner.expects_heartbeats {
                    return Ok(envelope(200, json!({})));
                }
            }
            let body = match request.body {
                Body::Json(body) | Body::Lines(body) => body,
                Body::Stream(lines) => lines.concat().await,
            };
            let (answer, answered) = oneshot::channel();
            let body = String::from_utf8(body).map_err(|error| error.to_string())?;
            let Request { sequence, after, .. } = request;
            service.0.lock().unwrap().arrived.push(Arrived { name, sequence, after, body, answer });
            answered.await.unwrap_or_else(|_| Err("lost".to_owned()))
        })
    }
}
