//! Variables that nobody wrote: Kubernetes, and links between containers, tell every container where each service in its
//! namespace is. A service called `companion` or `companion-…` produces names that start like our options.

use std::ffi::OsStr;

/// Whether a variable that isn't an option has the name, and if needed the value, of an injected one.
pub(super) fn is_injected(name: &str, value: &OsStr) -> bool {
    let Some(rest) = name.strip_prefix("COMPANION") else { return false };
    let rest = format!("{rest}_");
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let value = value.to_str().unwrap_or_default();
    // COMPANION_DB_SERVICE_HOST, COMPANION_DB_SERVICE_PORT, COMPANION_DB_SERVICE_PORT_HTTPS
    if rest.ends_with("_SERVICE_HOST_") {
        return true;
    }
    if rest.contains("_SERVICE_PORT_") {
        return number(value);
    }
    // COMPANION_DB_PORT=tcp://10.0.0.1:5432. A bare number is someone trying to set a port.
    let is_address = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    if rest.ends_with("_PORT_") && is_address {
        return true;
    }
    // COMPANION_DB_PORT_5432_TCP, and the same with _PROTO, _PORT and _ADDR
    let stem =
        ["_PROTO_", "_PORT_", "_ADDR_"].iter().find_map(|end| rest.strip_suffix(end)).map(|rest| format!("{rest}_"));
    let stem = stem.as_deref().unwrap_or(&rest);
    let stem = ["_TCP_", "_UDP_", "_SCTP_"].iter().find_map(|end| stem.strip_suffix(end));
    stem.and_then(|stem| stem.rsplit_once("_PORT_")).is_some_and(|(_, port)| number(port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_injected_is_told_from_a_mistake() {
        for (name, value) in [
            ("COMPANION_SERVICE_HOST", "10.0.0.1"),
            ("COMPANION_SERVICE_PORT", "8080"),
            ("COMPANION_SERVICE_PORT_HTTP", "8080"),
            ("COMPANION_PORT", "tcp://10.0.0.1:8080"),
            ("COMPANION_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
            ("COMPANION_PORT_8080_TCP_PROTO", "tcp"),
            ("COMPANION_PORT_8080_TCP_PORT", "8080"),
            ("COMPANION_PORT_8080_TCP_ADDR", "10.0.0.1"),
            ("COMPANION_DB_SERVICE_HOST", "10.0.0.2"),
            ("COMPANION_DB_SERVICE_PORT_POSTGRES_TLS", "5432"),
            ("COMPANION_DB_PORT", "udp://10.0.0.2:53"),
            ("COMPANION_DB_PORT_53_UDP", "udp://10.0.0.2:53"),
            ("COMPANION_DB_PORT_53_UDP_ADDR", "10.0.0.2"),
            ("COMPANION_DB_PORT_99_SCTP_PROTO", "sctp"),
        ] {
            assert!(is_injected(name, value.as_ref()), "{name}");
        }
        for (name, value) in [
            ("COMPANION_HTTP_PORT", "8080"),
            ("COMPANION_PORT", "8080"),
            ("COMPANION_HTTP_HOST", "10.0.0.1"),
            ("COMPANION_SERVICE", "x"),
            ("COMPANION_SERVICE_PORTS", "8080"),
            ("COMPANION_PORT_X_TCP", "tcp://10.0.0.1:1"),
            ("COMPANION_PORT_8080", "8080"),
            ("COMPANION_8080_TCP", "x"),
            ("COMPANION_SERVICE_PORT", "http"),
            ("OTHER_SERVICE_HOST", "10.0.0.1"),
        ] {
            assert!(!is_injected(name, value.as_ref()), "{name}");
        }
    }
}
