//! The header `Host`: a name or an address, and perhaps a port.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether this is a host as a URI writes it, with or without a port.
pub fn is_valid(host: &[u8]) -> bool {
    name(host).is_some()
}

/// Whether this names the machine itself: `localhost`, an address of 127.0.0.0/8 or `[::1]`, with any port. A page elsewhere
/// can let its own name lead to a loopback address, but the browser still sends that name.
pub fn is_loopback(host: &[u8]) -> bool {
    let Some(name) = name(host).and_then(|name| std::str::from_utf8(name).ok()) else { return false };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback())
        || bare.parse().is_ok_and(|address: Ipv6Addr| address.is_loopback())
}

/// The name or address without the port, if both are well-formed.
fn name(host: &[u8]) -> Option<&[u8]> {
    let end = if host.first() == Some(&b'[') {
        host.iter().position(|byte| *byte == b']')? + 1
    } else {
        host.iter().position(|byte| *byte == b':').unwrap_or(host.len())
    };
    let (name, port) = host.split_at(end);
    let port_fits = match port {
        [] => true,
        [b':', digits @ ..] => digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let name_fits = match name {
        [b'[', address @ .., b']'] => {
            std::str::from_utf8(address).is_ok_and(|address| address.parse::<Ipv6Addr>().is_ok())
        }
        _ => is_name(name),
    };
    (port_fits && name_fits).then_some(name)
}

/// Whether this is a registered name or an IPv4 address: unreserved characters, sub-delimiters and percent-encoded bytes.
fn is_name(name: &[u8]) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte);
    let mut rest = name;
    loop {
        rest = match rest {
            [] => return !name.is_empty(),
            [b'%', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => after,
            [byte, after @ ..] if plain(*byte) => after,
            _ => return false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_valid_and_may_be_the_machine_itself() {
        let table: &[(&[u8], bool, bool)] = &[
            (b"localhost", true, true),
            (b"LOCALHOST:3000", true, true),
            (b"127.0.0.1", true, true),
            (b"127.1.2.3:0", true, true),
            (b"[::1]", true, true),
            (b"[0:0:0:0:0:0:0:1]:65535", true, true),
            (b"localhost:", true, true),
            (b"localhost.", true, false),
            (b"a.localhost", true, false),
            (b"localhost.example", true, false),
            (b"127.0.0.1.example", true, false),
            (b"127.1", true, false),
            (b"0.0.0.0", true, false),
            (b"128.0.0.1", true, false),
            (b"[::2]", true, false),
            (b"[::ffff:127.0.0.1]", true, false),
            (b"api.example:8080", true, false),
            (b"under_score~!$&'()*+,;=", true, false),
            (b"%C3%bc.example", true, false),
            (b"", false, false),
            (b":80", false, false),
            (b"::1", false, false),
            (b"[::1", false, false),
            (b"[::1]80", false, false),
            (b"[localhost]", false, false),
            (b"[fe80::1%25eth0]", false, false),
            (b"a:80:80", false, false),
            (b"a:123456", false, false),
            (b"a:b", false, false),
            (b"a b", false, false),
            (b"a/b", false, false),
            (b"a@b", false, false),
            (b"a\\b", false, false),
            (b"%", false, false),
            (b"%c", false, false),
            (b"%zz", false, false),
            (b"\xc3\xbc", false, false),
            (b"a\t", false, false),
        ];
        for (host, valid, loopback) in table {
            assert_eq!((is_valid(host), is_loopback(host)), (*valid, *loopback), "{}", host.escape_ascii());
        }
    }
}
