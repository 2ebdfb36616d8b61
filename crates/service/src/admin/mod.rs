//! The admin listener, for operators, Prometheus and orchestrators. It has its own thread and runtime, so that it neither
//! delays the service nor waits for it, and it keeps answering while the service drains. Each connection carries one request
//! and has one time limit for everything; those without a request make room for others.

mod health;
mod process;
mod respond;
mod scrape;

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{debug, error, warn};

use crate::app::App;
use crate::config::AdminConfig;
use crate::server::listen_advice;
use respond::AdminService;
pub(crate) use respond::SERVICE;

/// The most connections at a time.
const CONNECTIONS: usize = 32;
/// How long a connection may last.
const CONNECTION_LIMIT: Duration = Duration::from_secs(20);
/// How long the headers of its request may take to arrive.
const HEADER_LIMIT: Duration = Duration::from_secs(2);
const HEADER_BYTES: usize = 16 * 1024;
const HEADERS: usize = 64;
/// How long accepting pauses after an error.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The admin listener cannot listen on its address.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen on {address} for metrics and health: {cause}; {}, or set admin.listen to another address, or to \"off\"",
    listen_advice(&(*address).into(), cause)
)]
pub struct AdminListenError {
    address: SocketAddr,
    cause: io::Error,
}

/// Binds the admin listener, unless it is turned off. If the default address is in use, the service runs without it.
pub fn bind(config: AdminConfig) -> Result<Option<TcpListener>, AdminListenError> {
    let Some(address) = config.listen else { return Ok(None) };
    match TcpListener::bind(address) {
        Ok(listener) => Ok(Some(listener)),
        Err(cause) if config.is_set => Err(AdminListenError { address, cause }),
        Err(error) => {
            warn!(%error, "running without /metrics and /health, because {address} is in use; set admin.listen to another \
            address, or to \"off\"");
            Ok(None)
        }
    }
}

/// A running admin listener; it ends when this is dropped.
#[must_use = "it ends when it is dropped"]
pub struct AdminServer {
    pub address: SocketAddr,
    _stop: DropGuard,
}

pub fn start(listener: TcpListener, app: Arc<App>) -> io::Result<AdminServer> {
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let work = move || {
        runtime.block_on(async {
            match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => accept(listener, Arc::new(AdminService::new(app)), stopped).await,
                Err(error) => error!(%error, "the admin listener cannot be used"),
            }
        });
        // A probe of a store that hangs must not delay the end of the process.
        runtime.shutdown_background();
    };
    std::thread::Builder::new().name("companion-admin".to_owned()).spawn(work)?;
    Ok(AdminServer { address, _stop: stop.drop_guard() })
}

async fn accept(listener: tokio::net::TcpListener, service: Arc<AdminService>, stop: CancellationToken) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    // The connections without a request, oldest first, and whether each has one by now.
    let mut silent: VecDeque<(AbortHandle, Arc<AtomicBool>)> = VecDeque::new();
    let mut next = async || {
        let (stream, _) = listener.accept().await?;
        let own_address = stream.local_addr()?.ip();
        silent.retain(|(task, has_asked)| !task.is_finished() && !has_asked.load(Ordering::Relaxed));
        if permits.available_permits() == 0
            && let Some((oldest, _)) = silent.pop_front()
        {
            oldest.abort();
        }
        let permit = Arc::clone(&permits).acquire_owned().await.map_err(io::Error::other)?;
        let has_asked = Arc::<AtomicBool>::default();
        let connection = serve(Arc::clone(&service), stream, own_address, Arc::clone(&has_asked));
        let task = tokio::spawn(async move {
            connection.await;
            drop(permit);
        });
        silent.push_back((task.abort_handle(), has_asked));
        // Let it run before another one may take its place.
        tokio::task::yield_now().await;
        io::Result::Ok(())
    };
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = next() => accepted,
        };
        if let Err(error) = accepted {
            debug!(%error, "a connection to the admin listener closed before it was served");
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

/// Serves one request. `own_address` is our address that the client connected to.
async fn serve(
    service: Arc<AdminService>,
    stream: tokio::net::TcpStream,
    own_address: IpAddr,
    has_asked: Arc<AtomicBool>,
) {
    let respond = service_fn(async |request| {
        has_asked.store(true, Ordering::Relaxed);
        Ok::<_, std::convert::Infallible>(service.respond(&request, own_address).await)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_LIMIT)
        .keep_alive(false)
        .max_buf_size(HEADER_BYTES)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), respond);
    match tokio::time::timeout(CONNECTION_LIMIT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "a connection to the admin listener ended early"),
        Err(_) => debug!("a connection to the admin listener took too long"),
    }
}
