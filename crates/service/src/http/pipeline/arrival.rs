//! A request arrives: it gets its context, counts against its client's rate limit, and is answered by the fast path if
//! possible.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use api::error::ErrorCode;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::Either;
use telemetry::metrics::LimitName;
use tracing::debug;

use super::super::bounds::HeaderSize;
use super::super::context::{Claims, Peer, RequestContext};
use super::super::cors::{self, Cors};
use super::super::hot_request::{HotHeaders, HotRequest};
use super::super::hot_response::{HotBody, HotResponse};
use super::super::measure::MeasuredRequest;
use super::super::zone::{RateLimitedBy, Zone};
use super::super::{access, date, fast_path, framing};
use super::{Body, HttpService};

impl HttpService {
    /// Responds through the fast path without waiting for anything, and returns the ticks at which the request arrived. If it
    /// cannot, returns the request's context for [`HttpService::call`], unless the path is not one of its own.
    pub(crate) fn try_hot<'a>(
        &self,
        request: &HotRequest<'a>,
        peer: Peer,
    ) -> Result<(HotResponse<'a>, Duration), Option<Box<RequestContext>>> {
        let route = self.hot_routes.find(request).ok_or(None)?;
        let HotHeaders { host, request_id, forwarded_for, origin, .. } = request.headers;
        let is_valid = framing::is_valid_host(host, request.needs_host, self.app.config.http.loopback_names_only);
        let headers = if is_valid { Ok(()) } else { Err(ErrorCode::HostInvalid) };
        let claims = Claims { request_id, forwarded_for: forwarded_for.into_iter() };
        let context = self.context(claims, headers, peer, (route.zone, route.route));
        // The router decides, and logs, what a page from another origin gets.
        let is_for_reader = route.zone.cors != Cors::AllowedOrigins
            || origin.is_none_or(|origin| cors::is_allowed(origin, &self.app.current.get().allowed_origins));
        if context.headers.is_err() || !is_for_reader {
            return Err(Some(Box::new(context)));
        }
        let made = if let Some(refusal) = fast_path::try_refuse(&self.app, route, &context) {
            self.note(&refusal, &context, &request.method, request.path);
            Some(HotBody::refusal(&refusal, context.id()))
        } else {
            // A panic here is a bug, which the router then answers for.
            catch_unwind(AssertUnwindSafe(|| fast_path::try_respond(&self.app, route, request, &context)))
                .unwrap_or_default()
        };
        let Some(body) = made else { return Err(Some(Box::new(context))) };
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
        MeasuredRequest::new(&self.requests, &self.app.clock, &request.method, &context).end(status);
        access::log_hot(&self.app, request, &context, &response);
        Ok((response, context.ticks))
    }

    /// The same for a request that hyper parsed; always returns a context if it cannot.
    pub(crate) fn try_cached<B>(
        &self,
        request: &Request<B>,
        peer: Peer,
    ) -> Result<(Response<Body>, Duration), Box<RequestContext>>
    where
        B: hyper::body::Body<Data = Bytes>,
    {
        if let Some(hot) = HotRequest::of(request).filter(|_| !self.names_other_host(request)) {
            match self.try_hot(&hot, peer) {
                Ok((response, ticks)) => return Ok((response.into_response().map(Either::Left), ticks)),
                Err(Some(context)) => return Err(context),
                Err(None) => {}
            }
        }
        Err(self.routed(request, peer))
    }

    /// The context of a request that goes to the router.
    pub(crate) fn routed<B>(&self, request: &Request<B>, peer: Peer) -> Box<RequestContext> {
        let headers = if !HeaderSize::of(request.headers()).fits() {
            Err(ErrorCode::HeadersTooLarge)
        } else if !framing::has_valid_host(request, self.app.config.http.loopback_names_only) {
            Err(ErrorCode::HostInvalid)
        } else {
            Ok(())
        };
        let zone = self.zones.of(self.inner_path(request.uri().path()));
        Box::new(self.context(Claims::of(request.headers()), headers, peer, zone))
    }

    /// Whether the target of a request may name a different host from the header.
    fn names_other_host<B>(&self, request: &Request<B>) -> bool {
        self.app.config.http.loopback_names_only && request.uri().authority().is_some()
    }

    /// The context of a request that has just arrived, counted against its client's rate limit if the zone requires it.
    fn context<'a>(
        &self,
        claims: Claims<'a, impl DoubleEndedIterator<Item = &'a [u8]>>,
        headers: Result<(), ErrorCode>,
        peer: Peer,
        zone: (Zone, usize),
    ) -> RequestContext {
        let mut context = RequestContext::new(&self.app, claims, headers, peer, zone);
        if context.zone.rate_limit == RateLimitedBy::ClientAddress {
            context.rate_limit = self.app.rate_limits.request(context.client, context.ticks);
            if context.rate_limit.is_err() {
                self.app.metrics.limits.count(LimitName::Requests);
            }
        }
        context
    }
}
