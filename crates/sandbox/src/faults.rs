//! Fault injection: what a test can make an endpoint do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

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
    hold: Option<Arc<HoldPoint>>,
}

#[derive(Debug)]
struct HoldPoint {
    arrived: watch::Sender<usize>,
    open: watch::Sender<bool>,
}

#[derive(Debug, Default)]
pub(super) struct FaultSwitches {
    switches: [Arc<EndpointSwitch>; Endpoint::COUNT],
}

impl FaultSwitches {
    fn at(&self, endpoint: Endpoint) -> &Arc<EndpointSwitch> {
        &self.switches[endpoint as usize]
    }

    pub(super) fn fail(&self, endpoint: Endpoint, fault: Option<Fault>, times: Option<usize>) {
        let mut state = self.at(endpoint).state.lock();
        state.fault = fault;
        state.left = times;
    }

    pub(super) fn hold(&self, endpoint: Endpoint) -> Hold {
        let point = Arc::new(HoldPoint { arrived: watch::Sender::new(0), open: watch::Sender::new(false) });
        let earlier = self.at(endpoint).state.lock().hold.replace(Arc::clone(&point));
        // The later hold takes over; calls waiting at the earlier one continue.
        if let Some(earlier) = earlier {
            earlier.open.send_replace(true);
        }
        Hold { switch: Arc::clone(self.at(endpoint)), point }
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
            let mut open = hold.open.subscribe();
            hold.arrived.send_modify(|count| *count += 1);
            // The sender lives as long as `hold` does, so this only ends when it opens.
            let _ = open.wait_for(|open| *open).await;
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
    switch: Arc<EndpointSwitch>,
    point: Arc<HoldPoint>,
}

impl Hold {
    /// Waits until that many calls have arrived here, including those that have left again.
    pub async fn arrived(&self, calls: usize) {
        let mut arrived = self.point.arrived.subscribe();
        let _ = arrived.wait_for(|count| *count >= calls).await;
    }

    pub fn release(self) {}
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.switch.state.lock();
        if state.hold.as_ref().is_some_and(|point| Arc::ptr_eq(point, &self.point)) {
            state.hold = None;
        }
        self.point.open.send_replace(true);
    }
}
