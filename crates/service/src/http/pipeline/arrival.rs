//! A request arrives. A hot read is answered here if its response is cached; any other request gets its context and counts against
//! its client's rate limit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use api::error::ErrorCode;
use http::{Method, Request};
use telemetry::metrics::LimitName;
use tracing::debug;

use super::super::bounds::HeaderSize;
use super::super::context::{Claims, Peer, RequestContext};
use super::super::cors::{self, Cors};
use super::super::error::ApiError;
use super::super::hot_request::{HotHeaders, HotRequest};
use super::super::hot_response::{HotBody, HotResponse};
use super::super::measure::MeasuredRequest;
use super::super::zone::RateLimitedBy;
use super::super::{access, date, fast_path, framing};
use super::HttpService;
use crate::floods::FloodKind;

impl HttpService {
    /// Responds from the cache without waiting for anything, and returns the ticks at which the request arrived. A request that this
    /// cannot answer has not counted: [`HttpService::arrive`] sees it again.
    pub(crate) fn try_hot<'a>(&self, request: &HotRequest<'a>, peer: Peer) -> Option<(HotResponse<'a>, Duration)> {
        let route = self.hot_routes.find(request)?;
        let HotHeaders { host, request_id, forwarded_for, origin, .. } = request.headers;
        // The router decides, and logs, what a page from another origin gets.
        let is_for_reader = route.zone.cors != Cors::AllowedOrigins
            || origin.is_none_or(|origin| cors::is_allowed(origin, &self.app.current.get().allowed_origins));
        if !framing::is_valid_host(host, true, self.app.config.http.loopback_names_only) || !is_for_reader {
            return None;
        }
        let claims = Claims { request_id, forwarded_for: forwarded_for.into_iter() };
        let mut context = RequestContext::new(&self.app, claims, Ok(()), peer, (route.zone, route.route));
        // A panic here is a bug, which the router then answers for.
        let made = catch_unwind(AssertUnwindSafe(|| fast_path::try_respond(&self.app, route, request, &context)));
        let made = match made.unwrap_or_default() {
            Some(body) => Ok(body),
            None => Err(fast_path::try_refuse(&self.app, route, &context)?),
        };
        self.count(&mut context);
        let limited = |wait| ApiError::limited(LimitName::Requests, wait);
        let made = context.rate_limit.map_err(limited).and(made);
        let body = made.unwrap_or_else(|refusal| {
            self.note(&refusal, &context, &request.method, request.path);
            HotBody::refusal(&refusal, context.id())
        });
        let response = HotResponse {
            link: self.app.site.link().filter(|_| body.links_to_site).cloned(),
            body,
            id: context.id,
            date: date::header(context.time),
            is_secure: context.secure,
            cors: route.zone.cors,
            origin,
            is_head: request.method == Method::HEAD,
        };
        let status = response.status();
        debug!(
            id = context.id(),
            method = request.method.as_str(),
            status = status.as_u16(),
            "answered by the fast path"
        );
        MeasuredRequest::new(&self.requests, &self.app.sources.clock, &request.method, &context).end(status);
        access::log_hot(&self.app, request, &context, &response);
        Some((response, context.ticks))
    }

    /// The context of a request that has just arrived and goes to the router, counted against its client's rate limit.
    pub(crate) fn arrive<B>(&self, request: &Request<B>, peer: Peer) -> Box<RequestContext> {
        let headers = if !HeaderSize::of(request.headers()).fits() {
            Err(ErrorCode::HeadersTooLarge)
        } else if !framing::has_valid_host(request, self.app.config.http.loopback_names_only) {
            Err(ErrorCode::HostInvalid)
        } else {
            Ok(())
        };
        let zone = self.zones.of(self.inner_path(request.uri().path()));
        let mut context = Box::new(RequestContext::new(&self.app, Claims::of(request.headers()), headers, peer, zone));
        self.count(&mut context);
        context
    }

    /// Counts a request against its client's rate limit, if its zone has one, and notes what an operator should know of.
    fn count(&self, context: &mut RequestContext) {
        if context.is_forwarded && !context.from_proxy {
            self.app.sources.floods.note(FloodKind::ForwardedFor, context.client, context.id(), context.ticks);
        }
        if context.zone.rate_limit == RateLimitedBy::ClientAddress {
            context.rate_limit = self.app.rate_limits.request(context.client, context.ticks);
            if context.rate_limit.is_err() {
                self.app.sources.metrics.limits.count(LimitName::Requests);
            }
        }
    }
}
