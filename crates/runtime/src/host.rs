//! The `Host` header: a name or an address, possibly with a port.

use std::net::{IpAddr, Ipv6Addr};

/// Whether this is a host as written in a URI, with or without a port.
pub fn is_valid(host: &[u8]) -> bool {
    name(host).is_some()
}

/// Whether this names the machine itself: `localhost`, an address in 127.0.0.0/8 or `[::1]`, with any port. This stops DNS
/// rebinding: a page's own name may resolve to a loopback address, but the browser still sends that name.
pub fn is_loopback(host: &[u8]) -> bool {
    name(host).is_some_and(|name| {
        name.eq_ignore_ascii_case(b"localhost") || address_in(name).is_some_and(|address| address.is_loopback())
    })
}

/// The address, if this is one rather than a name.
pub fn address(host: &[u8]) -> Option<IpAddr> {
    address_in(name(host)?)
}

fn address_in(name: &[u8]) -> Option<IpAddr> {
    std::str::from_utf8(name).ok()?.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// The name or address without the port, if both are well-formed.
fn name(host: &[u8]) -> Option<&[u8]> {
    let end = if host.first() == Some(&b'[') { literal_end(host)? } else { name_end(host) };
    let (name, port) = host.split_at(end);
    let port_fits = match port {
        [] => true,
        [b':', digits @ ..] => digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    (port_fits && !name.is_empty()).then_some(name)
}

/// Where an IPv6 address in brackets ends.
fn literal_end(host: &[u8]) -> Option<usize> {
    let last = host.iter().position(|byte| *byte == b']')?;
    let address = std::str::from_utf8(&host[1..last]).ok()?;
    address.parse::<Ipv6Addr>().is_ok().then_some(last + 1)
}

/// Where a registered name or an IPv4 address ends: at the first byte that cannot be part of one.
fn name_end(host: &[u8]) -> usize {
    let mut end = 0;
    loop {
        match host.get(end) {
            Some(byte) if PLAIN[usize::from(*byte)] => end += 1,
            Some(b'%') if host.get(end + 1..end + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) => {
                end += 3;
            }
            _ => return end,
        }
    }
}

/// Which bytes a name may contain unescaped. A table, because every request is checked.
const PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let plain = b"-._~!$&'()*+,;=0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut index = 0;
    while index < plain.len() {
        table[plain[index] as usize] = true;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use bolero::check;
    use test_support::inputs::{ITERATIONS, near};

    use super::*;

    #[test]
    fn an_address_is_told_from_a_name() {
        for (host, expected) in [
            ("192.0.2.1", Some("192.0.2.1")),
            ("192.0.2.1:9464", Some("192.0.2.1")),
            ("[2001:db8::1]:80", Some("2001:db8::1")),
            ("192.0.2.1.example", None),
            ("localhost", None),
            ("192.0.2.1:port", None),
        ] {
            assert_eq!(address(host.as_bytes()), expected.map(|address| address.parse().unwrap()), "{host}");
        }
    }

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

    #[test]
    fn fuzz_hosts() {
        const SAMPLES: &[&[u8]] =
            &[b"localhost:3000", b"api.example.com", b"[::1]:443", b"127.0.0.1", b"[2001:db8::1]", b"%C3%bc.example"];
        check!().with_iterations(ITERATIONS).with_generator(near(SAMPLES)).for_each(|input| {
            let is_valid = is_valid(input);
            assert!(is_valid || !is_loopback(input) && address(input).is_none());
            let splits = |byte: &u8| !byte.is_ascii_graphic() || b"/\\@?#\"<>".contains(byte);
            assert!(!is_valid || !input.iter().any(splits), "{}", input.escape_ascii());
            if is_loopback(input) {
                assert!(address(input).is_none_or(|address| address.is_loopback()));
            }
        });
    }
}
