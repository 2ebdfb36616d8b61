//! A process that starts before its store can be opened: it waits, says so, and gives up with advice.

use std::net::SocketAddr;
use std::process::Command;

use runtime::clock::Clock;
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio_postgres::config::Host;

use crate::harness::binary::{Running, command, config_file, run};
use crate::harness::{Folder, eventually, on_postgres, sandbox, sqlite_only};

/// An address where nobody listens yet, and nobody else can.
fn reserved() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// With a database at this address.
fn at(mut command: Command, url: &str) -> Command {
    command.env("COMPANION_STORE_URL", url).env("COMPANION_SECRETS_KEYS", format!("one:{}=", "A".repeat(43)));
    command
}

#[tokio::test]
async fn without_its_database_it_says_where_that_is_and_what_helps() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let (_socket, address) = reserved();
    let url = format!("postgres://me:hushhush@{address}/data");
    for arguments in [&["serve", "--listen", "127.0.0.1:0"][..], &["key", "list"], &["users", "blocked"]] {
        let mut command = at(command(&[arguments, &["--config", config.to_str().unwrap()]].concat()), &url);
        let ended = run({
            command.env("COMPANION_STORE_START_WAIT", "3s");
            command
        })
        .await;
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        for part in [&address.to_string(), "refused", "cannot be opened yet", "store.start_wait", "connect_timeout"] {
            assert!(said.contains(part), "{part} is missing: {said}");
        }
        assert!(!said.contains("hush"), "{said}");
    }
}

#[tokio::test]
async fn a_database_that_comes_up_later_is_waited_for() {
    if !on_postgres() {
        println!("only for PostgreSQL: it needs a server");
        return;
    }
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let server: tokio_postgres::Config = folder.server_url().parse().unwrap();
    let (socket, address) = reserved();
    let (user, name) = (server.get_user().unwrap(), server.get_dbname().unwrap());
    let url = format!("postgres://{user}:hushhush@{address}/{name}?sslmode=disable");
    let path = config.to_str().unwrap();
    let serving = at(command(&["serve", "--listen", "127.0.0.1:0", "--config", path]), &url);
    let mut service = Running::spawn(serving);
    let says_so = "the store cannot be opened yet; retrying";
    eventually("it says that it waits", async || service.logged().contains(says_so)).await;
    assert!(service.logged().contains(&address.to_string()), "{}", service.logged());

    let listener = socket.listen(16).unwrap();
    let front = tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let server = server.clone();
            tokio::spawn(async move {
                let port = server.get_ports().first().copied().unwrap_or(5432);
                match &server.get_hosts()[0] {
                    Host::Tcp(host) => {
                        let mut server = TcpStream::connect((host.as_str(), port)).await.unwrap();
                        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                    }
                    Host::Unix(folder) => {
                        let mut server = UnixStream::connect(folder.join(format!(".s.PGSQL.{port}"))).await.unwrap();
                        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                    }
                }
            });
        }
    });
    service.listens().await;
    assert_eq!(service.client().get("/team").await.status, 200);
    assert!(!service.logged().contains("hush"), "{}", service.logged());
    front.abort();
}

#[tokio::test]
async fn a_file_that_another_process_has_locked_is_waited_for() {
    sqlite_only!("its file is no business of the service");
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let other = rusqlite::Connection::open(folder.file()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let mut service =
        Running::spawn(command(&["serve", "--listen", "127.0.0.1:0", "--config", config.to_str().unwrap()]));
    eventually("it says that it waits", async || service.logged().contains("cannot be opened yet")).await;
    assert!(service.logged().contains("data.db"), "{}", service.logged());
    other.execute_batch("COMMIT").unwrap();
    service.listens().await;
    assert_eq!(service.client().get("/team").await.status, 200);
}
