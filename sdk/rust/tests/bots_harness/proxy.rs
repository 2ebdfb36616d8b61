//! A TCP proxy between a bot and the service that cuts connections on command.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Default)]
struct State {
    target: Option<SocketAddr>,
    /// Requests whose head contains this are cut off before the service sees them.
    refused: Option<&'static str>,
}

pub struct Proxy {
    pub url: String,
    state: Arc<Mutex<State>>,
}

impl Proxy {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&shared);
                // Whichever side ends the connection, the bot notices.
                thread::spawn(move || forward(client, &state));
            }
        });
        Self { url, state }
    }

    /// From now on, connections go there.
    pub fn aim(&self, target: SocketAddr) {
        self.state.lock().unwrap().target = Some(target);
    }

    pub fn refuse(&self, requests: &'static str) {
        self.state.lock().unwrap().refused = Some(requests);
    }

    pub fn heal(&self) {
        self.state.lock().unwrap().refused = None;
    }
}

fn forward(mut client: TcpStream, state: &Mutex<State>) -> Option<()> {
    let target = state.lock().unwrap().target?;
    let mut service = TcpStream::connect(target).ok()?;
    let (mut from, mut to) = (service.try_clone().ok()?, client.try_clone().ok()?);
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = client.read(&mut buffer).unwrap_or(0);
        let refused = state.lock().unwrap().refused;
        let is_refused = refused.is_some_and(|text| contains(&buffer[..length], text));
        if length == 0 || is_refused || service.write_all(&buffer[..length]).is_err() {
            let _ = service.shutdown(Shutdown::Both);
            let _ = client.shutdown(Shutdown::Both);
            return None;
        }
    }
}

fn contains(data: &[u8], text: &str) -> bool {
    data.windows(text.len()).any(|window| window == text.as_bytes())
}
