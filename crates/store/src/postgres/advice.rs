//! What an operator can do about an error of the database server.

use std::io::ErrorKind;

/// Goes by the server's own error code or, without one, by the error of the system or of TLS.
pub(super) fn of(code: Option<&str>, kind: Option<ErrorKind>, text: &str) -> Option<&'static str> {
    match code {
        Some(code) => of_code(code),
        None => of_text(text).or_else(|| kind.and_then(of_kind)),
    }
}

fn of_code(code: &str) -> Option<&'static str> {
    Some(match code {
        "28P01" => "correct the user and the password in store.url (or in the file that store.url_file names)",
        "28000" => {
            "the server does not accept this user from this machine: correct store.url, or add a line to its pg_hba.conf"
        }
        "3D000" => "create the database (`createdb`), or correct its name in store.url",
        "42501" => "make the role in store.url the owner of the database, or grant it what it needs",
        "53300" => "lower store.connections, or raise the server's max_connections",
        "53100" => "free some space on the server's disk",
        "53200" => "the server is out of memory",
        "57P01" | "57P02" | "57P03" => "the server is stopping or starting; retrying",
        "XX001" | "XX002" => {
            "its data is damaged: see CompanionStoreDamaged in the documentation, under Alerts; `REINDEX` repairs an index, a backup the rest"
        }
        "25006" => "this server is read-only: add the primary to store.url",
        _ => return None,
    })
}

fn of_text(text: &str) -> Option<&'static str> {
    const TEXTS: [(&str, &str); 8] = [
        ("failed to lookup address", "correct the host in store.url, or find out why its name cannot be resolved here"),
        (
            "does not support TLS",
            "turn on TLS on the server (`ssl = on`), or use `sslmode=disable`, but only on a network that you trust",
        ),
        ("UnknownIssuer", "name the authority's certificate with `sslrootcert=FILE` in store.url"),
        ("NotValidForName", "write the host in store.url as the server's certificate names it"),
        ("certificate not valid for name", "write the host in store.url as the server's certificate names it"),
        ("Expired", "renew the server's certificate, and check this machine's clock"),
        ("TLS handshake", "check the server's certificate, and `sslmode` and `sslrootcert` in store.url"),
        ("connection is not read-write", "this server is read-only: add the primary to store.url"),
    ];
    TEXTS.into_iter().find(|(part, _)| text.contains(part)).map(|(_, advice)| advice)
}

fn of_kind(kind: ErrorKind) -> Option<&'static str> {
    Some(match kind {
        ErrorKind::ConnectionRefused => {
            "nothing is listening there: start the database, and check that it listens on that address and port (listen_addresses, \
             port)"
        }
        ErrorKind::NotFound => "there is no such socket: start the database, or correct the folder in store.url",
        ErrorKind::PermissionDenied => "the service's user cannot use the socket: check its permissions",
        ErrorKind::TimedOut => "it does not answer: check host and port in store.url, and the firewalls in between",
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => "check the host in store.url, and the network",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_advice() {
        for (code, kind, text, expected) in [
            (Some("28P01"), None, "", Some("the password in store.url")),
            (Some("28000"), None, "", Some("pg_hba.conf")),
            (Some("3D000"), None, "", Some("createdb")),
            (Some("53300"), None, "", Some("max_connections")),
            (Some("53100"), None, "", Some("disk")),
            (Some("42501"), None, "", Some("owner of the database")),
            (Some("XX001"), None, "", Some("CompanionStoreDamaged")),
            (Some("XX002"), None, "", Some("REINDEX")),
            (Some("40001"), None, "failed to lookup address", None),
            (None, None, "error connecting to server: failed to lookup address information: x", Some("be resolved")),
            (None, Some(ErrorKind::ConnectionRefused), "error connecting to server: refused", Some("listen_addresses")),
            (None, Some(ErrorKind::NotFound), "error connecting to server", Some("socket")),
            (None, Some(ErrorKind::TimedOut), "error connecting to server", Some("firewalls")),
            (None, None, "error performing TLS handshake: server does not support TLS", Some("`ssl = on`")),
            (
                None,
                Some(ErrorKind::InvalidData),
                "error performing TLS handshake: invalid peer certificate: UnknownIssuer",
                Some("sslrootcert=FILE"),
            ),
            (
                None,
                Some(ErrorKind::InvalidData),
                "error performing TLS handshake: invalid peer certificate: certificate not valid for name \"a\"",
                Some("as the server's certificate names it"),
            ),
            (None, None, "error performing TLS handshake: x", Some("sslmode")),
            (None, None, "connection closed", None),
        ] {
            match (of(code, kind, text), expected) {
                (Some(advice), Some(part)) => assert!(advice.contains(part), "{code:?} {kind:?} {text}: {advice}"),
                (found, expected) => assert_eq!(found, expected, "{code:?} {kind:?} {text}"),
            }
        }
    }
}
