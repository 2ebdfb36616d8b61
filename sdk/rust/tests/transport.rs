//! The transport over HTTP: gzip, streams, time limits, responses that aren't from the service.

#![expect(clippy::unwrap_used, unreachable_pub, dead_code, reason = "a test")]

#[path = "parts_harness/mod.rs"]
mod parts_harness;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bot_companion_feed::{Builder, Companion};
use flate2::read::GzDecoder;
use parts_harness::{Lines, Ranks, ready};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 62\r\n\r\n{\"code\":200,\"message\":\"OK\",\"data\":{\"applied\":1,\"ignored\":0}}  ";

/// A request as received.
struct Seen {
    head: String,
    body: Vec<u8>,
}

/// Reads the head of a request.
fn read_head(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    Some(head.to_lowercase())
}

/// Reads the next chunk of a body; empty at its end.
fn read_chunk(stream: &mut BufReader<TcpStream>) -> Vec<u8> {
    let mut size = String::new();
    stream.read_line(&mut size).unwrap();
    let mut chunk = vec![0; usize::from_str_radix(size.trim(), 16).unwrap() + 2];
    stream.read_exact(&mut chunk).unwrap();
    chunk.truncate(chunk.len() - 2);
    chunk
}

fn read_body(stream: &mut BufReader<TcpStream>, head: &str) -> Vec<u8> {
    if head.contains("transfer-encoding: chunked") {
        let mut body = Vec::new();
        loop {
            let chunk = read_chunk(stream);
            if chunk.is_empty() {
                return body;
            }
            body.extend(chunk);
        }
    }
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    body
}

/// Starts a server with this connection handler; returns its address.
fn serve(handle: impl Fn(BufReader<TcpStream>) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/base", listener.local_addr().unwrap());
    let handle = Arc::new(handle);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let handle = Arc::clone(&handle);
            thread::spawn(move || handle(BufReader::new(stream)));
        }
    });
    url
}

/// Starts a server that answers every request with this.
fn answer_always(answer: &'static str) -> (String, mpsc::Receiver<Seen>) {
    let (sender, seen) = mpsc::channel();
    let sender = Mutex::new(sender);
    let url = serve(move |mut stream| {
        while let Some(head) = read_head(&mut stream) {
            let body = read_body(&mut stream, &head);
            let _ = sender.lock().unwrap().send(Seen { head, body });
            if stream.get_mut().write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    (url, seen)
}

fn builder(url: &str, lines: &Lines) -> Builder {
    let sink = lines.clone();
    Companion::builder(url, "bck_secret").unwrap().log(Arc::new(move |_, text: &str| sink.push(text)))
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_streamed_and_compressed() {
    let (url, seen) = answer_always(OK);
    let lines = Lines::default();
    let companion = builder(&url, &lines).start(Arc::new(Ranks::new(3))).unwrap();
    ready(&companion);
    let seen = tokio::task::spawn_blocking(move || [seen.recv().unwrap(), seen.recv().unwrap()]).await.unwrap();
    let [heartbeat, snapshot] = seen;
    assert!(heartbeat.head.starts_with("put /base/bot/heartbeat http/1.1"), "{}", heartbeat.head);
    assert!(heartbeat.head.contains("authorization: bearer bck_secret"));
    assert!(heartbeat.body.starts_with(b"{"), "small bodies are not compressed");
    assert!(snapshot.head.starts_with("put /base/bot/shards/1/0/guilds"), "{}", snapshot.head);
    for header in [
        "content-encoding: gzip",
        "feed-instance: rust-",
        "feed-sequence: 2",
        "feed-after: 1",
        "content-type: application/x-ndjson",
    ] {
        assert!(snapshot.head.contains(header), "{header}: {}", snapshot.head);
    }
    let mut text = String::new();
    GzDecoder::new(&snapshot.body[..]).read_to_string(&mut text).unwrap();
    assert!(text.contains(r#""name":"Harbour""#) && text.ends_with("{\"end\":1}\n"), "{text}");
    companion.close().await;
    assert!(!lines.contain("bck_"), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_lines_are_flushed() {
    let (sender, pieces) = mpsc::channel();
    let sender = Mutex::new(sender);
    let url = serve(move |mut stream| {
        while let Some(head) = read_head(&mut stream) {
            if head.contains("transfer-encoding: chunked") {
                loop {
                    let chunk = read_chunk(&mut stream);
                    let is_last = chunk.is_empty();
                    let _ = sender.lock().unwrap().send(chunk);
                    if is_last {
                        break;
                    }
                }
            } else {
                read_body(&mut stream, &head);
            }
            stream.get_mut().write_all(OK.as_bytes()).unwrap();
        }
    });
    // The second guild's callback waits until the first guild's line has arrived.
    let arrived = Arc::new(tokio::sync::Notify::new());
    let gate = Arc::clone(&arrived);
    let lines = Lines::default();
    let companion = builder(&url, &lines)
        .limits(|limits| {
            limits.flush_interval = Duration::from_millis(50);
            limits.callback_timeout = Duration::from_mins(5);
            limits.stall_timeout = Duration::from_mins(5);
        })
        .setup(move |guild| {
            let gate = Arc::clone(&gate);
            async move {
                if guild.id != parts_harness::GUILD {
                    gate.notified().await;
                }
                Ok(true)
            }
        })
        .start(Arc::new(Ranks::with_guilds(1, 2)))
        .unwrap();
    ready(&companion);
    let compressed = tokio::task::spawn_blocking(move || {
        let mut compressed = pieces.recv().unwrap();
        let mut text = Vec::new();
        // A complete line has arrived so far.
        let _ = GzDecoder::new(&compressed[..]).read_to_end(&mut text);
        while !text.ends_with(b"\n") {
            compressed.extend(pieces.recv().unwrap());
            text.clear();
            let _ = GzDecoder::new(&compressed[..]).read_to_end(&mut text);
        }
        arrived.notify_one();
        while let Some(piece) = pieces.recv().ok().filter(|piece| !piece.is_empty()) {
            compressed.extend(piece);
        }
        compressed
    });
    let mut text = String::new();
    GzDecoder::new(&compressed.await.unwrap()[..]).read_to_string(&mut text).unwrap();
    assert!(text.ends_with("{\"end\":2}\n"), "{text}");
    companion.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_is_given_up() {
    let (hold, _held) = (Mutex::new(Vec::new()), ());
    let url = serve(move |stream| hold.lock().unwrap().push(stream));
    let lines = Lines::default();
    let companion = builder(&url, &lines)
        .limits(|limits| limits.stall_timeout = Duration::from_millis(100))
        .start(Arc::new(Ranks::new(1)))
        .unwrap();
    ready(&companion);
    lines.await_line("the service cannot be reached").await;
    assert!(lines.contain("no progress for 100ms"), "{lines:?}");
    companion.close().await;
}

async fn failure_of(answer: &'static str, expected: &str) {
    let (url, _seen) = answer_always(answer);
    let lines = Lines::default();
    let companion = builder(&url, &lines).start(Arc::new(Ranks::new(1))).unwrap();
    ready(&companion);
    lines.await_line(expected).await;
    companion.close().await;
    assert_eq!(companion.status().counters.heartbeats, 0);
    assert!(!lines.contain("bck_"), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_not_followed() {
    let redirect = "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/elsewhere\r\nContent-Length: 0\r\n\r\n";
    failure_of(redirect, "status 302, no reason given; check COMPANION_URL").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_other_servers_acknowledge_nothing() {
    failure_of(
        "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>",
        "the response is not from a bot-companion service",
    )
    .await;
    failure_of("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "the response is not from a bot-companion service")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_read_up_to_a_bound() {
    let huge = format!("HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n{}", " ".repeat(3_000_000));
    failure_of(huge.leak(), "the answer cannot be read").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_key_is_an_error() {
    let refusal = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 27\r\n\r\n{\"code\":401,\"data\":{\"a\":1}}";
    failure_of(refusal, "the service refuses the bot key").await;
}
