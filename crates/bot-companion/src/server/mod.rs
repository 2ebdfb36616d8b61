//! The sockets: one thread, runtime and listening socket a core; every wait on a connection has a bound; a drain finishes what
//! is in flight.

mod backlog;
mod connection;
mod entry;
mod listen;
mod registry;
mod tls;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, info, warn};

pub use listen::{ListenError, bind};
pub use tls::{TlsError, acceptor};

use crate::http::HttpService;
use connection::Front;
use registry::Registry;

/// How often connections are looked at for having waited too long.
const REAP_EVERY: Duration = Duration::from_millis(500);
/// How long after a drain began a request still counts as sent before it.
const SETTLING: Duration = Duration::from_millis(100);
/// How long accepting pauses when the system has no more file descriptors.
const BREATHER: Duration = Duration::from_millis(50);

/// Serves until `shutdown` comes. Then, for as long as the setting says, it only tells balancers to send nothing more; then it
/// drains: nothing new is accepted, what is in flight is finished within the limit, the app is closed. Each listener gets a thread
/// of its own.
pub async fn run(
    listeners: Vec<TcpListener>,
    tls: Option<tokio_rustls::TlsAcceptor>,
    service: HttpService,
    shutdown: impl Future<Output = ()>,
) {
    let app = Arc::clone(service.app());
    let (delay, limit) = (app.config.limits.drain_delay, app.config.limits.drain_timeout);
    let registry = Registry::new(&app.config, app.clock.clone());
    let front = Arc::new(Front::new(service, tls, registry));
    let house = app.run_periodic_tasks();
    let warming = app.keep_warm();
    let reaper = tokio::spawn(reap(Arc::clone(&front)));
    let stop = CancellationToken::new();
    let workers: Vec<_> =
        listeners.into_iter().map(|listener| worker(listener, Arc::clone(&front), stop.clone(), limit)).collect();
    shutdown.await;
    app.begin_shutdown();
    if !delay.is_zero() {
        info!("stopping: requests are still taken for {delay:?}, and /ready says that no more should come");
        tokio::time::sleep(delay).await;
    }
    info!("draining: finishing what is in flight");
    stop.cancel();
    // What a client has sent by now may not have been read yet; closing its connection would break a request sent in time.
    tokio::time::sleep(SETTLING).await;
    front.registry.drain();
    for worker in workers {
        // An error means that the thread crashed; its connections are gone either way.
        if worker.await.is_err() {
            error!("a worker crashed");
        }
    }
    reaper.abort();
    house.abort();
    warming.abort();
    app.close(limit).await;
    info!("stopped");
}

/// Starts a thread that accepts and serves connections; the receiver hears when it has drained.
fn worker(
    listener: TcpListener,
    front: Arc<Front>,
    stop: CancellationToken,
    drain_limit: Duration,
) -> oneshot::Receiver<()> {
    let (done, waits) = oneshot::channel();
    let work = move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return error!(%error, "a worker cannot start"),
        };
        runtime.block_on(async {
            match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => serve(listener, front, stop, drain_limit).await,
                Err(error) => error!(%error, "a listening socket cannot be used"),
            }
        });
        runtime.shutdown_background();
        // Nobody waits any more only if the whole server was dropped.
        let _ = done.send(());
    };
    if let Err(error) = thread::Builder::new().name("companion-web".to_owned()).spawn(work) {
        error!(%error, "a worker's thread cannot start");
    }
    waits
}

async fn serve(listener: tokio::net::TcpListener, front: Arc<Front>, stop: CancellationToken, drain_limit: Duration) {
    let connections = TaskTracker::new();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => welcome(stream, peer, &front, &connections),
                Err(error) => accept_failed(&error, &front).await,
            },
        }
    }
    // Connections that the system has accepted for us already would be reset by closing the socket. The runtime may not have
    // heard of the latest yet, so the socket itself is asked.
    let queued =
        listener.into_std().into_iter().flat_map(|listener| std::iter::from_fn(move || listener.accept().ok()));
    for (stream, peer) in queued {
        if stream.set_nonblocking(true).is_ok()
            && let Ok(stream) = tokio::net::TcpStream::from_std(stream)
        {
            welcome(stream, peer, &front, &connections);
        }
    }
    connections.close();
    if tokio::time::timeout(drain_limit, connections.wait()).await.is_err() {
        warn!(left = connections.len(), "some requests did not finish in time and are cut");
    }
}

/// Sends slow connections away.
async fn reap(front: Arc<Front>) {
    let mut pace = tokio::time::interval(REAP_EVERY);
    loop {
        pace.tick().await;
        front.registry.reap();
    }
}

fn welcome(stream: tokio::net::TcpStream, peer: SocketAddr, front: &Arc<Front>, connections: &TaskTracker) {
    let Some(entry) = front.registry.enter(peer.ip()) else { return };
    // Without it the last packet of an answer may wait for the client's acknowledgement.
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "a connection was gone before it was served");
        return front.registry.leave(&entry);
    }
    let task = connections.spawn(Arc::clone(front).serve(stream, peer, Arc::clone(&entry)));
    entry.belongs_to(task.abort_handle());
}

/// Nothing that goes wrong with accepting one connection ends the loop.
async fn accept_failed(error: &std::io::Error, front: &Front) {
    let exhausted = matches!(error.raw_os_error(), Some(23 | 24 | 12 | 105));
    if exhausted {
        warn!(%error, "no room for another connection; letting an idle one go");
        front.registry.make_room();
        tokio::time::sleep(BREATHER).await;
    } else {
        debug!(%error, "a connection was gone before it was accepted");
    }
}
