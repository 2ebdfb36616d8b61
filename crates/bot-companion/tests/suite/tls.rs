//! HTTPS and HTTP/2.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use provider::idp::Endpoint;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use service::config::TlsConfig;
use service::server;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::harness::{Folder, TestApp, Wire, eventually};

const SECOND: Duration = Duration::from_secs(1);

/// A TLS connection that offers these protocols.
pub(crate) async fn handshake(app: &TestApp, protocols: &[&str]) -> std::io::Result<TlsStream<TcpStream>> {
    handshake_with(app, default_provider(), protocols).await
}

/// A TLS connection of a client with this provider's cipher suites, in its order.
async fn handshake_with(
    app: &TestApp,
    provider: CryptoProvider,
    protocols: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let certificate = CertificateDer::from_pem_file(app.folder.path().join("cert.pem")).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(app.address).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await
}

/// Someone who speaks HTTP/2, and the task that ends with their connection.
struct Multiplexed {
    sender: SendRequest<Empty<Bytes>>,
    ended: JoinHandle<hyper::Result<()>>,
}

impl Multiplexed {
    async fn connect(app: &TestApp) -> Self {
        let stream = handshake(app, &["h2"]).await.unwrap();
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        Self { sender, ended: tokio::spawn(connection) }
    }

    /// The status and the body's length; an error if the service does not accept the request.
    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> hyper::Result<(u16, usize)> {
        let mut request = http::Request::builder().method(method).uri(format!("https://localhost{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut sender = self.sender.clone();
        sender.ready().await?;
        let response = sender.send_request(request.body(Empty::new()).unwrap()).await?;
        assert_eq!(response.version(), http::Version::HTTP_2);
        let status = response.status().as_u16();
        Ok((status, response.into_body().collect().await?.to_bytes().len()))
    }
}

#[tokio::test]
async fn https_works_with_http_1_1_and_tells_browsers_to_stay_with_it() {
    let app = TestApp::builder().secure().start().await;
    let answer = app.anon().get("/team").await;
    assert_eq!((answer.status, answer.version), (200, reqwest::Version::HTTP_11));
    assert_eq!(answer.header("strict-transport-security"), "max-age=31536000");
    assert_eq!(app.user("owner").await.get("/guilds").await.status, 200);
    let offered = handshake(&app, &["http/1.1"]).await.unwrap();
    assert_eq!(offered.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let both = handshake(&app, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(both.get_ref().1.alpn_protocol(), Some(&b"h2"[..]), "HTTP/2 where both can");
}

#[tokio::test]
async fn the_service_chooses_the_cipher() {
    let app = TestApp::builder().secure().start().await;
    let (forward, mut backward) = (default_provider(), default_provider());
    backward.cipher_suites.reverse();
    // With TLS 1.3, then with TLS 1.2 alone.
    for version in [None, Some(rustls::ProtocolVersion::TLSv1_2)] {
        let mut chosen = Vec::new();
        for client in [&forward, &backward] {
            let mut client = client.clone();
            client.cipher_suites.retain(|suite| version.is_none_or(|version| suite.version().version == version));
            let stream = handshake_with(&app, client, &["h2"]).await.unwrap();
            chosen.push(stream.get_ref().1.negotiated_cipher_suite().unwrap());
        }
        assert_eq!(chosen[0], chosen[1], "clients with opposite orders get the same");
        let name = format!("{:?}", chosen[0].suite());
        assert!(name.ends_with("_AES_256_GCM_SHA384"), "the service's first choice: {name}");
    }
}

#[tokio::test]
async fn http_2_answers_many_requests_at_once_on_one_connection() {
    let app = TestApp::builder().secure().start().await;
    let token = app.user("owner").await.token().to_owned();
    let client = Multiplexed::connect(&app).await;
    let header = [("token", token.as_str())];
    let calls = (0..100).map(|_| client.send("GET", "/guilds", &header));
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(answer.unwrap().0, 200);
    }
    assert_eq!(client.send("GET", "/nowhere", &[]).await.unwrap().0, 404);
    assert_eq!(client.send("BREW", "/team", &[]).await.unwrap().0, 405);
    assert_eq!(client.send("HEAD", "/team", &[]).await.unwrap(), (200, 0));
    let long = "a".repeat(17_000);
    assert_eq!(client.send("GET", "/team", &[("x-long", &long)]).await.unwrap().0, 431);
}

#[tokio::test]
async fn http_2_needs_no_host_and_takes_no_two_of_them() {
    let app = TestApp::builder().secure().start().await;
    let client = Multiplexed::connect(&app).await;
    for (headers, status) in [
        (vec![], 200),
        (vec![("host", "localhost")], 200),
        (vec![("host", "localhost"), ("host", "localhost")], 400),
        (vec![("host", "a b")], 400),
        (vec![], 200),
    ] {
        for path in ["/", "/team"] {
            assert_eq!(client.send("GET", path, &headers).await.unwrap().0, status, "{headers:?}");
        }
    }
}

#[tokio::test]
async fn http_2_has_at_most_as_many_streams_as_the_limit_and_the_rest_wait_their_turn() {
    let app = TestApp::builder().secure().adjust(|config| config.limits.streams_per_connection = 3).start().await;
    let client = Multiplexed::connect(&app).await;
    assert_eq!(client.send("GET", "/", &[]).await.unwrap().0, 200);
    let hold = app.sandbox.hold(Endpoint::Token);
    let codes: Vec<_> = (0..8).map(|_| app.sandbox.issue_code("owner")).collect();
    let headers: Vec<_> = codes.iter().map(|code| [("idp-code", code.as_str())]).collect();
    let calls = futures_util::future::join_all(headers.iter().map(|header| client.send("POST", "/auth", header)));
    let (answers, ()) = tokio::join!(calls, async {
        hold.arrived(3).await;
        // On another connection, so that what the first one has is certainly seen.
        assert_eq!(app.anon().get("/").await.status, 200);
        assert_eq!(app.sandbox.calls(Endpoint::Token), 3);
        hold.release();
    });
    assert!(answers.into_iter().all(|answer| answer.unwrap().0 == 200));
}

#[tokio::test]
async fn an_idle_http_2_connection_is_closed_after_75_seconds() {
    let app = TestApp::builder().secure().start().await;
    let client = Multiplexed::connect(&app).await;
    assert_eq!(client.send("GET", "/", &[]).await.unwrap().0, 200);
    app.clock.advance(70 * SECOND);
    assert_eq!(client.send("GET", "/", &[]).await.unwrap().0, 200);
    eventually("it is closed", async || {
        app.clock.advance(76 * SECOND);
        client.ended.is_finished()
    })
    .await;
}

#[tokio::test]
async fn http_2_streams_in_flight_are_finished_by_a_drain_and_new_ones_refused() {
    let mut app = TestApp::builder().secure().set("limits.drain_timeout = \"10m\"").start().await;
    let client = Multiplexed::connect(&app).await;
    let idle = Multiplexed::connect(&app).await;
    assert_eq!(idle.send("GET", "/", &[]).await.unwrap().0, 200);
    let hold = app.sandbox.hold(Endpoint::Token);
    let code = app.sandbox.issue_code("owner");
    let headers = [("idp-code", code.as_str())];
    let (answer, ()) = tokio::join!(client.send("POST", "/auth", &headers), async {
        hold.arrived(1).await;
        app.stop();
        // The idle one is told to go (GOAWAY) and ends.
        idle.ended.await.unwrap().unwrap();
        eventually("new streams are refused", async || client.send("GET", "/", &[]).await.is_err()).await;
        hold.release();
    });
    assert_eq!(answer.unwrap().0, 200);
    client.ended.await.unwrap().unwrap();
    app.stopped().await;
}

#[tokio::test]
async fn plain_http_on_the_tls_port_gets_no_answer_and_breaks_nothing() {
    let app = TestApp::builder().secure().start().await;
    let mut plain = Wire::open(app.address).await;
    plain.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let rest = plain.rest().await;
    assert!(!rest.contains("HTTP/"), "{rest}");
    assert_eq!(app.anon().get("/").await.status, 200);
}

#[tokio::test]
async fn a_handshake_that_stalls_is_cut_by_the_clock() {
    let app = TestApp::builder().secure().start().await;
    let mut silent = Wire::open(app.address).await;
    silent.sent_away(&app, 11 * SECOND, 3).await;
    let mut half = Wire::open(app.address).await;
    // A 512-byte record that only partly arrives.
    half.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").await;
    half.sent_away(&app, 11 * SECOND, 3).await;
    assert_eq!(app.anon().get("/").await.status, 200);
}

#[tokio::test]
async fn a_client_that_stalls_after_its_handshake_is_cut_by_the_clock() {
    let app = TestApp::builder().secure().start().await;
    for protocol in ["h2", "http/1.1"] {
        let mut stream = handshake(&app, &[protocol]).await.unwrap();
        let mut rest = Vec::new();
        let end = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut rest);
        tokio::pin!(end);
        let mut over = false;
        eventually("it is cut", async || {
            app.clock.advance(11 * SECOND);
            over = over || tokio::time::timeout(Duration::from_millis(600), &mut end).await.is_ok();
            over
        })
        .await;
    }
}

#[test]
fn certificate_files_of_no_use_are_named_with_a_remedy() {
    let folder = Folder::new();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let made = || rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (one, other) = (made(), made());
    let cert = write("cert.pem", &one.cert.pem());
    let key = write("key.pem", &one.signing_key.serialize_pem());
    let other_key = write("other-key.pem", &other.signing_key.serialize_pem());
    let text = write("text.pem", "hello");
    let broken = write("broken.pem", "-----BEGIN CERTIFICATE-----\nnot base64!\n-----END CERTIFICATE-----\n");
    let absent = folder.path().join("absent.pem");
    let error = |cert: &std::path::Path, key: &std::path::Path| {
        server::acceptor(&TlsConfig { cert: cert.to_owned(), key: key.to_owned() }).err().unwrap().to_string()
    };
    for wrong in [&text, &broken, &absent, &key] {
        let said = error(wrong, &key);
        assert!(said.contains(&wrong.display().to_string()), "{said}");
        assert!(said.contains("tls.cert must name a PEM file with the certificate and its chain"), "{said}");
    }
    for wrong in [&text, &broken, &absent, &cert] {
        let said = error(&cert, wrong);
        assert!(said.contains(&wrong.display().to_string()), "{said}");
        assert!(said.contains("tls.key must name a PEM file with the private key"), "{said}");
    }
    let said = error(&cert, &other_key);
    assert!(said.starts_with("tls.cert and tls.key do not match"), "{said}");
    assert!(server::acceptor(&TlsConfig { cert, key }).is_ok());
}
