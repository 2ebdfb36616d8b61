//! A provider to develop and test against: a real HTTP server that speaks Discord's wire format, with people to sign in as and
//! trouble on demand. It keeps everything in memory and trusts everybody, so it belongs on a loopback address.
//!
//! - `server`: sockets and routes. `api`: the four endpoints. `page`: the page on which one chooses a person.
//! - `grants`: codes and tokens. `people`: who there is. `faults`: trouble. `reply`: answers, good and bad.

mod api;
mod faults;
mod grants;
mod page;
pub mod people;
mod reply;
mod server;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use parking_lot::Mutex;
use secrecy::SecretString;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::faults::Switchboard;
use self::grants::{Grants, Terms};
use crate::clock::Clock;
use crate::idp::Endpoint;
pub use faults::{Fault, Hold};
pub use people::{Person, PersonGuild};

/// What a person grants unless something else is asked for.
const SCOPE: &str = "identify guilds";

/// What a [`Sandbox`] needs to know.
#[derive(Clone, Debug)]
pub struct SandboxOptions {
    /// The one application that it knows.
    pub client_id: String,
    /// That application's secret.
    pub client_secret: SecretString,
    /// Who can sign in.
    pub people: Vec<Person>,
    /// Where the service can be called, for the commands on the page (`http://127.0.0.1:8080`).
    pub service_url: Option<String>,
    /// Decides when codes and tokens expire.
    pub clock: Clock,
}

/// A running provider. It stops when it is dropped.
pub struct Sandbox {
    inner: Arc<Inner>,
    address: SocketAddr,
    stop: DropGuard,
}

/// What the connections share. They must not keep the [`Sandbox`] itself alive.
struct Inner {
    options: SandboxOptions,
    /// It listens on a loopback address, so it answers to loopback names only.
    loopback: bool,
    people: Mutex<Vec<Person>>,
    /// Where in the list each name stands: a load test brings thousands.
    places: HashMap<String, usize>,
    grants: Mutex<Grants>,
    switches: Switchboard,
}

impl Sandbox {
    /// Serves on the listener from now on, on the runtime that this is called on.
    pub fn start(listener: TcpListener, options: SandboxOptions) -> io::Result<Arc<Self>> {
        listener.set_nonblocking(true)?;
        let bound = listener.local_addr()?;
        let address = reachable(bound);
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let inner = Arc::new(Inner {
            places: options.people.iter().enumerate().map(|(place, person)| (person.name.clone(), place)).collect(),
            people: Mutex::new(options.people.clone()),
            options,
            loopback: bound.ip().is_loopback(),
            grants: Mutex::default(),
            switches: Switchboard::default(),
        });
        let stop = CancellationToken::new();
        tokio::spawn(server::run(listener, Arc::clone(&inner), stop.clone()));
        Ok(Arc::new(Self { inner, address, stop: stop.drop_guard() }))
    }

    /// Closes the listener and every connection.
    pub fn stop(&self) {
        self.stop.token().cancel();
    }

    /// What goes into `idp.base_url`.
    pub fn base_url(&self) -> String {
        format!("http://{}/api/v10", self.address)
    }

    /// The page on which one chooses a person, without a redirect address; a dashboard adds its own.
    pub fn authorize_url(&self) -> String {
        format!("http://{}{}", self.address, self.inner.authorize_path())
    }

    /// A fresh code of that person; it works once, within 100 s.
    pub fn issue_code(&self, person: &str) -> String {
        let terms = Terms { scope: SCOPE.to_owned(), ..Terms::default() };
        self.inner.grants.lock().issue_code(person, terms, self.inner.options.clock.now())
    }

    /// Everybody, as they are now.
    pub fn people(&self) -> Vec<Person> {
        self.inner.people.lock().clone()
    }

    /// Changes a person, all but their name; whether there is one of that name.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut Person)) -> bool {
        let Some(place) = self.inner.places.get(name) else { return false };
        let mut people = self.inner.people.lock();
        change(&mut people[*place]);
        name.clone_into(&mut people[*place].name);
        true
    }

    /// Makes all of a person's tokens invalid, as when they remove the application.
    pub fn revoke_all(&self, person: &str) {
        self.inner.grants.lock().revoke_all(person);
    }

    /// Makes a person's access tokens invalid; their refresh tokens still work.
    pub fn expire_access(&self, person: &str) {
        self.inner.grants.lock().expire_access(person);
    }

    /// From now on every call to that endpoint meets this fault.
    pub fn fail(&self, endpoint: Endpoint, fault: Fault) {
        self.inner.switches.fail(endpoint, Some(fault), None);
    }

    /// The next `times` calls to that endpoint meet this fault.
    pub fn fail_times(&self, endpoint: Endpoint, fault: Fault, times: usize) {
        self.inner.switches.fail(endpoint, Some(fault), Some(times));
    }

    /// The endpoint works again.
    pub fn heal(&self, endpoint: Endpoint) {
        self.inner.switches.fail(endpoint, None, None);
    }

    /// Calls to that endpoint wait until the hold is released or dropped. A later hold takes the place of an earlier one.
    pub fn hold(&self, endpoint: Endpoint) -> Hold {
        self.inner.switches.hold(endpoint)
    }

    /// How many calls have reached that endpoint.
    pub fn calls(&self, endpoint: Endpoint) -> usize {
        self.inner.switches.calls(endpoint)
    }
}

impl fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sandbox").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Inner {
    fn person(&self, name: &str) -> Option<Person> {
        self.places.get(name).map(|place| self.people.lock()[*place].clone())
    }

    fn authorize_path(&self) -> String {
        let client_id = self.options.client_id.as_str();
        query("/oauth2/authorize", [("response_type", "code"), ("client_id", client_id), ("scope", SCOPE)])
    }
}

/// A wildcard address is nowhere one could call.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        let loopback =
            if address.is_ipv4() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { IpAddr::V6(Ipv6Addr::LOCALHOST) };
        address.set_ip(loopback);
    }
    address
}

/// The pairs of a query or a form; of a name that comes twice, the first counts.
fn pairs(encoded: &[u8]) -> Vec<(String, String)> {
    form_urlencoded::parse(encoded).into_owned().collect()
}

/// A path with a query.
fn query<'a>(path: &str, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let encoded = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    format!("{path}?{encoded}")
}

fn value<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests;
