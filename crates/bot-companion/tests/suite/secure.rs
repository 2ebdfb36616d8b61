//! HTTPS: the header that pins it, and HTTP/2 for clients that ask for it.

use std::sync::Arc;

use bytes::Bytes;
use h2::RecvStream;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::harness::{ORIGIN, TestApp, guild, listed};

/// A connection that speaks HTTP/2, because both sides chose it during the handshake.
struct Http2(h2::client::SendRequest<Bytes>);

impl Http2 {
    async fn connect(app: &TestApp) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(app.folder.path().join("cert.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let stream = TcpStream::connect(app.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> (StatusCode, HeaderMap, String) {
        let (parts, mut body) = self.open(method, path, headers).await.into_parts();
        let mut text = String::new();
        while let Some(chunk) = next_data(&mut body).await {
            text.push_str(&chunk);
        }
        (parts.status, parts.headers, text)
    }

    /// The response, whose body is still to come.
    async fn open(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Response<RecvStream> {
        let mut request = Request::builder().method(method).uri(format!("https://localhost{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut sender = self.0.clone().ready().await.unwrap();
        let (response, _) = sender.send_request(request.body(()).unwrap(), true).unwrap();
        response.await.unwrap()
    }
}

async fn next_data(body: &mut RecvStream) -> Option<String> {
    let chunk = body.data().await?.unwrap();
    body.flow_control().release_capacity(chunk.len()).unwrap();
    Some(String::from_utf8(chunk.to_vec()).unwrap())
}

#[tokio::test]
async fn under_tls_every_answer_pins_https() {
    let app = TestApp::builder().secure().start().await;
    for path in ["/", "/", "/team", "/guilds", "/none"] {
        let answer = app.anon().get(path).await;
        assert_eq!(answer.header("strict-transport-security"), "max-age=31536000", "{path}");
        assert_eq!(answer.version, reqwest::Version::HTTP_11, "a client without HTTP/2 is served too");
    }
}

#[tokio::test]
async fn http2_works_for_get_head_and_post() {
    let app = TestApp::builder().secure().start().await;
    app.sandbox.edit("member", |person| person.guilds = vec![listed(1, 0)]);
    app.bot_says([domain::Change::Guild(guild(1, "one", 7))]).await;
    let wire = Http2::connect(&app).await;
    let code = app.sandbox.issue_code("member");
    let (status, headers, body) = wire.send(Method::POST, "/auth", &[("idp-code", &code), ("origin", ORIGIN)]).await;
    assert_eq!((status, &headers["access-control-allow-origin"]), (StatusCode::OK, &ORIGIN.parse().unwrap()), "{body}");
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    let token = body["data"]["token"].as_str().unwrap();
    for path in ["/guilds", "/", "/team", "/feedback", "/none"] {
        // Cold and warm.
        for _ in 0..2 {
            let (status, headers, body) = wire.send(Method::GET, path, &[("token", token)]).await;
            assert_eq!(status == StatusCode::OK, path != "/none");
            assert_eq!(&headers["strict-transport-security"], "max-age=31536000");
            assert!(body.starts_with(&format!("{{\"code\":{},", status.as_u16())), "{body}");
            let (head_status, head_headers, nothing) = wire.send(Method::HEAD, path, &[("token", token)]).await;
            assert_eq!((head_status, nothing.as_str()), (status, ""));
            assert_eq!(head_headers["content-length"], body.len().to_string().as_str(), "{path}");
        }
    }
    let (status, ..) = wire.send(Method::DELETE, "/auth", &[("token", token)]).await;
    assert_eq!(status, StatusCode::OK);
    let (status, ..) = wire.send(Method::GET, "/guilds", &[("token", token)]).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn http2_headers_over_the_bounds_are_refused_and_the_connection_goes_on() {
    let app = TestApp::builder().secure().start().await;
    let wire = Http2::connect(&app).await;
    let long = "a".repeat(1_000);
    // The second is over the parser's bound, too.
    for count in [20, 70] {
        let headers = vec![("x-long", long.as_str()); count];
        let (status, ..) = wire.send(Method::GET, "/team", &headers).await;
        assert_eq!(status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "{count}");
    }
    let (status, ..) = wire.send(Method::GET, "/team", &[]).await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn a_page_of_the_sites_own_is_known_over_http2_which_has_no_host() {
    let redirects = "[http]\nallowed_origins = [\"https://dashboard.example\", \"https://localhost\"]\n[idp]\nredirect_uri = \
                     [\"https://dashboard.example/callback\", \"https://localhost/site/dashboard\"]";
    let app = TestApp::builder().secure().set(redirects).start().await;
    let wire = Http2::connect(&app).await;
    let (_, _, options) = wire.send(Method::GET, "/auth", &[("sec-fetch-site", "same-origin")]).await;
    assert!(options.contains("\"redirect_uri\":\"https://localhost/site/dashboard\""), "{options}");
    let (_, _, page) = wire.send(Method::GET, "/site/dashboard", &[]).await;
    assert!(page.contains("id=\"sign-in\""), "{page}");
}

#[tokio::test]
async fn http2_preflights_and_304_have_no_body() {
    let app = TestApp::builder().secure().start().await;
    let wire = Http2::connect(&app).await;
    let asks = [("origin", ORIGIN), ("access-control-request-method", "GET")];
    let (status, headers, body) = wire.send(Method::OPTIONS, "/guilds", &asks).await;
    assert_eq!((status, body.as_str()), (StatusCode::NO_CONTENT, ""));
    assert_eq!(&headers["access-control-max-age"], "7200");
    let (_, headers, _) = wire.send(Method::GET, "/team", &[]).await;
    let etag = headers["etag"].to_str().unwrap();
    for method in [Method::GET, Method::HEAD] {
        let (status, headers, body) = wire.send(method, "/team", &[("if-none-match", etag)]).await;
        assert_eq!((status, body.as_str()), (StatusCode::NOT_MODIFIED, ""));
        assert!(!headers.contains_key("content-length"), "{headers:?}");
    }
}

#[tokio::test]
async fn a_live_stream_and_other_requests_share_an_http2_connection() {
    let app = TestApp::builder().secure().start().await;
    let wire = Http2::connect(&app).await;
    let mut stream = wire.open(Method::GET, "/live", &[]).await.into_body();
    let mut text = String::new();
    while !text.contains("\n\n") {
        text.push_str(&next_data(&mut stream).await.unwrap());
    }
    assert!(text.contains("event: changed"), "{text}");
    assert_eq!(wire.send(Method::GET, "/team", &[]).await.0, StatusCode::OK);
    app.app.live.close();
    while let Some(rest) = next_data(&mut stream).await {
        assert!(!rest.contains("event: "), "it ends: {rest}");
    }
    assert_eq!(wire.send(Method::GET, "/team", &[]).await.0, StatusCode::OK, "and the connection does not");
}
