use std::io;
use std::path::Path;
use std::time::Duration;

use domain::Time;
use provider::idp::{IdpError, IdpErrorKind};
use store::ServerLook;

use super::findings;
use super::findings::CheckedPort::{Admin, DefaultAdmin, Service};
use crate::cli::check_line::CheckStatus::{Failed, Fine, Warning};
use crate::cli::check_line::{CheckLine, CheckStatus};
use crate::config::ListenAddress;
use crate::server::CertificateFacts;

const NOW: Time = Time::from_seconds(1_794_784_620);
const HOUR: Duration = Duration::from_hours(1);

/// Expects this status, and this part in the text.
fn expect(line: &CheckLine, status: CheckStatus, part: &str) {
    assert!(line.status == status && line.text.contains(part), "{line:?}");
}

#[test]
fn ports() {
    let listen: ListenAddress = "127.0.0.1:443".parse().unwrap();
    for (port, kind, is_ours, status, part) in [
        (Service, io::ErrorKind::AddrInUse, true, Fine, "in use by a running bot-companion"),
        (Service, io::ErrorKind::AddrInUse, false, Failed, "another program listens there"),
        (Admin, io::ErrorKind::AddrInUse, false, Failed, "set admin.listen"),
        (DefaultAdmin, io::ErrorKind::AddrInUse, false, Warning, "another program listens there"),
        (Service, io::ErrorKind::PermissionDenied, false, Failed, "CAP_NET_BIND_SERVICE"),
        (Service, io::ErrorKind::AddrNotAvailable, true, Failed, "set http.listen"),
    ] {
        expect(&findings::port(port, &listen, &kind.into(), is_ours), status, part);
    }
}

#[test]
fn schemas() {
    for (found, status, part) in [
        (0, Fine, "the first start creates them"),
        (7, Fine, "as this release expects"),
        (6, Warning, "make a backup first"),
        (8, Failed, "run the newer release"),
        (-1, Failed, "restore a backup"),
    ] {
        expect(&findings::schema(found, 7), status, part);
    }
}

#[test]
fn what_a_database_server_allows() {
    let look = |schema: Option<&str>, may_create, connections| ServerLook {
        role: "me".to_owned(),
        schema: schema.map(ToOwned::to_owned),
        may_create,
        connections: (connections, "max_connections"),
    };
    expect(&findings::role(&look(Some("public"), true, 0)), Fine, "`me` may create tables");
    expect(&findings::role(&look(Some("public"), false, 0)), Failed, "GRANT CREATE ON SCHEMA public TO me");
    expect(&findings::role(&look(None, false, 0)), Failed, "search_path");
    expect(&findings::connections(&look(None, true, 18), 16), Fine, "18 of at most 18");
    expect(&findings::connections(&look(None, true, 17), 16), Failed, "raise max_connections");
}

#[test]
fn keys() {
    let (one, two) = ("one".to_owned(), "two".to_owned());
    let grants = [(one.clone(), 3), (two.clone(), 4)];
    expect(&findings::keys(&[one.clone(), two], None, &grants), Fine, "all 7 grants can be read");
    expect(&findings::keys(&[one], None, &grants), Failed, "4 grants in the database cannot be read");
    expect(
        &findings::keys(&[], Some(Path::new("a.key")), &grants),
        Failed,
        "the key file a.key is missing; put it back",
    );
    expect(&findings::keys(&[], Some(Path::new("a.key")), &[]), Fine, "the first start creates one at a.key");
}

#[test]
fn bots() {
    expect(&findings::bot(None, NOW), Warning, "bot-companion key create");
    expect(&findings::bot(Some(NOW.before(Duration::from_mins(1))), NOW), Fine, "60 s ago");
    expect(&findings::bot(Some(NOW.before(Duration::from_secs(90))), NOW), Warning, "the bot is silent");
    expect(&findings::bot(Some(NOW.before(HOUR)), NOW), Warning, "the bot is silent");
}

#[test]
fn providers() {
    let of = |kind| {
        let error = IdpError { kind, code_spent: false, detail: "the detail".to_owned() };
        findings::provider("https://idp.example", "https://a.example/callback", &Err(error))
    };
    for (kind, name, status, part) in [
        (IdpErrorKind::Rejected, "credentials", Fine, "accepted"),
        (IdpErrorKind::Misconfigured, "credentials", Failed, "the detail; compare idp.client_id"),
        (IdpErrorKind::RedirectRefused, "credentials", Failed, "register exactly https://a.example/callback"),
        (IdpErrorKind::RateLimited(Duration::from_secs(7)), "credentials", Warning, "try again in 7 s"),
        (IdpErrorKind::Refused, "credentials", Failed, "idp.base_url"),
        (IdpErrorKind::Unavailable, "provider", Failed, "the detail; check idp.base_url, name resolution"),
        (IdpErrorKind::Timeout, "provider", Failed, "outgoing HTTPS"),
        (IdpErrorKind::CircuitOpen(Duration::from_secs(7)), "provider", Failed, "the detail; check idp.base_url"),
    ] {
        let lines = of(kind);
        let last = lines.last().unwrap();
        assert_eq!(last.name, name, "{lines:?}");
        expect(last, status, part);
    }
    assert!(findings::provider("x", "y", &Ok(())).iter().any(CheckLine::has_failed));
}

#[test]
fn clocks() {
    let second = Duration::from_secs(1);
    for (date, status, part) in [
        (NOW, Fine, "agrees"),
        (NOW.after(20 * second), Fine, "agrees"),
        (NOW.before(20 * second), Fine, "agrees"),
        (NOW.after(100 * second), Warning, "98 s behind the provider's"),
        (NOW.before(100 * second), Warning, "99 s ahead of the provider's"),
        (NOW.after(HOUR), Failed, "NTP"),
        (NOW.before(HOUR), Failed, "NTP"),
    ] {
        expect(&findings::clock(date, NOW, NOW.after(2 * second)), status, part);
    }
}

#[test]
fn certificates() {
    let facts = |names: &[&str], from: Time, expires: Time| CertificateFacts {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        valid_from: from,
        expires,
    };
    let path = Path::new("chain.pem");
    let of = |facts: &CertificateFacts| findings::certificate(path, Some(facts), NOW);
    let (past, later) = (NOW.before(HOUR), NOW.after(1_000 * HOUR));
    expect(
        &of(&facts(&["a.example"], past, later)),
        Fine,
        "chain.pem is for a.example and valid until 2026-12-27T15:17:00Z",
    );
    expect(&of(&facts(&["a.example"], past, NOW.after(HOUR))), Warning, "renew it");
    expect(&of(&facts(&["a.example"], past, past)), Failed, "expired at");
    expect(&of(&facts(&["a.example"], NOW.after(HOUR), later)), Failed, "not valid before");
    expect(&of(&facts(&[], past, later)), Failed, "names nobody");
    expect(&findings::certificate(path, None, NOW), Warning, "cannot be read here");
}
