//! Shared by the benchmarks' servers: one thread per core, each with its own listener on the same address.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};

use anyhow::Context;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpStream;

/// A server's arguments, in order. The error shows the usage.
pub fn arguments<const N: usize>(usage: &str) -> anyhow::Result<[String; N]> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    given.try_into().ok().with_context(|| format!("usage: {usage}"))
}

/// Listens on the address with one thread per core, prints the address (port 0 becomes a free one) and serves until a thread fails.
pub fn serve_on_every_core<F>(address: &str, serve: F) -> anyhow::Result<()>
where
    F: Fn(TcpListener) -> anyhow::Result<()> + Clone + Send + 'static,
{
    let first = listen(address.parse()?)?;
    let address = first.local_addr()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut listeners = vec![first];
    for _ in 1..cores {
        listeners.push(listen(address)?);
    }
    let threads: Vec<_> = listeners
        .into_iter()
        .map(|listener| {
            let serve = serve.clone();
            std::thread::spawn(move || serve(listener))
        })
        .collect();
    writeln!(std::io::stdout(), "http://{address}")?;
    for thread in threads {
        thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    }
    Ok(())
}

/// Serves each connection in its own task, on this thread's runtime.
pub fn serve_connections<F>(listener: TcpListener, serve: impl Fn(TcpStream) -> F) -> anyhow::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(serve(stream));
        }
    })
}

fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(4096)?;
    Ok(socket.into())
}
