//! Connections that behave badly: slow, huge, half, too many; TLS, HTTP/2, and the drain.
