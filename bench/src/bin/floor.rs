//! The least work a server can do: find the end of each request and answer with one write of prepared bytes.
//!
//! `floor ADDRESS BODY_FILE HEADER_FILE`: sends the two files, headers first, for every request. Prints its URL.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

const LISTENER: Token = Token(usize::MAX);
const END: &[u8; 4] = b"\r\n\r\n";
/// The longest part of a request's end that a read can leave over.
const CARRY: usize = END.len() - 1;

fn main() -> anyhow::Result<()> {
    let [address, body, header] = bench::arguments("floor ADDRESS BODY_FILE HEADER_FILE")?;
    let answer: Arc<[u8]> = [std::fs::read(header)?, std::fs::read(body)?].concat().into();
    bench::serve_on_every_core(&address, move |listener| serve(listener, &answer))
}

struct Connection {
    stream: TcpStream,
    /// The last bytes read, if they may be part of a request's end.
    carry: [u8; CARRY],
    carried: usize,
    /// Requests not answered yet, and how much of the current response is written.
    owed: usize,
    written: usize,
}

fn serve(listener: TcpListener, answer: &[u8]) -> anyhow::Result<()> {
    let mut listener = mio::net::TcpListener::from_std(listener);
    let mut poll = Poll::new()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut events = Events::with_capacity(1024);
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut free = Vec::new();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        if let Err(error) = poll.poll(&mut events, None) {
            if error.kind() == ErrorKind::Interrupted {
                continue;
            }
            return Err(error.into());
        }
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    stream.set_nodelay(true)?;
                    let place = free.pop().unwrap_or_else(|| {
                        connections.push(None);
                        connections.len() - 1
                    });
                    let interest = Interest::READABLE | Interest::WRITABLE;
                    poll.registry().register(&mut stream, Token(place), interest)?;
                    connections[place] = Some(Connection::new(stream));
                }
            } else if let Some(connection) = &mut connections[event.token().0]
                && !connection.advance(&mut buffer, answer)
            {
                connections[event.token().0] = None;
                free.push(event.token().0);
            }
        }
    }
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        Self { stream, carry: [0; CARRY], carried: 0, owed: 0, written: 0 }
    }

    /// Reads and writes until the socket would block. Returns `false` when the client is gone.
    fn advance(&mut self, buffer: &mut [u8], answer: &[u8]) -> bool {
        loop {
            buffer[..self.carried].copy_from_slice(&self.carry[..self.carried]);
            match self.stream.read(&mut buffer[self.carried..]) {
                Ok(0) => return false,
                Ok(read) => {
                    let filled = self.carried + read;
                    self.take_in(&buffer[..filled]);
                    if !self.write(answer) {
                        return false;
                    }
                    // A short read has emptied the socket; the next bytes come with an event.
                    if filled < buffer.len() {
                        return true;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return self.write(answer),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    fn take_in(&mut self, bytes: &[u8]) {
        let (found, rest) = request_ends(bytes);
        self.owed += found;
        let rest = &bytes[rest.max(bytes.len().saturating_sub(CARRY))..];
        self.carry[..rest.len()].copy_from_slice(rest);
        self.carried = rest.len();
    }

    fn write(&mut self, answer: &[u8]) -> bool {
        while self.owed > 0 {
            match self.stream.write(&answer[self.written..]) {
                Ok(written) => self.written += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
            if self.written == answer.len() {
                self.written = 0;
                self.owed -= 1;
            }
        }
        true
    }
}

/// How many requests end in these bytes, and where the last of them ends.
fn request_ends(bytes: &[u8]) -> (usize, usize) {
    let (mut found, mut rest, mut last) = (0, 0, CARRY);
    // `last` is where the last byte of an end may be; any byte that is none of an end's allows four steps at once.
    while let Some(byte) = bytes.get(last) {
        last += match byte {
            b'\n' if bytes[last - CARRY..=last] == *END => {
                found += 1;
                rest = last + 1;
                END.len()
            }
            b'\n' => 2,
            b'\r' => 1,
            _ => END.len(),
        };
    }
    (found, rest)
}

#[cfg(test)]
mod tests {
    use super::request_ends;

    #[test]
    fn every_end_is_found_wherever_it_lies() {
        for before in 0..9 {
            for after in 0..9 {
                let bytes = format!("{}\r\n\r\n{}", "x".repeat(before), "y".repeat(after));
                assert_eq!(request_ends(bytes.as_bytes()), (1, before + 4), "{bytes:?}");
            }
        }
        assert_eq!(request_ends(b"a\r\n\r\nb\r\n\r\n\r\n"), (2, 10));
        assert_eq!(request_ends(b"\r\n\r\n\r\n\r\n"), (2, 8));
        assert_eq!(request_ends(b"\r\r\n\n\r\n\r"), (0, 0));
        assert_eq!(request_ends(b""), (0, 0));
    }
}
