//! The client against the sandbox, over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod connections;
mod logging;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use bot_companion_provider::idp::{Endpoint, Grant, IdpError, IdpErrorKind, Provider, ProviderOptions};
use domain::{ListedGuild, Time};
use runtime::client_key::ClientKey;
use runtime::clock::Clock;
use sandbox::{Fault, Sandbox, SandboxOptions, people};
use secrecy::SecretString;
use socket2::{Domain, Socket, Type};

const REDIRECT: &str = "https://dash.example/callback";
const START: Time = Time::from_seconds(1_700_000_000);

/// Where sign-ins come from.
fn network() -> ClientKey {
    ClientKey::network_of([192, 0, 2, 1].into())
}

struct World {
    sandbox: Arc<Sandbox>,
    provider: Provider,
    clock: Clock,
}

fn options(base_url: String, clock: &Clock) -> ProviderOptions {
    ProviderOptions {
        base_url,
        client_id: "41771983423143937".to_owned(),
        client_secret: "client-secret".into(),
        connect_timeout: Duration::from_secs(3),
        sign_in_timeout: Duration::from_secs(12),
        list_timeout: Duration::from_secs(8),
        failure_budget: 1000,
        version: "0.0.0".to_owned(),
        clock: clock.clone(),
    }
}

fn world_with(adjust: impl FnOnce(&mut ProviderOptions)) -> World {
    let clock = Clock::manual(START);
    let sandbox_options = SandboxOptions {
        client_id: "41771983423143937".to_owned(),
        client_secret: "client-secret".into(),
        redirect_uris: Vec::new(),
        people: people::demo(),
        service_url: None,
        clock: clock.clone(),
        token_key: SecretString::from("token key"),
    };
    let sandbox = Sandbox::start(TcpListener::bind("127.0.0.1:0").unwrap(), sandbox_options).unwrap();
    let mut options = options(sandbox.base_url(), &clock);
    adjust(&mut options);
    World { provider: Provider::new(options).unwrap(), sandbox, clock }
}

fn world() -> World {
    world_with(|_| ())
}

impl World {
    async fn exchange(&self, code: &str) -> Result<Grant, IdpError> {
        self.provider.exchange(Some(network()), &code.into(), None, REDIRECT).await
    }

    /// The kind of failure of a sign-in with this fault, and whether the code may be used up.
    async fn meets(&self, fault: Fault) -> (IdpErrorKind, bool) {
        self.sandbox.fail_times(Endpoint::Token, fault, 1);
        let error = self.exchange(&self.sandbox.issue_code("owner")).await.unwrap_err();
        assert!(!error.to_string().contains("sandboxcode_"), "{error}");
        (error.kind, error.code_spent)
    }
}

fn status(code: u16, body: &str) -> Fault {
    Fault::Status { code, body: body.to_owned(), headers: vec![] }
}

#[tokio::test]
async fn a_sign_in_from_code_to_revocation() {
    let world = world();
    let grant = world.exchange(&world.sandbox.issue_code("owner")).await.unwrap();
    assert_eq!(grant.scopes, ["identify", "guilds"]);
    assert_eq!(grant.expires, START.after(Duration::from_hours(7 * 24)));

    let user = world.provider.user(Some(network()), &grant.access_token).await.unwrap();
    assert_eq!(
        (user.id, user.name.as_str(), user.username.as_str()),
        (people::id(people::OWNER), "Marlow Quay", "marlow.quay")
    );
    assert!(user.avatar.stored().starts_with("https://cdn.discordapp.com/embed/avatars/"));
    let guilds = world.provider.guilds(&grant.access_token).await.unwrap();
    assert_eq!(guilds.len(), 4);
    assert_eq!(guilds[0].id, people::id(people::HARBOUR.id));
    assert_eq!(guilds[0].permissions & 0x28, 0x28);

    let next = world.provider.refresh(&grant.refresh_token).await.unwrap();
    assert_eq!(world.provider.refresh(&grant.refresh_token).await.unwrap_err().kind, IdpErrorKind::Rejected);
    world.provider.user(Some(network()), &next.access_token).await.unwrap();

    world.provider.revoke(&next.refresh_token).await.unwrap();
    assert_eq!(
        world.provider.user(Some(network()), &next.access_token).await.unwrap_err().kind,
        IdpErrorKind::Unauthorized
    );
    assert_eq!(world.provider.refresh(&next.refresh_token).await.unwrap_err().kind, IdpErrorKind::Rejected);
    assert_eq!(
        [Endpoint::Token, Endpoint::User, Endpoint::Guilds, Endpoint::Revoke].map(|at| world.sandbox.calls(at)),
        [4, 3, 1, 1]
    );
}

#[tokio::test]
async fn every_answer_to_an_exchange_has_its_meaning() {
    use IdpErrorKind::{Misconfigured, RateLimited, RedirectRefused, Refused, Rejected, Unavailable};
    let limited = |retry_after, json, global| Fault::RateLimited { retry_after, json, global };
    for (fault, expected) in [
        (Fault::InvalidGrant, (Rejected, true)),
        (Fault::InvalidClient, (Misconfigured, false)),
        (Fault::Unauthorized, (Misconfigured, false)),
        (
            status(400, r#"{"error":"invalid_request","error_description":"Invalid \"redirect_uri\" in request."}"#),
            (RedirectRefused, true),
        ),
        (status(403, "<html>"), (Refused, true)),
        (status(500, "{}"), (Unavailable, true)),
        (status(302, ""), (Unavailable, true)),
        (Fault::Nonsense, (Unavailable, true)),
        (status(200, "{}"), (Unavailable, true)),
        (Fault::Truncated, (Unavailable, true)),
        (Fault::Huge, (Unavailable, true)),
        (Fault::Refuse, (Unavailable, true)),
        (limited(Some(0.65), true, false), (RateLimited(Duration::from_millis(650)), false)),
        (limited(Some(7.0), false, false), (RateLimited(Duration::from_secs(7)), false)),
        (limited(None, false, false), (RateLimited(Duration::from_secs(5)), false)),
        (limited(Some(1e9), true, true), (RateLimited(Duration::from_hours(1)), false)),
    ] {
        let label = format!("{fault:?}");
        assert_eq!(world().meets(fault).await, expected, "{label}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let world = world();
    let to = format!("{}/oauth2/token", world.sandbox.base_url());
    let fault = Fault::Status { code: 307, body: String::new(), headers: vec![("location".to_owned(), to)] };
    assert_eq!(world.meets(fault).await, (IdpErrorKind::Unavailable, true));
    assert_eq!(world.sandbox.calls(Endpoint::Token), 1);
}

#[tokio::test]
async fn silence_is_a_timeout_that_may_have_used_the_code() {
    let world = world_with(|options| {
        options.sign_in_timeout = Duration::from_millis(500);
        options.list_timeout = Duration::from_millis(50);
    });
    assert_eq!(world.meets(Fault::Hang).await, (IdpErrorKind::Timeout, true));
    assert_eq!(world.exchange("slow").await.unwrap_err().kind, IdpErrorKind::Timeout);
    world.sandbox.fail(Endpoint::Guilds, Fault::Hang);
    assert_eq!(world.provider.guilds(&"any".into()).await.unwrap_err().kind, IdpErrorKind::Timeout);
}

#[tokio::test]
async fn a_failed_connect_uses_nothing_up() {
    // Bound but never listening: the port refuses, and nobody else can take it in the meantime.
    let silent = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    silent.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = silent.local_addr().unwrap().as_socket().unwrap();
    let closed = Provider::new(options(format!("http://{address}"), &Clock::manual(START))).unwrap();
    let error = closed.exchange(Some(network()), &"owner".into(), None, REDIRECT).await.unwrap_err();
    assert_eq!((error.kind, error.code_spent), (IdpErrorKind::Unavailable, false), "{error}");
}

#[tokio::test]
async fn a_connect_that_takes_too_long_uses_nothing_up() {
    // It accepts TCP and then never speaks TLS, which is still part of connecting.
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut slow = options(format!("https://{}", mute.local_addr().unwrap()), &Clock::manual(START));
    slow.connect_timeout = Duration::from_millis(50);
    let error =
        Provider::new(slow).unwrap().exchange(Some(network()), &"owner".into(), None, REDIRECT).await.unwrap_err();
    assert_eq!((error.kind, error.code_spent), (IdpErrorKind::Timeout, false), "{error}");
}

#[tokio::test]
async fn bearer_answers_have_their_meaning() {
    let world = world();
    let access: SecretString = world.exchange("owner").await.unwrap().access_token;
    assert_eq!(
        world.provider.user(Some(network()), &"unknown".into()).await.unwrap_err().kind,
        IdpErrorKind::Unauthorized
    );
    assert_eq!(world.provider.guilds(&"not\r\na: header".into()).await.unwrap_err().kind, IdpErrorKind::Unavailable);
    for (fault, kind) in [
        (Fault::Unauthorized, IdpErrorKind::Unauthorized),
        (status(403, r#"{"message":"Missing Access","code":50001}"#), IdpErrorKind::Refused),
        (status(502, "<html>"), IdpErrorKind::Unavailable),
        (Fault::Truncated, IdpErrorKind::Unavailable),
        (Fault::Huge, IdpErrorKind::Unavailable),
        (
            Fault::RateLimited { retry_after: Some(1.0), json: true, global: false },
            IdpErrorKind::RateLimited(Duration::from_secs(1)),
        ),
    ] {
        for endpoint in [Endpoint::User, Endpoint::Guilds] {
            world.sandbox.fail_times(endpoint, fault.clone(), 1);
        }
        assert_eq!(world.provider.user(Some(network()), &access).await.unwrap_err().kind, kind, "{fault:?}");
        assert_eq!(world.provider.guilds(&access).await.unwrap_err().kind, kind, "{fault:?}");
    }
    world.provider.guilds(&access).await.expect("one user's limit holds nobody else");
    world.clock.advance(Duration::from_hours(7 * 24));
    assert_eq!(
        world.provider.user(Some(network()), &access).await.unwrap_err().kind,
        IdpErrorKind::Unauthorized,
        "expired"
    );
}

#[tokio::test]
async fn one_broken_guild_is_left_out() {
    let world = world();
    let body = r#"[{"id":"broken"},{"id":"871203344918732833","permissions":"32","owner":true}]"#;
    world.sandbox.fail(Endpoint::Guilds, status(200, body));
    let guilds = world.provider.guilds(&"any".into()).await.unwrap();
    assert_eq!(
        guilds,
        [ListedGuild { id: people::id(people::HARBOUR.id), permissions: 32, name: String::new(), icon: None }]
    );
}

#[tokio::test]
async fn an_open_breaker_makes_no_calls_until_it_tries_again() {
    let world = world();
    world.sandbox.fail(Endpoint::Token, status(503, ""));
    for _ in 0..5 {
        assert!(world.exchange("owner").await.unwrap_err().code_spent);
    }
    let error = world.exchange("owner").await.unwrap_err();
    assert_eq!((error.kind, error.code_spent), (IdpErrorKind::CircuitOpen(Duration::from_secs(5)), false));
    assert_eq!(world.sandbox.calls(Endpoint::Token), 5);
    world.sandbox.heal(Endpoint::Token);
    world.clock.advance(Duration::from_secs(5));
    world.exchange("owner").await.unwrap();
}

#[tokio::test]
async fn refused_codes_never_open_the_breaker() {
    let world = world();
    for _ in 0..20 {
        assert_eq!(world.exchange("refused").await.unwrap_err().kind, IdpErrorKind::Rejected);
    }
    world.exchange("owner").await.unwrap();
}

#[tokio::test]
async fn a_probe_whose_caller_left_makes_room() {
    let world = world();
    world.sandbox.fail_times(Endpoint::Token, status(503, ""), 5);
    for _ in 0..5 {
        world.exchange("owner").await.unwrap_err();
    }
    world.clock.advance(Duration::from_secs(5));
    let hold = world.sandbox.hold(Endpoint::Token);
    tokio::select! {
        _ = world.exchange("owner") => panic!("it is held"),
        () = hold.arrived(1) => {}
    }
    hold.release();
    world.exchange("owner").await.unwrap();
}

#[tokio::test]
async fn limits_hold_as_far_as_they_reach() {
    let world = world();
    let access = world.exchange("owner").await.unwrap().access_token;
    assert_eq!(
        world.exchange("rate-limited").await.unwrap_err().kind,
        IdpErrorKind::RateLimited(Duration::from_secs(2))
    );
    assert_eq!(world.exchange("owner").await.unwrap_err().kind, IdpErrorKind::BackingOff(Duration::from_secs(2)));
    world.provider.user(Some(network()), &access).await.expect("it was about the token endpoint");
    world.clock.advance(Duration::from_secs(2));
    assert_eq!(
        world.exchange("edge-limited").await.unwrap_err().kind,
        IdpErrorKind::RateLimited(Duration::from_secs(5))
    );
    assert_eq!(
        world.provider.user(Some(network()), &access).await.unwrap_err().kind,
        IdpErrorKind::BackingOff(Duration::from_secs(5))
    );
    assert_eq!(world.sandbox.calls(Endpoint::Token), 3);
    world.clock.advance(Duration::from_secs(5));
    world.provider.user(Some(network()), &access).await.unwrap();
}

#[tokio::test]
async fn the_budget_ends_all_calls() {
    let world = world_with(|options| options.failure_budget = 4);
    let gone = "gone".into();
    for network in 1..=3 {
        let network = Some(ClientKey::network_of([198, 51, network, 1].into()));
        assert_eq!(world.provider.user(network, &gone).await.unwrap_err().kind, IdpErrorKind::Unauthorized);
    }
    assert_eq!(world.provider.guilds(&gone).await.unwrap_err().kind, IdpErrorKind::Unauthorized);
    let error = world.exchange("owner").await.unwrap_err();
    assert_eq!((error.kind, error.code_spent), (IdpErrorKind::BackingOff(Duration::from_mins(10)), false));
    assert_eq!(world.sandbox.calls(Endpoint::Token), 0);
}

#[tokio::test]
async fn a_code_that_is_refused_as_codes_are_spends_nothing() {
    let world = world_with(|options| options.failure_budget = 4);
    for number in 0..20 {
        let error = world.exchange(&format!("guess-{number}")).await.unwrap_err();
        assert_eq!(error.kind, IdpErrorKind::Rejected);
    }
    assert_eq!((world.provider.state().budget_remaining, world.sandbox.calls(Endpoint::Token)), (4, 20));
}

#[test]
fn a_code_is_made_of_what_the_providers_codes_are_made_of() {
    let all: Vec<u8> = (0..=255).filter(|byte| Provider::may_be_code(&[*byte])).collect();
    assert_eq!(all, b"-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~");
    let verifiers: Vec<u8> = (0..=255).filter(|byte| Provider::may_be_verifier(&[*byte])).collect();
    assert_eq!(verifiers, all);
    for (length, fits) in [(512, true), (513, false)] {
        assert_eq!(
            (Provider::may_be_code(&vec![b'x'; length]), Provider::may_be_verifier(&vec![b'x'; length])),
            (fits, fits)
        );
    }
}

#[tokio::test]
async fn wrong_credentials_are_our_fault() {
    let world = world_with(|options| options.client_secret = "another".into());
    for result in [world.exchange("owner").await.map(|_| ()), world.provider.revoke(&"any".into()).await] {
        let error = result.unwrap_err();
        assert_eq!((error.kind, error.code_spent), (IdpErrorKind::Misconfigured, false));
        assert!(!error.to_string().contains("another"));
    }
}

#[tokio::test]
async fn nothing_is_ever_sent_twice() {
    let world = world();
    world.exchange("owner").await.unwrap();
    for (sent, fault) in [(2, Fault::Refuse), (3, Fault::Truncated), (4, status(503, ""))] {
        world.meets(fault).await;
        assert_eq!(world.sandbox.calls(Endpoint::Token), sent);
    }
}
