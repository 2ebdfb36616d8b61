//! A provider that closes its connections at the worst moments.

use std::collections::HashMap;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::*;

/// When the provider closes a connection, although it never says `Connection: close`.
#[derive(Clone, Copy, Debug)]
enum Closes {
    /// Right after each answer, while the next request may be on its way.
    AfterAnAnswer,
    /// At the second request, without an answer.
    AtTheSecondRequest,
    /// At the first read, without an answer. Exchanges are answered.
    AtEveryRead,
}

/// Requests by path.
type Counts = Arc<parking_lot::Mutex<HashMap<String, u32>>>;

async fn start(closes: Closes) -> (Provider, Counts) {
    let counts = Counts::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let provider = Provider::new(options(format!("http://{}", listener.local_addr().unwrap()), &Clock::manual(START)));
    let counted = Arc::clone(&counts);
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(serve(connection, closes, Arc::clone(&counted)));
        }
    });
    (provider.unwrap(), counts)
}

/// Serves one connection until it's closed. `None` if the client closes it.
async fn serve(connection: TcpStream, closes: Closes, counts: Counts) -> Option<()> {
    let mut connection = BufReader::new(connection);
    for number in 0.. {
        let (mut path, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            connection.read_line(&mut line).await.ok().filter(|&bytes| bytes > 0)?;
            match line.trim_end().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().unwrap(),
                Some(_) => (),
                None if line == "\r\n" => break,
                None => line.split(' ').nth(1).unwrap().clone_into(&mut path),
            }
        }
        connection.read_exact(&mut vec![0; length]).await.ok()?;
        *counts.lock().entry(path.clone()).or_default() += 1;
        let body = match path.as_str() {
            "/oauth2/token" => {
                r#"{"access_token":"a","refresh_token":"r","token_type":"Bearer","expires_in":604800,"scope":"identify guilds"}"#
            }
            "/users/@me" => r#"{"id":"80351110224678912","username":"nelly","global_name":null,"avatar":null}"#,
            _ => "[]",
        };
        let breaks = match closes {
            Closes::AfterAnAnswer => false,
            Closes::AtTheSecondRequest => number == 1,
            Closes::AtEveryRead => path.starts_with("/users"),
        };
        if breaks {
            return Some(());
        }
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        connection.write_all(answer.as_bytes()).await.ok()?;
        if matches!(closes, Closes::AfterAnAnswer) {
            return Some(());
        }
    }
    None
}

#[tokio::test]
async fn a_provider_that_closes_its_connections_costs_no_sign_in() {
    for closes in [Closes::AfterAnAnswer, Closes::AtTheSecondRequest] {
        let (provider, counts) = start(closes).await;
        for round in 0..100 {
            let grant = provider.exchange(Some(network()), &"code".into(), None, REDIRECT).await;
            let grant = grant.unwrap_or_else(|error| panic!("{closes:?}, exchange {round}: {error}"));
            let user = provider.user(Some(network()), &grant.access_token).await;
            user.unwrap_or_else(|error| panic!("{closes:?}, user {round}: {error}"));
            let guilds = provider.guilds(&grant.access_token).await;
            guilds.unwrap_or_else(|error| panic!("{closes:?}, guilds {round}: {error}"));
        }
        assert_eq!(counts.lock()["/oauth2/token"], 100, "an exchange is sent once");
    }
}

#[tokio::test]
async fn a_broken_read_is_sent_twice_at_most() {
    let (provider, counts) = start(Closes::AtEveryRead).await;
    let grant = provider.exchange(Some(network()), &"code".into(), None, REDIRECT).await.unwrap();
    let error = provider.user(Some(network()), &grant.access_token).await.unwrap_err();
    assert_eq!((error.kind, error.code_spent), (IdpErrorKind::Unavailable, true), "{error}");
    assert_eq!(counts.lock()["/users/@me"], 2);
    let error = provider.guilds(&grant.access_token).await.unwrap_err();
    assert_eq!(error.kind, IdpErrorKind::Unavailable, "{error}");
    assert_eq!(counts.lock()["/users/@me/guilds"], 2);
}
