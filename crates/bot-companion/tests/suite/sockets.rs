//! Unix sockets, sockets passed by systemd, and notifications to systemd, with the real binary.

use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use runtime::clock::Clock;
use rustix::process::Signal;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixDatagram, UnixStream};

use crate::harness::binary::{Running, command, config_file, run};
use crate::harness::{Folder, eventually, sandbox, soon};

fn serve(config: &Path, listen: &str) -> Command {
    command(&["serve", "--listen", listen, "--config", config.to_str().unwrap()])
}

/// The whole response to one request with this extra header.
async fn get(mut stream: impl AsyncRead + AsyncWrite + Unpin, path: &str, header: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{header}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    soon("the response", stream.read_to_string(&mut response)).await.unwrap();
    response
}

async fn started(command: Command, listens: &str) -> Running {
    let mut service = Running::spawn(command);
    eventually("the service listens", async || {
        assert!(!service.has_ended(), "it ended: {}", service.logged());
        service.logged().contains(listens)
    })
    .await;
    service
}

#[tokio::test]
async fn a_unix_socket_has_its_mode_is_defended_and_goes_with_the_service() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "http.listen_mode = \"0620\"\nadmin.listen = \"off\"");
    let path = folder.path().join("http.sock");
    let listen = format!("unix:{}", path.display());
    let mut first = started(serve(&config, &listen), &format!("listening on {listen}")).await;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o620);
    let response = get(UnixStream::connect(&path).await.unwrap(), "/", "").await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");

    let second = run(serve(&config, &listen)).await;
    let said = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{said}");
    let holder = format!("cannot listen on {listen}: process {} (bot-companion) is using it", first.id());
    assert!(said.contains(&holder), "{said}");
    let asked = command(&["healthcheck", "--listen", &listen, "--config", config.to_str().unwrap()]);
    let asked = run(asked).await;
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));

    // One that was killed leaves its socket behind, and the next one replaces it.
    first.kill();
    assert!(path.exists() && UnixStream::connect(&path).await.is_err());
    let mut next = started(serve(&config, &listen), "listening on unix:").await;
    let response = get(UnixStream::connect(&path).await.unwrap(), "/", "").await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    next.terminate();
    assert!(next.ended().await.success());
    assert!(!path.exists());
}

#[tokio::test]
async fn a_service_whose_socket_was_deleted_ends_so_that_it_is_restarted() {
    for take_away in
        [|path: &Path| std::fs::remove_file(path), |path: &Path| std::fs::rename(path, path.with_extension("old"))]
    {
        let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
        let config = config_file(&folder, &provider, "admin.listen = \"off\"");
        let path = folder.path().join("http.sock");
        let listen = format!("unix:{}", path.display());
        let mut service = started(serve(&config, &listen), "listening on unix:").await;
        take_away(&path).unwrap();
        assert_eq!(service.ended().await.code(), Some(1));
        let lost = format!("the socket {} was deleted or replaced, so nobody can connect", path.display());
        assert!(service.logged().contains(&lost), "{}", service.logged());
        let _next = started(serve(&config, &listen), "listening on unix:").await;
        assert!(UnixStream::connect(&path).await.is_ok());
    }
}

#[tokio::test]
async fn a_client_on_a_unix_socket_is_a_proxy_only_where_127_0_0_1_is_one() {
    let proxy = "X-Forwarded-For: 203.0.113.9\r\n";
    for (trusted, client) in [("", "127.0.0.1"), ("http.trusted_proxies = [\"127.0.0.1\"]", "203.0.113.9")] {
        let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
        let config = config_file(&folder, &provider, &format!("log.access = \"all\"\n{trusted}"));
        let path = folder.path().join("http.sock");
        let service = started(serve(&config, &format!("unix:{}", path.display())), "listening on unix:").await;
        let response = get(UnixStream::connect(&path).await.unwrap(), "/nowhere", proxy).await;
        assert!(response.starts_with("HTTP/1.1 404 "), "{response}");
        let line = format!("client={client}");
        eventually("the line of the request", async || service.logged().contains(&line)).await;
    }
}

/// The service with this socket from its parent, as passed by systemd.
fn activated(config: &Path, socket: OwnedFd) -> Command {
    let mut activated = Command::new("sh");
    let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ exec \"$@\"";
    let serve = serve(config, "127.0.0.1:1");
    activated.env_clear().env("LISTEN_FDS", "1").env("LISTEN_FDNAMES", "http").stdin(Stdio::from(socket));
    activated.args(["-c", script, "sh"]).arg(serve.get_program()).args(serve.get_args());
    activated
}

#[tokio::test]
async fn a_socket_of_the_parent_is_served_by_one_process_after_the_other() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "admin.listen = \"off\"");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let socket = || OwnedFd::from(listener.try_clone().unwrap());
    let mut first = Running::start(activated(&config, socket())).await;
    assert_eq!(first.address, address, "not the one of --listen");
    // More than one core can handle.
    let asked = (0..32).map(|_| async { get(TcpStream::connect(address).await.unwrap(), "/", "").await });
    for response in futures_util::future::join_all(asked).await {
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    }
    first.terminate();
    assert!(first.ended().await.success());
    // Nobody is there, and nobody is refused.
    let waiting = TcpStream::connect(address).await.unwrap();
    let _second = Running::start(activated(&config, socket())).await;
    let response = get(waiting, "/", "").await;
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
}

#[tokio::test]
async fn a_socket_with_an_unknown_name_is_refused() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut asked = activated(&config, listener.into());
    asked.env("LISTEN_FDNAMES", "htpt");
    let output = run(asked).await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert!(said.contains("\"htpt\"") && said.contains("FileDescriptorName="), "{said}");
}

#[tokio::test]
async fn systemd_is_told_when_it_is_ready_reloads_lives_and_stops() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let mut asked = serve(&config, "127.0.0.1:0");
    asked.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    let mut service = Running::spawn(asked);
    // Skips what comes before it; the watchdog is notified in between.
    let told = async |wanted: &str| {
        let receive = async {
            let mut others = Vec::new();
            loop {
                let mut buffer = [0; 1024];
                let length = manager.recv(&mut buffer).await.unwrap();
                let said = String::from_utf8(buffer[..length].to_vec()).unwrap();
                if said.starts_with(wanted) {
                    return (said, others);
                }
                others.push(said);
            }
        };
        soon(wanted, receive).await
    };
    let (ready, _) = told("READY=1\n").await;
    service.listens().await;
    assert!(ready.contains(&format!("STATUS=Running on http://{}/", service.address)), "{ready}");
    assert_eq!(service.client().get("/").await.status, 200);
    told("WATCHDOG=1").await;
    service.signal(Signal::HUP);
    let (reloading, _) = told("RELOADING=1\n").await;
    assert!(reloading.contains("\nMONOTONIC_USEC="), "{reloading}");
    let (ready, _) = told("READY=1\n").await;
    assert!(ready.ends_with("STATUS=Running; reloaded"), "{ready}");
    std::fs::write(&config, "nonsense").unwrap();
    service.signal(Signal::HUP);
    told("RELOADING=1\n").await;
    let (ready, _) = told("READY=1\n").await;
    assert!(ready.contains("the last reload failed"), "{ready}");
    told("WATCHDOG=1").await;
    service.terminate();
    let (_, before) = told("STOPPING=1\n").await;
    assert!(before.iter().all(|said| said == "WATCHDOG=1"), "{before:?}");
    assert!(service.ended().await.success());
}
