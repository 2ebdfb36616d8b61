//! Fuzz tests of whole requests: methods, paths, queries and headers, through the fast path and the router.

use std::io::Read;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bolero::check;
use bytes::Bytes;
use domain::Time;
use flate2::read::GzDecoder;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use runtime::clock::Clock;
use runtime::random::Random;
use serde_json::Value;
use telemetry::Version;
use test_support::TestFolder;
use test_support::inputs::{ITERATIONS, near};
use tokio::runtime::{Builder, Runtime};

use super::context::{Peer, REQUEST_ID};
use super::hot_request::HotRequest;
use super::pipeline::HttpService;
use crate::app::App;
use crate::config::{Config, Layer};
use crate::site::Language;

/// Requests: one line for the method and the target, and one for each header.
const REQUESTS: &[&[u8]] = &[
    b"GET /team\nhost: test\naccept-encoding: gzip, br;q=0.5, *;q=0\nif-none-match: W/\"abc\", \"def\", *",
    b"GET /feedback\nhost: test\naccept-encoding: identity;q=1, gzip;q=0",
    b"GET /\nhost: localhost:80\nsent-epoch: 0.5\norigin: https://example.com",
    b"GET /stats\nhost: [::1]:443\nx-forwarded-for: 203.0.113.9, 10.0.0.2\nx-request-id: aB3_-",
    b"GET /site/status?server=80351110224678912&x=%C3%A4\nhost: test\naccept-language: de-DE,de;q=0.9,en;q=0.8",
    b"GET /guilds\nhost: test\ntoken: bcs_Y004p6GQjzC6OnvIyCaSwSOetlS41FxG9G14\ncache-control: no-cache",
    b"OPTIONS /guilds\nhost: test\norigin: https://example.com\naccess-control-request-method: GET",
    b"PUT /bot/shards/2/1/guilds\nhost: test\nauthorization: Bearer bck_Y004p6GQjzC6OnvIyCaSwSOetlS41FxG9G14\nfeed-instance: a-1\nfeed-sequence: 1",
    b"POST /bot/events\nhost: test\nauthorization: bearer x\ncontent-encoding: gzip",
    b"GET /badge/status.svg\nhost: test\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    b"HEAD /site/dashboard\nhost: test\nsec-fetch-site: same-origin",
    b"DELETE /sessions/0123456789abcdef\nhost: test",
    b"GET /auth\nhost: test\nidp-redirect-uri: https://example.com/",
];

struct World {
    service: HttpService,
    runtime: Runtime,
    _folder: TestFolder,
}

impl World {
    /// A service with an empty store behind a trusted proxy, without rate limits.
    fn new() -> AssertUnwindSafe<Self> {
        let folder = TestFolder::new();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let configuration = format!(
            "[store]\nurl = \"sqlite:{}\"\n[http]\ntrusted_proxies = [\"10.0.0.0/8\"]\n\
             [limits]\nexempt = [\"0.0.0.0/0\", \"::/0\"]\n[feed]\nrefused_keys_per_minute = 0",
            folder.path("test.db").display()
        );
        let nothing = std::iter::empty::<(String, String)>();
        let config = Config::load_over(&[Layer::new("test", configuration)], None, nothing).unwrap();
        let clock = Clock::manual(Time::from_seconds(1));
        let app = runtime.block_on(App::build(config, clock, Random::seeded(1), Version::UNKNOWN)).unwrap();
        AssertUnwindSafe(Self { service: HttpService::new(Arc::new(app)), runtime, _folder: folder })
    }

    /// The response, from the fast path if that is allowed and possible.
    fn respond(&self, request: Request<Full<Bytes>>, may_be_fast: bool) -> (StatusCode, HeaderMap, Option<Bytes>) {
        let peer = Peer { address: [10, 0, 0, 1].into(), secure: false };
        self.runtime.block_on(async {
            if may_be_fast && let Some(response) = self.respond_fast(&request, peer) {
                return response;
            }
            let context = self.service.arrive(&request, peer);
            let response = self.service.clone().call(request, *context, || {}).await;
            let (parts, body) = response.into_parts();
            // A live stream does not end.
            let is_live = parts.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
            let body = if is_live { None } else { Some(body.collect().await.unwrap().to_bytes()) };
            (parts.status, parts.headers, body)
        })
    }

    /// The fast path's response to the same request in the bytes of HTTP/1.1.
    fn respond_fast(
        &self,
        request: &Request<Full<Bytes>>,
        peer: Peer,
    ) -> Option<(StatusCode, HeaderMap, Option<Bytes>)> {
        let mut sent = format!("{} {} HTTP/1.1\r\n", request.method(), request.uri()).into_bytes();
        for (name, value) in request.headers() {
            sent.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        sent.extend(b"\r\n");
        let request = HotRequest::parse(&sent).ok()?;
        let (response, _) = self.service.try_hot(&request, peer)?;
        let mut written = Vec::new();
        let rest = response.write(&mut written);
        let mut lines = [httparse::EMPTY_HEADER; 32];
        let mut parsed = httparse::Response::new(&mut lines);
        let head = parsed.parse(&written).unwrap().unwrap();
        let headers = parsed.headers.iter().map(|line| {
            (HeaderName::from_bytes(line.name.as_bytes()).unwrap(), HeaderValue::from_bytes(line.value).unwrap())
        });
        let status = StatusCode::from_u16(parsed.code.unwrap()).unwrap();
        Some((status, headers.collect(), Some([&written[head..], &rest].concat().into())))
    }

    /// The client of a request with these `X-Forwarded-For` lines.
    fn client(&self, lines: &[&[u8]]) -> Option<IpAddr> {
        let mut request = Request::get("/nowhere").header(header::HOST, "test").body(Full::<Bytes>::default()).unwrap();
        for line in lines {
            request.headers_mut().append("x-forwarded-for", HeaderValue::from_bytes(line).ok()?);
        }
        let peer = Peer { address: [10, 0, 0, 1].into(), secure: false };
        Some(self.service.arrive(&request, peer).client)
    }
}

/// The request in this text; `None` if hyper would refuse it.
fn request(text: &[u8]) -> Option<Request<Full<Bytes>>> {
    let mut lines = text.split(|byte| *byte == b'\n');
    let mut first = lines.next()?.splitn(2, |byte| *byte == b' ');
    let method = Method::from_bytes(first.next()?).ok()?;
    let target = Uri::try_from(first.next()?).ok()?;
    // A sign-in would call the provider.
    if method == Method::POST && target.path() == "/auth" {
        return None;
    }
    let mut request = Request::new(Full::default());
    (*request.method_mut(), *request.uri_mut()) = (method, target);
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        request.headers_mut().append(name, HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?);
    }
    Some(request)
}

/// All of a header's lines.
fn lines(headers: &HeaderMap, name: HeaderName) -> String {
    headers.get_all(name).iter().map(|line| String::from_utf8_lossy(line.as_bytes()).into_owned() + ",").collect()
}

fn check_response(asked: &HeaderMap, (status, headers, body): &(StatusCode, HeaderMap, Option<Bytes>)) {
    assert!(*status != StatusCode::INTERNAL_SERVER_ERROR, "{headers:?}");
    let Some(body) = body else { return };
    if *status == StatusCode::NOT_MODIFIED {
        let tag = headers[header::ETAG].to_str().unwrap();
        let known = lines(asked, header::IF_NONE_MATCH);
        assert!(body.is_empty() && (known.contains('*') || known.contains(tag)), "{known} does not name {tag}");
    }
    let is_gzip = headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding == "gzip");
    let mut plain = Vec::new();
    if is_gzip {
        let accepted = lines(asked, header::ACCEPT_ENCODING).to_ascii_lowercase();
        assert!(accepted.contains("gzip") || accepted.contains('*'), "{accepted} does not ask for gzip");
        if !body.is_empty() {
            GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
        }
    } else {
        plain.extend_from_slice(body);
    }
    let is_json = headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if is_json && !plain.is_empty() {
        let answer: Value = serde_json::from_slice(&plain).unwrap();
        assert!(!status.is_client_error() || answer["code"] == status.as_u16());
    }
}

#[test]
fn fuzz_requests() {
    let world = World::new();
    let ask = |world: &World, input: &[u8]| {
        let Some(asked) = request(input) else { return };
        // The router goes first and fills the cache.
        let (routed, cached) = (world.respond(asked.clone(), false), world.respond(asked.clone(), true));
        check_response(asked.headers(), &routed);
        check_response(asked.headers(), &cached);
        assert_eq!(routed.0, cached.0, "the fast path and the router disagree");
        if routed.0.is_success() {
            // Each request has its own id. The router writes the length, the fast path leaves that to hyper.
            let comparable = |mut headers: HeaderMap| {
                headers.remove(REQUEST_ID);
                headers.remove(header::CONTENT_LENGTH);
                headers
            };
            assert_eq!(comparable(routed.1), comparable(cached.1));
            assert_eq!(routed.2, cached.2);
        }
    };
    check!().with_iterations(ITERATIONS).with_generator(near(REQUESTS)).for_each(|input| ask(&world, input));
}

#[test]
fn fuzz_forwarded_for() {
    const SAMPLES: &[&[u8]] = &[
        b"203.0.113.9, 10.0.0.2",
        b"[2001:db8::1]:443",
        b"::ffff:203.0.113.9",
        b"nonsense, 198.51.100.1:4711, 10.9.9.9",
    ];
    let world = World::new();
    let ask = |world: &World, input: &[u8]| {
        let Some(client) = world.client(&[input]) else { return };
        assert_eq!(client, client.to_canonical());
        let last: IpAddr = [203, 0, 113, 77].into();
        // Whatever the client wrote, what the proxy appended decides.
        assert_eq!(world.client(&[input, b"203.0.113.77"]), Some(last));
        assert_eq!(world.client(&[&[input, b", 203.0.113.77, 10.1.1.1"].concat()]), Some(last));
    };
    check!().with_iterations(ITERATIONS).with_generator(near(SAMPLES)).for_each(|input| ask(&world, input));
}

#[test]
fn fuzz_languages() {
    const SAMPLES: &[&[u8]] = &[b"de-DE,de;q=0.9,en;q=0.8", b"fr, de;q=0.5, en;q=0.4", b"*"];
    check!().with_iterations(ITERATIONS).with_generator(near(SAMPLES)).for_each(|input| {
        let accepted = String::from_utf8_lossy(input);
        let is_asked_for = accepted.to_ascii_lowercase().contains("de");
        assert!(is_asked_for || Language::preferred(&accepted) == Language::English);
    });
}
