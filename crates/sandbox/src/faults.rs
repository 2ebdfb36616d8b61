//! Fault injection: what a test can make an endpoint do.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use provider::idp::Endpoint;

/// What an endpoint does instead of its work.
#[derive(Clone, Debug)]
pub enum Fault {
    Status {
        /// The status code; an invalid one becomes 500.
        code: u16,
        body: String,
        /// More headers. Malformed ones are left out.
        headers: Vec<(String, String)>,
    },
    RateLimited {
        /// Seconds, in the body (if there is one) and in the `Retry-After` header; `None` leaves both out.
        retry_after: Option<f64>,
        /// Whether there is a JSON body at all; the edge sends none.
        json: bool,
        /// Whether it applies to the whole application.
        global: bool,
    },
    /// Never answers.
    Hang,
    /// Answers 200 with a page of HTML.
    Nonsense,
    /// Cuts the connection in the middle of the body.
    Truncated,
    /// Answers 200 with more than 1 MiB.
    Huge,
    /// Closes the connection immediately.
    Refuse,
    /// Answers 400 `invalid_grant`.
    InvalidGrant,
    /// Answers 401 `invalid_client`.
    InvalidClient,
    /// Answers a bearer 401.
    Unauthorized,
}

impl Fault {
    /// A provider that is down.
    pub(super) fn down() -> Self {
        Self::Status { code: 503, body: "{}".to_owned(), headers: vec![] }
    }
}

#[derive(Debug, Default)]
struct EndpointSwitch {
    calls: AtomicUsize,
    state: Mutex<SwitchState>,
}

#[derive(Debug, Default)]
struct SwitchState {
    fault: Option<Fault>,
    /// How many more calls it affects; `None` for all.
    left: Option<usize>,
    /// The latest hold, which may have been released.
    hold: Option<HoldPoint>,
}

#[derive(Clone, Debug)]
struct HoldPoint {
    arrived: watch::Sender<usize>,
    released: CancellationToken,
}

#[derive(Debug, Default)]
pub(super) struct FaultSwitches {
    switches: [EndpointSwitch; Endpoint::COUNT],
}

impl FaultSwitches {
    fn at(&self, endpoint: Endpoint) -> &EndpointSwitch {
        &self.switches[endpoint as usize]
    }

    pub(super) fn fail(&self, endpoint: Endpoint, fault: Option<Fault>, times: Option<usize>) {
        let mut state = self.at(endpoint).state.lock();
        state.fault = fault;
        state.left = times;
    }

    pub(super) fn hold(&self, endpoint: Endpoint) -> Hold {
        let point = HoldPoint { arrived: watch::Sender::new(0), released: CancellationToken::new() };
        let hold = Hold { arrived: point.arrived.subscribe(), _release: point.released.clone().drop_guard() };
        // The later hold takes over; calls waiting at the earlier one continue.
        if let Some(earlier) = self.at(endpoint).state.lock().hold.replace(point) {
            earlier.released.cancel();
        }
        hold
    }

    pub(super) fn calls(&self, endpoint: Endpoint) -> usize {
        self.at(endpoint).calls.load(Ordering::SeqCst)
    }

    /// Counts a call, makes it wait at a hold, and returns its fault.
    pub(super) async fn arrive(&self, endpoint: Endpoint) -> Option<Fault> {
        let switch = self.at(endpoint);
        switch.calls.fetch_add(1, Ordering::SeqCst);
        let hold = switch.state.lock().hold.clone();
        if let Some(hold) = hold {
            hold.arrived.send_modify(|count| *count += 1);
            hold.released.cancelled().await;
        }
        let mut state = switch.state.lock();
        match &mut state.left {
            Some(0) => return None,
            Some(left) => *left -= 1,
            None => {}
        }
        state.fault.clone()
    }
}

/// Calls to one endpoint wait until this is released or dropped.
#[derive(Debug)]
#[must_use = "calls go on as soon as the hold is dropped"]
pub struct Hold {
    arrived: watch::Receiver<usize>,
    _release: DropGuard,
}

impl Hold {
    /// Waits until that many calls have arrived here, including those that have left again.
    pub async fn arrived(&self, calls: usize) {
        let _ = self.arrived.clone().wait_for(|count| *count >= calls).await;
    }

    pub fn release(self) {}
}
