//! The queue of feedback and its results.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;

/// A user's feedback about the bot.
#[derive(Clone, Debug, Serialize)]
pub struct Feedback {
    /// Your ID for it, 1 to 64 characters; sending it again replaces the entry.
    pub id: String,
    /// The text, up to 4,000 characters.
    #[serde(rename = "feedback")]
    pub text: String,
    /// 1 to 5.
    pub rating: u8,
    /// Epoch seconds; `None` for now.
    pub timestamp: Option<f64>,
    /// Who wrote it.
    pub submitter: Submitter,
}

/// Who gives feedback.
#[derive(Clone, Debug, Serialize)]
pub struct Submitter {
    /// The user's ID.
    pub id: String,
    /// The username on the platform.
    pub username: String,
    /// The name to show; `None` for the username.
    pub name: Option<String>,
    /// A URL; `None` for the default image.
    pub avatar: Option<String>,
}

/// The outcome of a feedback call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The service has it.
    Delivered,
    /// The service does not have it; the text says why.
    NotDelivered(String),
}

impl Delivery {
    /// Whether the service has it.
    pub fn is_delivered(&self) -> bool {
        *self == Self::Delivered
    }
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delivered => f.write_str("delivered"),
            Self::NotDelivered(reason) => write!(f, "not delivered: {reason}"),
        }
    }
}

/// Resolves to the [`Delivery`]. You can drop it; the feedback is sent anyway.
#[derive(Debug)]
pub struct PendingDelivery(oneshot::Receiver<Delivery>);

impl PendingDelivery {
    /// The outcome, if it is known by now.
    pub fn now(&mut self) -> Option<Delivery> {
        match self.0.try_recv() {
            Ok(delivery) => Some(delivery),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(closed()),
        }
    }
}

impl Future for PendingDelivery {
    type Output = Delivery;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Delivery> {
        Pin::new(&mut self.0).poll(context).map(|delivery| delivery.unwrap_or_else(|_| closed()))
    }
}

fn closed() -> Delivery {
    Delivery::NotDelivered("closed".to_owned())
}

/// An entry that is waiting or being sent.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The line of the events request.
    pub(crate) line: String,
    /// Its name in the log.
    pub(crate) about: String,
    /// Its number in the spool.
    pub(crate) spooled: Option<u64>,
    result: Option<oneshot::Sender<Delivery>>,
}

impl Entry {
    pub(crate) fn new(line: String, about: String) -> (Self, PendingDelivery) {
        let (sender, receiver) = oneshot::channel();
        (Self { line, about, spooled: None, result: Some(sender) }, PendingDelivery(receiver))
    }

    /// An entry left by an earlier process.
    pub(crate) fn from_spool(number: u64, line: String) -> Self {
        Self { line, about: "feedback from an earlier start".to_owned(), spooled: Some(number), result: None }
    }

    /// Reports the outcome.
    pub(crate) fn end(mut self, delivery: Delivery) {
        if let Some(result) = self.result.take() {
            let _ = result.send(delivery);
        }
    }
}

/// The line of an entry, and its name in the log. `now` is its time if it has none, in epoch seconds.
pub(crate) fn feedback_line(entry: &impl Serialize, now: f64) -> Result<(String, String), String> {
    match serde_json::to_value(entry) {
        Ok(Value::Object(mut fields)) => {
            let about = format!("feedback {}", fields.get("id").unwrap_or(&Value::Null));
            fields.insert("type".to_owned(), "feedback".into());
            if fields.get("timestamp").is_none_or(Value::is_null) {
                fields.insert("timestamp".to_owned(), now.floor().into());
            }
            Ok((Value::Object(fields).to_string(), about))
        }
        Ok(_) => Err("it is not an object".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The line that withdraws an entry.
pub(crate) fn feedback_gone_line(id: &str) -> String {
    serde_json::json!({"type": "feedback_gone", "id": id}).to_string()
}

/// Waiting entries, in order.
pub(crate) type Queue = VecDeque<Entry>;

/// Puts entries before all others, keeping their order.
pub(crate) fn put_first(queue: &mut Queue, entries: impl DoubleEndedIterator<Item = Entry>) {
    entries.rev().for_each(|entry| queue.push_front(entry));
}
