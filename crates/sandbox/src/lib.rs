//! A provider to develop and test against: a real HTTP server that speaks Discord's wire format, with people to sign in as and
//! fault injection. It keeps nothing on disk and trusts everyone, so it belongs on a loopback address.
//!
//! - `server`: sockets and routes. `api`: the four endpoints. `page`: the page for choosing a person.
//!   `invite`: the page for adding the bot to a server.
//! - `grants`: codes and tokens. `people`: the demo people. `faults`: fault injection. `reply`: responses, good and bad.
//! - `control`: the switches of `dev`, on a page and over HTTP. `pictures`: avatars and icons.

mod api;
mod control;
mod faults;
mod grants;
mod invite;
mod page;
pub mod people;
mod pictures;
mod reply;
mod server;

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use parking_lot::Mutex;
use runtime::clock::Clock;
use secrecy::{ExposeSecret, SecretString};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::control::Control;
use self::faults::FaultSwitches;
use self::grants::{IssuedTokens, Terms};
pub use control::{ServiceState, ServiceSwitches};
pub use faults::{Fault, Hold};
pub use people::{Person, PersonGuild};
use provider::idp::{Endpoint, SCOPE};

#[derive(Clone, Debug)]
pub struct SandboxOptions {
    /// The one application it knows.
    pub client_id: String,
    pub client_secret: SecretString,
    /// The addresses that a browser may be sent back to, compared character by character.
    pub redirect_uris: Vec<String>,
    /// Who can sign in.
    pub people: Vec<Person>,
    /// Where the service can be called, for the commands on the page (`http://127.0.0.1:8080`).
    pub service_url: Option<String>,
    /// Decides when codes and tokens expire.
    pub clock: Clock,
    /// Signs the tokens. With the same key, those of an earlier sandbox still work.
    pub token_key: SecretString,
}

/// A running provider. It stops when it is dropped.
pub struct Sandbox {
    state: Arc<SandboxState>,
    address: SocketAddr,
    stop: DropGuard,
}

/// Shared by the connections. They must not keep the [`Sandbox`] itself alive.
struct SandboxState {
    options: SandboxOptions,
    people: Mutex<Vec<Person>>,
    /// The index of each name in `people`, because a load test brings thousands.
    indexes: HashMap<String, usize>,
    redirect_uris: Mutex<Vec<String>>,
    grants: Mutex<IssuedTokens>,
    switches: FaultSwitches,
    control: Control,
}

impl Sandbox {
    /// Serves on the listener, which must have a loopback address, from now on, on the current runtime.
    pub fn start(listener: TcpListener, options: SandboxOptions) -> io::Result<Arc<Self>> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let state = Arc::new(SandboxState {
            indexes: options.people.iter().enumerate().map(|(index, person)| (person.name.clone(), index)).collect(),
            people: Mutex::new(options.people.clone()),
            redirect_uris: Mutex::new(options.redirect_uris.clone()),
            grants: Mutex::new(IssuedTokens::new(options.token_key.expose_secret().as_bytes(), options.clock.now())),
            options,
            switches: FaultSwitches::default(),
            control: Control::default(),
        });
        let stop = CancellationToken::new();
        tokio::spawn(server::run(listener, Arc::clone(&state), stop.clone()));
        Ok(Arc::new(Self { state, address, stop: stop.drop_guard() }))
    }

    /// Closes the listener and every connection.
    pub fn stop(&self) {
        self.stop.token().cancel();
    }

    /// Connects the switches for the service to this service.
    pub fn connect(&self, service: Arc<dyn ServiceSwitches>) {
        self.state.control.connect(service);
    }

    /// Where the switches are, for a browser and for curl.
    pub fn control_url(&self) -> String {
        format!("http://{}{}", self.address, control::PATH)
    }

    /// Also allows a browser to be sent back to this address.
    pub fn register_redirect_uri(&self, uri: &str) {
        self.state.redirect_uris.lock().push(uri.to_owned());
    }

    /// The value for `idp.base_url`.
    pub fn base_url(&self) -> String {
        format!("http://{}/api/v10", self.address)
    }

    /// The page for choosing a person, without a redirect address; a dashboard adds its own.
    pub fn authorize_url(&self) -> String {
        format!("http://{}{}", self.address, self.state.authorize_path())
    }

    /// A fresh code for that person; it works once, within 100 s.
    pub fn issue_code(&self, person: &str) -> String {
        let terms = Terms { scope: SCOPE.to_owned(), ..Terms::default() };
        self.state.grants.lock().issue_code(person, terms, self.state.options.clock.now())
    }

    /// Everyone, as they are now.
    pub fn people(&self) -> Vec<Person> {
        self.state.people.lock().clone()
    }

    /// Changes a person, except for their name. Returns whether there is one with that name.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut Person)) -> bool {
        let Some(index) = self.state.indexes.get(name) else { return false };
        let mut people = self.state.people.lock();
        change(&mut people[*index]);
        name.clone_into(&mut people[*index].name);
        true
    }

    /// Invalidates all of a person's tokens, as when they remove the application.
    pub fn revoke_all(&self, person: &str) {
        self.state.grants.lock().revoke_all(person);
    }

    /// Invalidates a person's access tokens; their refresh tokens still work.
    pub fn expire_access(&self, person: &str) {
        self.state.grants.lock().expire_access(person);
    }

    /// From now on, every call to that endpoint fails like this.
    pub fn fail(&self, endpoint: Endpoint, fault: Fault) {
        self.state.switches.fail(endpoint, Some(fault), None);
    }

    /// The next `times` calls to that endpoint fail like this.
    pub fn fail_times(&self, endpoint: Endpoint, fault: Fault, times: usize) {
        self.state.switches.fail(endpoint, Some(fault), Some(times));
    }

    /// The endpoint works again.
    pub fn heal(&self, endpoint: Endpoint) {
        self.state.switches.fail(endpoint, None, None);
    }

    /// Calls to that endpoint wait until the hold is released or dropped. A later hold replaces an earlier one.
    pub fn hold(&self, endpoint: Endpoint) -> Hold {
        self.state.switches.hold(endpoint)
    }

    pub fn calls(&self, endpoint: Endpoint) -> usize {
        self.state.switches.calls(endpoint)
    }
}

impl SandboxState {
    fn person(&self, name: &str) -> Option<Person> {
        self.indexes.get(name).map(|index| self.people.lock()[*index].clone())
    }

    fn authorize_path(&self) -> String {
        let client_id = self.options.client_id.as_str();
        query("/oauth2/authorize", [("response_type", "code"), ("client_id", client_id), ("scope", SCOPE)])
    }
}

/// The pairs of a query or a form; if a name appears twice, the first one counts.
fn pairs(encoded: &[u8]) -> Vec<(String, String)> {
    form_urlencoded::parse(encoded).into_owned().collect()
}

fn query<'a>(path: &str, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let encoded = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    format!("{path}?{encoded}")
}

fn value<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests;
