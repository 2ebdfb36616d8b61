//! Listens for invalidations from other replicas, on its own connection. While they do not arrive, the cache is suspended; when
//! they do again, everything cached is invalidated, because some may have been missed.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::{AsyncMessage, Client};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::address::Address;
use super::errors::SqlError;
use super::invalidation::{self, Origin};
use crate::Freshness;

/// How often the connection is probed. Together with the next value, this notices a broken connection within a second.
const PROBE_EVERY: Duration = Duration::from_millis(300);
/// How long an answer may take before the cache is suspended, because changes may not be arriving.
const PROMPT: Duration = Duration::from_millis(600);
/// How much longer an answer may take before another connection is tried as well.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long to wait before the next try, and how much longer at most, so that replicas do not all try at the same time.
const PAUSE: Duration = Duration::from_millis(150);
const SPREAD: u64 = 150;

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

    /// Starts listening; fails if it cannot.
    pub(super) async fn start(self) -> Result<(), String> {
        self.freshness.suspend();
        let connection = self.connect().await?;
        tokio::spawn(async move {
            let stop = self.stop.clone();
            stop.run_until_cancelled(self.run(connection)).await;
        });
        Ok(())
    }

    async fn run(&self, mut connection: ListenerConnection) {
        loop {
            let lost = self.probe_until_lost(&mut connection).await;
            self.freshness.suspend();
            let why = lost.as_ref().map_or("the database does not answer", String::as_str);
            warn!(
                why,
                "changes from other replicas are not arriving; reading everything from the database until they do"
            );
            connection = if lost.is_some() {
                drop(connection);
                self.reconnect().await
            } else {
                // The database may be dead, or busy. The connection that it answers on first is used.
                tokio::select! {
                    new = self.reconnect() => new,
                    () = answered(&connection) => {
                        // Messages arrive in order on the same connection: they may have been late, but none is missing.
                        self.freshness.resume();
                        connection
                    }
                }
            };
            info!("changes from other replicas are arriving again");
        }
    }

    async fn reconnect(&self) -> ListenerConnection {
        loop {
            sleep(PAUSE + Duration::from_millis(self.origin.spread(SPREAD))).await;
            if let Ok(connection) = self.connect().await {
                return connection;
            }
        }
    }

    /// Connects, listens, and resumes the cache: everything cached so far is invalidated, and changes from now on arrive.
    async fn connect(&self) -> Result<ListenerConnection, String> {
        let (client, mut connection) = self.address.connect().await.map_err(|error| error.to_string())?;
        let (freshness, origin) = (Arc::clone(&self.freshness), self.origin.clone());
        let reader = tokio::spawn(async move {
            loop {
                match poll_fn(|context| connection.poll_message(context)).await {
                    Some(Ok(AsyncMessage::Notification(heard))) => {
                        invalidation::apply(heard.payload(), &origin, &freshness);
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return SqlError::from(error).to_string(),
                    None => return "the connection was closed".to_owned(),
                }
            }
        });
        let connection = ListenerConnection { client, reader };
        let listening = format!("LISTEN {}", invalidation::CHANNEL);
        match timeout(self.address.patience(), connection.client.batch_execute(&listening)).await {
            Ok(listening) => listening.map_err(|error| SqlError::from(error).to_string())?,
            Err(_) => return Err("the database does not answer".to_owned()),
        }
        self.freshness.resume_invalidated();
        Ok(connection)
    }

    /// Probes the connection until it is lost, and returns why it is broken; `None` if it is only silent.
    async fn probe_until_lost(&self, connection: &mut ListenerConnection) -> Option<String> {
        let ListenerConnection { client, reader } = connection;
        let probing = async {
            loop {
                sleep(PROBE_EVERY).await;
                let answer = client.simple_query("");
                tokio::pin!(answer);
                let mut answered = self.within(PROMPT, answer.as_mut()).await;
                if answered.is_none() {
                    self.freshness.suspend();
                    answered = self.within(PATIENCE, answer.as_mut()).await;
                }
                match answered {
                    // Messages arrive in order on the same connection: they may have been late, but none is missing.
                    Some(Ok(_)) => self.freshness.resume(),
                    Some(Err(error)) => return Some(SqlError::from(error).to_string()),
                    None => return None,
                }
            }
        };
        tokio::select! {
            why = reader => Some(why.unwrap_or_else(|_| "the reader of its connection crashed".to_owned())),
            why = probing => why,
        }
    }

    /// The answer, if it comes within this time. With a test's clock, none is late: moving it while a busy machine took its
    /// time says nothing about the database.
    async fn within<T>(&self, limit: Duration, answer: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        if self.freshness.clock().is_manual() {
            return Some(answer.await);
        }
        timeout(limit, answer).await.ok()
    }
}

/// Returns when a silent connection answers; never if it is broken.
async fn answered(connection: &ListenerConnection) {
    if connection.client.simple_query("").await.is_err() {
        pending::<()>().await;
    }
}

/// A connection, and the task that reads from it.
struct ListenerConnection {
    client: Client,
    reader: JoinHandle<String>,
}

impl Drop for ListenerConnection {
    fn drop(&mut self) {
        self.reader.abort();
    }
}
