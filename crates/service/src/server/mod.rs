//! The sockets: one thread and runtime per core. Every wait on a connection has a timeout, and a drain finishes requests in
//! flight.

mod certificate;
mod certificate_watch;
mod connection;
mod hot_stream;
mod inherited;
mod listen;
mod registry;
mod state;
mod stream;
mod tls;
mod unix_socket;
mod unread;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures_util::future::join_all;
use runtime::liveness::Pulse;
use rustix::io::Errno;
use socket2::Socket;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, info, warn};

pub use certificate::CertificateFacts;
pub use certificate_watch::{CertificateWatch, WATCH_EVERY};
pub use inherited::{Inherited, InheritedError};
pub use listen::{ListenError, Listeners, bind, listen_advice, try_bind};
pub use tls::{CertifiedAcceptor, LoadedCertificate, TlsError, acceptor};

use crate::http::HttpService;
use connection::ConnectionServer;
use registry::Registry;
use stream::{ClientStream, RunningListener, set_nodelay};

/// How often connections that have waited too long are closed.
const REAP_EVERY: Duration = Duration::from_millis(500);
/// How long after the start of the drain a request still counts as sent before it.
const SETTLING_TIME: Duration = Duration::from_millis(100);
/// How many turns of a worker's runtime a newly accepted connection needs to read what is there.
const TURNS_TO_READ: usize = 4;
/// How many connections can make progress in one turn, at least; tokio runs 61 tasks before it looks for new events.
const CONNECTIONS_PER_TURN: usize = 32;
/// How long accepting pauses when the system is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why the service stopped on its own.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A core would have no thread to serve its connections.
    #[error("a worker thread could not start; see the log")]
    MissingWorker,
    /// Nobody can connect any more. Only a new process can listen there: its folder may have to be made again, too.
    #[error("the socket {} was deleted or replaced, so nobody can connect; restart the service", .0.display())]
    SocketLost(PathBuf),
}

/// Serves until `shutdown` resolves, which is polled once all threads serve. Then, for `limits.drain_delay`, it only tells load
/// balancers to send nothing more. Then it drains: it accepts nothing new, finishes requests in flight within
/// `limits.drain_timeout`, and closes the app. Each core has its own thread.
pub async fn run(
    listeners: Listeners,
    tls: Option<Arc<CertifiedAcceptor>>,
    service: HttpService,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let app = Arc::clone(service.app());
    let registry =
        Registry::new(&app.config, app.current.clone(), app.sources.clock.clone(), Arc::clone(&app.sources.metrics));
    let server = Arc::new(ConnectionServer::new(service, tls, registry));
    let mut tasks = JoinSet::new();
    app.start_tasks(&mut tasks);
    tasks.spawn(reap(Arc::clone(&server)));
    let pulse = app.liveness.watch("background");
    tasks.spawn(async move { pulse.answer().await });
    let stop = CancellationToken::new();
    let Listeners { cores, outlive_us, file, .. } = listeners;
    let takes_queued = !outlive_us;
    let mut workers: Vec<_> = cores
        .into_iter()
        .map(|listeners| {
            let pulse = app.liveness.watch("web");
            start_worker(listeners, Arc::clone(&server), WorkerControl { stop: stop.clone(), pulse, takes_queued })
        })
        .collect();
    let mut outcome = Ok(());
    for worker in &mut workers {
        outcome = outcome.and((&mut worker.started).await.map_err(|_| ServeError::MissingWorker));
    }
    if outcome.is_ok() {
        tokio::select! {
            () = shutdown => {}
            path = unix_socket::lost(file.as_ref()) => outcome = Err(ServeError::SocketLost(path)),
        }
    }
    if let Err(problem) = &outcome {
        error!(%problem, "the service can't go on and stops");
    }
    app.begin_shutdown();
    let delay = app.current.get().limits.drain_delay;
    if !delay.is_zero() {
        info!(
            "stopping: still taking requests for {delay:?}; /ready already fails, so that load balancers send no more"
        );
        tokio::time::sleep(delay).await;
    }
    info!("draining: finishing requests in flight");
    // A stream does not end on its own, so it is ended before waiting for anything.
    app.live.close();
    // Nobody can find the socket any more; clients that did are in its queue.
    drop(file);
    stop.cancel();
    // What a client has sent by now may not have been read yet, and closing its connection would break a request that was in
    // time. Each worker reports when it has read what was there, because on a busy machine having had the time does not mean
    // that it did.
    let mut drained = Vec::new();
    for Worker { settled, done, .. } in workers {
        // An error means that the thread panicked, which is reported below, or never started.
        let _ = settled.await;
        drained.push(done);
    }
    server.registry.drain();
    for done in drained {
        // An error means that the thread panicked; its connections are gone either way.
        if done.await.is_err() && outcome.is_ok() {
            error!("a worker crashed");
        }
    }
    tasks.abort_all();
    let limit = server.drain_timeout();
    app.close(limit).await;
    info!("stopped");
    outcome
}

/// A thread that accepts and serves connections.
struct Worker {
    /// Resolves when it accepts connections.
    started: oneshot::Receiver<()>,
    /// Resolves when it accepts nothing more and has read what clients had sent by then.
    settled: oneshot::Receiver<()>,
    /// Resolves when it has drained.
    done: oneshot::Receiver<()>,
}

/// A worker's instructions and replies.
struct WorkerControl {
    stop: CancellationToken,
    pulse: Pulse,
    /// Whether it serves what is left in its sockets' queues when it stops.
    takes_queued: bool,
}

fn start_worker(listeners: Vec<Socket>, server: Arc<ConnectionServer>, control: WorkerControl) -> Worker {
    let (done, is_done) = oneshot::channel();
    let (settled, has_settled) = oneshot::channel();
    let (started, has_started) = oneshot::channel();
    let work = move || {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return error!(%error, "a worker cannot start"),
        };
        runtime.block_on(async {
            match listeners.into_iter().map(RunningListener::new).collect() {
                Ok(listeners) => {
                    // Nobody waits only if the whole server was dropped.
                    let _ = started.send(());
                    accept_until_drained(listeners, server, control, settled).await;
                }
                Err(error) => error!(%error, "a listening socket cannot be used"),
            }
        });
        runtime.shutdown_background();
        // Nobody waits only if the whole server was dropped.
        let _ = done.send(());
    };
    if let Err(error) = thread::Builder::new().name("companion-web".to_owned()).spawn(work) {
        error!(%error, "a worker's thread cannot start");
    }
    Worker { started: has_started, settled: has_settled, done: is_done }
}

async fn accept_until_drained(
    listeners: Vec<RunningListener>,
    server: Arc<ConnectionServer>,
    control: WorkerControl,
    settled: oneshot::Sender<()>,
) {
    let WorkerControl { stop, pulse, takes_queued } = control;
    let connections = TaskTracker::new();
    tokio::select! {
        _ = join_all(listeners.iter().map(|listener| accept(listener, &server, &stop, &connections))) => {}
        () = pulse.answer() => {}
    }
    // Closing a socket would reset connections that the system has already accepted for us.
    for listener in listeners.into_iter().filter(|_| takes_queued) {
        for (stream, peer) in listener.queued() {
            start_connection(stream, peer, &server, &connections);
        }
    }
    connections.close();
    tokio::time::sleep(SETTLING_TIME).await;
    // On a busy machine this wakes up together with connections and runs before them, so each turn lets some of them read.
    for _ in 0..TURNS_TO_READ + connections.len() / CONNECTIONS_PER_TURN {
        tokio::task::yield_now().await;
    }
    // Nobody waits only if the whole server was dropped.
    let _ = settled.send(());
    let drained = tokio::time::timeout(server.drain_timeout(), connections.wait());
    tokio::select! {
        drained = drained => {
            if drained.is_err() {
                warn!(left = connections.len(), "some requests did not finish in time and are cut off");
            }
        }
        () = pulse.answer() => {}
    }
}

/// Accepts connections until it is told to stop.
async fn accept(
    listener: &RunningListener,
    server: &Arc<ConnectionServer>,
    stop: &CancellationToken,
    connections: &TaskTracker,
) {
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => start_connection(stream, peer, server, connections),
                Err(error) => handle_accept_error(&error, server).await,
            },
        }
    }
}

/// Periodically closes connections that have waited too long, and updates the certificate's expiry.
async fn reap(server: Arc<ConnectionServer>) {
    let mut pace = tokio::time::interval(REAP_EVERY);
    loop {
        pace.tick().await;
        server.registry.reap();
        server.note_certificate();
    }
}

fn start_connection(stream: ClientStream, peer: IpAddr, server: &Arc<ConnectionServer>, connections: &TaskTracker) {
    let Some(state) = server.registry.add(peer) else { return };
    if let Err(error) = set_nodelay(&stream) {
        debug!(%error, "a connection was gone before it was served");
        return server.registry.remove(&state);
    }
    let task = connections.spawn(Arc::clone(server).serve(stream, peer, Arc::clone(&state)));
    state.set_task(task.abort_handle());
}

/// An error with one connection does not end the accept loop.
async fn handle_accept_error(error: &std::io::Error, server: &ConnectionServer) {
    let is_exhausted =
        matches!(Errno::from_io_error(error), Some(Errno::NFILE | Errno::MFILE | Errno::NOMEM | Errno::NOBUFS));
    if is_exhausted {
        server.registry.make_room(error);
        tokio::time::sleep(ACCEPT_PAUSE).await;
    } else {
        debug!(%error, "a connection was gone before it was accepted");
    }
}
