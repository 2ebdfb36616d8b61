//! A TCP proxy between a store and its server that fails on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_postgres::config::Host;

/// What happens to a new connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Behaviour {
    Pass,
    Close,
    /// It is accepted, and nothing is ever sent.
    Silent,
    /// It is forwarded only after this time.
    Late(Duration),
    /// The server answers with this error code.
    Says(&'static str),
}

pub(super) struct FaultyProxy {
    pub(super) port: u16,
    /// How many connections came that were not a listener's.
    pub(super) seen: Arc<AtomicUsize>,
    /// Whether anything is forwarded for listeners, and for new connections.
    pub(super) listeners: watch::Sender<bool>,
    pub(super) new_connections: watch::Sender<bool>,
    /// Whether anything is forwarded at all.
    pub(super) all: watch::Sender<bool>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Drop for FaultyProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

#[derive(Clone)]
struct Forwarder {
    target: Arc<tokio_postgres::Config>,
    seen: Arc<AtomicUsize>,
    listeners: watch::Receiver<bool>,
    new_connections: watch::Receiver<bool>,
    all: watch::Receiver<bool>,
}

impl FaultyProxy {
    /// In front of this URL's server. The behaviour of each connection is asked for by number.
    pub(super) async fn in_front_of(url: &str, behaviour: impl Fn(usize) -> Behaviour + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(AtomicUsize::new(0));
        let (listeners, new_connections, all) =
            (watch::Sender::new(true), watch::Sender::new(true), watch::Sender::new(true));
        let forwarder = Forwarder {
            target: Arc::new(url.parse().unwrap()),
            seen: Arc::clone(&seen),
            listeners: listeners.subscribe(),
            new_connections: new_connections.subscribe(),
            all: all.subscribe(),
        };
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            for number in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                connections.spawn(forwarder.clone().serve(stream, behaviour(number)));
            }
        });
        Self { port, seen, listeners, new_connections, all, accepting }
    }

    /// Another URL for the same database, through this proxy. Its password must never be shown.
    pub(super) fn url(&self, database: &str) -> String {
        let database: tokio_postgres::Config = database.parse().unwrap();
        let (user, name) = (database.get_user().unwrap(), database.get_dbname().unwrap());
        format!("postgres://{user}:hushhush@127.0.0.1:{}/{name}?sslmode=disable", self.port)
    }
}

impl Forwarder {
    async fn serve(self, mut client: TcpStream, behaviour: Behaviour) -> std::io::Result<()> {
        if matches!(behaviour, Behaviour::Close) {
            return Ok(());
        }
        let length = client.read_u32().await?;
        let mut hello = vec![0; length as usize - 4];
        client.read_exact(&mut hello).await?;
        let listens = hello.windows(10).any(|part| part == b" listener\0");
        if !listens {
            self.seen.fetch_add(1, Ordering::SeqCst);
        }
        match behaviour {
            Behaviour::Pass | Behaviour::Close => {}
            Behaviour::Silent => std::future::pending().await,
            Behaviour::Late(delay) => tokio::time::sleep(delay).await,
            Behaviour::Says(code) => {
                let fields = format!("SFATAL\0VFATAL\0C{code}\0Mit says {code}\0\0");
                client.write_u8(b'E').await?;
                client.write_u32(u32::try_from(fields.len() + 4).unwrap()).await?;
                return client.write_all(fields.as_bytes()).await;
            }
        }
        let passes = if listens { self.listeners.clone() } else { self.new_connections.clone() };
        open(&passes).await;
        // Once it has been forwarded, a connection is no longer new.
        let passes = if listens { passes } else { self.all.clone() };
        let port = self.target.get_ports().first().copied().unwrap_or(5432);
        match &self.target.get_hosts()[0] {
            Host::Tcp(host) => {
                let server = TcpStream::connect((host.as_str(), port)).await?;
                self.pass_on(client, server, length, &hello, passes).await
            }
            Host::Unix(folder) => {
                let server = UnixStream::connect(folder.join(format!(".s.PGSQL.{port}"))).await?;
                self.pass_on(client, server, length, &hello, passes).await
            }
        }
    }

    async fn pass_on(
        self,
        client: TcpStream,
        server: impl AsyncRead + AsyncWrite + Unpin,
        length: u32,
        hello: &[u8],
        passes: watch::Receiver<bool>,
    ) -> std::io::Result<()> {
        let (from_server, mut to_server) = tokio::io::split(server);
        let (from_client, to_client) = tokio::io::split(client);
        to_server.write_u32(length).await?;
        to_server.write_all(hello).await?;
        tokio::select! {
            end = pump(from_client, to_server, passes.clone(), self.all.clone()) => end,
            end = pump(from_server, to_client, passes, self.all) => end,
        }
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    passes: watch::Receiver<bool>,
    all: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let mut piece = vec![0; 16 << 10];
    loop {
        let length = from.read(&mut piece).await?;
        open(&passes).await;
        open(&all).await;
        if length == 0 {
            return Ok(());
        }
        to.write_all(&piece[..length]).await?;
    }
}

/// Waits until things are forwarded.
async fn open(passes: &watch::Receiver<bool>) {
    if passes.clone().wait_for(|passes| *passes).await.is_err() {
        // The test is over.
        std::future::pending::<()>().await;
    }
}
