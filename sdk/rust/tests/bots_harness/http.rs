//! A small HTTP client for the control APIs.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

/// Sends a request and returns the response's JSON, whatever its status.
pub fn request(method: &str, url: &str, key: Option<&str>, body: Option<&Value>) -> Value {
    let address = url.trim_start_matches("http://");
    let (host, path) = address.split_once('/').expect("a path");
    let body = body.map(Value::to_string).unwrap_or_default();
    let authorization = key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
    let mut stream = TcpStream::connect(host).unwrap_or_else(|error| panic!("{url}: {error}"));
    write!(
        stream,
        "{method} /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{authorization}Content-Type: \
         application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    assert!(head.starts_with("HTTP/1.1 2"), "{method} {url}: {answer}");
    serde_json::from_str(body).unwrap_or_default()
}
