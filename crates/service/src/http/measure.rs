//! Measures a request: how it ended and how long it took.

use http::{Method, StatusCode};
use runtime::clock::Clock;
use telemetry::metrics::{CLIENT_LEFT, RequestMethod, RequestMetrics};

use super::context::RequestContext;

/// A request in progress. It is counted when it ends, or when it is dropped because the client left.
pub(super) struct MeasuredRequest<'a> {
    metrics: &'a RequestMetrics,
    clock: &'a Clock,
    context: &'a RequestContext,
    method: RequestMethod,
    status: u16,
}

impl<'a> MeasuredRequest<'a> {
    pub(super) fn new(
        metrics: &'a RequestMetrics,
        clock: &'a Clock,
        method: &Method,
        context: &'a RequestContext,
    ) -> Self {
        Self { metrics, clock, context, method: method.into(), status: CLIENT_LEFT }
    }

    /// Counts the request with the status of its response.
    pub(super) fn end(mut self, status: StatusCode) {
        self.status = status.as_u16();
    }
}

impl Drop for MeasuredRequest<'_> {
    fn drop(&mut self) {
        let took = self.clock.ticks().saturating_sub(self.context.ticks);
        self.metrics.count(self.context.route as usize, self.method, self.status, took);
    }
}
