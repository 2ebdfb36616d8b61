//! Hears what other replicas change, on a connection of its own. While it does not hear, the freshness is in doubt; when it hears
//! again, whatever was missed is read anew.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::{AsyncMessage, Client};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::address::Address;
use super::errors::SqlError;
use super::notice::{self, Origin};
use crate::store::Freshness;

/// How often the line is tried. With the next it makes sure that a second after the line broke, it is known.
const PROBE_EVERY: Duration = Duration::from_millis(300);
/// How long an answer may take before it is doubtful whether changes are heard.
const PROMPT: Duration = Duration::from_millis(600);
/// How long an answer may take, after that, before another line is tried beside this one.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait before the next try, and how much longer at most, so that replicas do not come all at once.
const PAUSE: Duration = Duration::from_millis(150);
const SPREAD: u64 = 150;

/// The listener, until it is stopped.
pub(super) struct Listener {
    address: Address,
    freshness: Arc<Freshness>,
    origin: Origin,
    stop: CancellationToken,
}

impl Listener {
    pub(super) fn new(address: Address, freshness: Arc<Freshness>, origin: Origin, stop: CancellationToken) -> Self {
        Self { address: address.named("listener"), freshness, origin, stop }
    }

    /// Begins to listen; fails if it cannot.
    pub(super) async fn start(self) -> Result<JoinHandle<()>, String> {
        self.freshness.suspend();
        let line = self.connect().await?;
        Ok(tokio::spawn(async move {
            let stop = self.stop.clone();
            stop.run_until_cancelled(self.run(line)).await;
        }))
    }

    async fn run(&self, mut line: Line) {
        loop {
            let lost = self.stay(&mut line).await;
            self.freshness.suspend();
            let why = lost.as_ref().map_or("the database does not answer", String::as_str);
            warn!(why, "changes of other replicas cannot be heard; reading everything anew until they can");
            line = if lost.is_some() {
                drop(line);
                self.reconnect().await
            } else {
                // The database may be dead, or have much to do. Whichever line it answers first is the better one.
                tokio::select! {
                    new = self.reconnect() => new,
                    () = answers(&line) => {
                        // Notices come in order, on the same line: they may have been late, but none is missing.
                        self.freshness.resume();
                        line
                    }
                }
            };
            info!("changes of other replicas are heard again");
        }
    }

    async fn reconnect(&self) -> Line {
        loop {
            sleep(PAUSE + Duration::from_millis(self.origin.spread(SPREAD))).await;
            if let Ok(line) = self.connect().await {
                return line;
            }
        }
    }

    /// Connects, listens, and ends the doubt: what was missed until now is read anew, what comes from now on is heard.
    async fn connect(&self) -> Result<Line, String> {
        let (client, mut connection) = self.address.connect().await.map_err(|error| error.to_string())?;
        let (freshness, origin) = (Arc::clone(&self.freshness), self.origin.clone());
        let reader = tokio::spawn(async move {
            loop {
                match poll_fn(|context| connection.poll_message(context)).await {
                    Some(Ok(AsyncMessage::Notification(heard))) => notice::heed(heard.payload(), &origin, &freshness),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return SqlError::from(error).to_string(),
                    None => return "the connection was closed".to_owned(),
                }
            }
        });
        let line = Line { client, reader };
        let listening = format!("LISTEN {}", notice::CHANNEL);
        match timeout(self.address.patience(), line.client.batch_execute(&listening)).await {
            Ok(listening) => listening.map_err(|error| SqlError::from(error).to_string())?,
            Err(_) => return Err("the database does not answer".to_owned()),
        }
        self.freshness.resume_invalidated();
        Ok(line)
    }

    /// Stays on the line for as long as it is good, and says why it is broken; nothing if it is only silent.
    async fn stay(&self, line: &mut Line) -> Option<String> {
        let Line { client, reader } = line;
        let probing = async {
            loop {
                sleep(PROBE_EVERY).await;
                let answer = client.simple_query("");
                tokio::pin!(answer);
                let mut answered = timeout(PROMPT, &mut answer).await;
                if answered.is_err() {
                    self.freshness.suspend();
                    answered = timeout(PATIENCE, &mut answer).await;
                }
                match answered {
                    // Notices come in order, on the same line: they may have been late, but none is missing.
                    Ok(Ok(_)) => self.freshness.resume(),
                    Ok(Err(error)) => return Some(SqlError::from(error).to_string()),
                    Err(_) => return None,
                }
            }
        };
        tokio::select! {
            why = reader => Some(why.unwrap_or_else(|_| "the reader of its connection crashed".to_owned())),
            why = probing => why,
        }
    }
}

/// Comes back when a line that was silent answers; never if it is broken.
async fn answers(line: &Line) {
    if line.client.simple_query("").await.is_err() {
        pending::<()>().await;
    }
}

/// A connection, and the task that reads from it.
struct Line {
    client: Client,
    reader: JoinHandle<String>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.reader.abort();
    }
}
