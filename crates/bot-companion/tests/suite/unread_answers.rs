//! Clients that send requests and do not read the answers: they are given up after a while, and cost little until then.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Ping, PingPong, RecvStream};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinHandle;

use crate::harness::{Client, TestApp, Wire, eventually, request, soon};
use crate::tls::handshake;

const SECOND: Duration = Duration::from_secs(1);
/// Idle connections stay for long, so anything that is cut off is cut off for another reason.
const PATIENT: &str = "limits.idle_timeout = \"1h\"";

/// Someone who speaks HTTP/2 and only reads as much of the answers as the test says.
struct Windowed {
    sender: SendRequest<Bytes>,
    pings: PingPong,
    ended: JoinHandle<Result<(), h2::Error>>,
}

impl Windowed {
    /// Of each answer, this many bytes may arrive before more is requested.
    async fn connect(app: &TestApp, window: u32) -> Self {
        let stream = handshake(app, &["h2"]).await.unwrap();
        let mut builder = h2::client::Builder::new();
        let builder = builder.initial_window_size(window).initial_connection_window_size(1 << 30);
        let (sender, mut connection) = builder.handshake(stream).await.unwrap();
        let pings = connection.ping_pong().unwrap();
        Self { sender, pings, ended: tokio::spawn(connection) }
    }

    async fn get(&mut self, path: &str, token: Option<&str>) -> ResponseFuture {
        let mut request = http::Request::get(format!("https://localhost{path}"));
        if let Some(token) = token {
            request = request.header("token", token);
        }
        let mut ready = self.sender.clone().ready().await.unwrap();
        ready.send_request(request.body(()).unwrap(), true).unwrap().0
    }
}

/// Reads one piece of an answer, as much as may arrive.
async fn piece(body: &mut RecvStream) -> Option<Bytes> {
    soon("more of the answer", body.data()).await.map(Result::unwrap)
}

/// Sessions of one user, whose list is an answer of about ten thousand bytes.
async fn many_sessions(app: &TestApp, count: usize) -> Client {
    let agent = "a".repeat(256);
    let mut last = None;
    for _ in 0..count {
        let call = app.anon().post("/auth").header("Idp-Code", app.sandbox.issue_code("owner"));
        let answer = call.header("User-Agent", &agent).send().await;
        last = Some(app.anon().with_token(answer.data()["token"].as_str().unwrap()));
    }
    last.unwrap()
}

#[tokio::test]
async fn a_client_that_takes_nothing_for_30_seconds_is_cut() {
    let app = TestApp::builder().set(PATIENT).start().await;
    let mut deaf = Wire::open(app.address).await;
    let flood = request("GET", "/openapi.json", "").repeat(50);
    // Once the buffers in between are full, the service stops reading, so sending blocks.
    while tokio::time::timeout(Duration::from_millis(300), deaf.try_send(&flood)).await.is_ok() {}
    app.clock.advance(29 * SECOND);
    assert_eq!(app.anon().get("/").await.status, 200);
    eventually("the deaf client is cut", async || {
        app.clock.advance(SECOND);
        matches!(tokio::time::timeout(Duration::from_millis(600), deaf.try_send(&flood)).await, Ok(Err(_)))
    })
    .await;
}

#[tokio::test]
async fn one_that_takes_nothing_over_tls_is_cut_too() {
    let app = TestApp::builder().secure().set(PATIENT).start().await;
    let mut deaf = handshake(&app, &["http/1.1"]).await.unwrap();
    let flood = request("GET", "/openapi.json", "").repeat(50);
    while tokio::time::timeout(Duration::from_millis(300), deaf.write_all(flood.as_bytes())).await.is_ok() {}
    let mut turned = Duration::ZERO;
    eventually("it is cut", async || {
        if turned < 40 * SECOND {
            app.clock.advance(SECOND);
            turned += SECOND;
        }
        matches!(tokio::time::timeout(Duration::from_millis(50), deaf.write_all(b"x")).await, Ok(Err(_)))
    })
    .await;
}

#[tokio::test]
async fn an_http_2_client_that_opens_no_window_for_30_seconds_is_cut_however_lively_it_is() {
    let app = TestApp::builder().secure().set(PATIENT).start().await;
    let mut deaf = Windowed::connect(&app, 0).await;
    let answer = deaf.get("/team", None).await;
    let response = soon("the head of the answer", answer).await.unwrap();
    assert_eq!(response.status(), 200);
    let mut turned = Duration::ZERO;
    eventually("it is cut", async || {
        if turned < 40 * SECOND {
            app.clock.advance(SECOND);
            turned += SECOND;
        }
        // It pings the service and asks for more; it just reads nothing.
        let _ = deaf.pings.ping(Ping::opaque()).await;
        deaf.ended.is_finished()
    })
    .await;
    assert!(turned > 30 * SECOND, "after {turned:?}");
}

#[tokio::test]
async fn an_answer_that_is_never_taken_is_not_kept_alive_by_others() {
    let app = TestApp::builder().secure().set(PATIENT).start().await;
    let mut sly = Windowed::connect(&app, 1_000).await;
    let parked = sly.get("/openapi.json", None).await;
    let parked = soon("the head of the answer", parked).await.unwrap();
    let mut turned = Duration::ZERO;
    eventually("it is cut", async || {
        if turned < 40 * SECOND {
            app.clock.advance(SECOND);
            turned += SECOND;
        }
        // It reads short answers all the while.
        let short = async {
            let mut ready = sly.sender.clone().ready().await.ok()?;
            let request = http::Request::get("https://localhost/none").body(()).unwrap();
            let (answer, _) = ready.send_request(request, true).ok()?;
            answer.await.ok()?.into_body().data().await
        };
        let _ = short.await;
        sly.ended.is_finished()
    })
    .await;
    assert!(turned > 30 * SECOND, "after {turned:?}");
    drop(parked);
}

#[tokio::test]
async fn a_slow_http_2_client_gets_its_whole_answer_however_long_it_takes() {
    let app = TestApp::builder().secure().start().await;
    let whole = app.anon().get("/openapi.json").await.body;
    let window = u32::try_from(whole.len() / 12).unwrap();
    let mut slow = Windowed::connect(&app, window).await;
    let answer = slow.get("/openapi.json", None).await;
    let mut body = soon("the head of the answer", answer).await.unwrap().into_body();
    let mut read = Vec::new();
    while let Some(bytes) = piece(&mut body).await {
        read.extend_from_slice(&bytes);
        // In total more than an idle connection may stay, and far more than the 30 seconds.
        app.clock.advance(10 * SECOND);
        assert_eq!(app.anon().get("/").await.status, 200);
        let _ = body.flow_control().release_capacity(bytes.len());
    }
    assert_eq!(read, whole);
}

#[tokio::test]
async fn unread_answers_of_one_http_2_connection_have_a_bound() {
    // Requests that wait for room have as much time as any other.
    let app =
        TestApp::builder().secure().set("[limits]\nrequest_timeout = \"5m\"\nsign_ins_per_user = 0").start().await;
    let user = many_sessions(&app, 40).await;
    let size = user.get("/sessions").await.body.len();
    assert!(size > 10_000, "{size}");
    // The beginning of each answer arrives; nobody reads that either.
    let mut deaf = Windowed::connect(&app, 4_000).await;
    let mut waiting = Vec::new();
    for _ in 0..200 {
        waiting.push(deaf.get("/sessions", Some(user.token())).await);
    }
    let heads = Arc::new(AtomicUsize::new(0));
    let bodies: Vec<_> = waiting
        .into_iter()
        .map(|answer| {
            let heads = Arc::clone(&heads);
            tokio::spawn(async move {
                let response = answer.await.unwrap();
                heads.fetch_add(1, Ordering::Relaxed);
                response.into_body()
            })
        })
        .collect();
    eventually("answers pile up", async || heads.load(Ordering::Relaxed) * size > 400_000).await;
    // Others are served, and whatever the service has to say has arrived by then.
    for _ in 0..20 {
        assert_eq!(user.get("/sessions").await.status, 200);
        deaf.pings.ping(Ping::opaque()).await.unwrap();
    }
    let unread = heads.load(Ordering::Relaxed) * size;
    assert!(unread < 2_000_000, "{unread} bytes wait for one client");
    // A client that reads gets them all.
    for body in bodies {
        let mut body = soon("the next answer", body).await.unwrap();
        let mut read = 0;
        while let Some(bytes) = piece(&mut body).await {
            read += bytes.len();
            let _ = body.flow_control().release_capacity(bytes.len());
        }
        assert_eq!(read, size);
    }
}
