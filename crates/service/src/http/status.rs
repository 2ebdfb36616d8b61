//! `GET /`: the status: version, memory, latencies and the bot's shards.

use std::sync::Arc;
use std::time::Duration;

use api::error_responses::{Refusals, StoreRefusals};
use api::status::StatusData;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use domain::Time;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::context::RequestContext;
use super::error::ApiError;
use super::hot_request;
use super::respond::json;
use crate::app::App;

const SENT_EPOCH: HeaderName = HeaderName::from_static("sent-epoch");
/// A `Sent-Epoch` older than this says nothing about latency.
const OLDEST_SENT: f64 = 3600.0 * 1000.0;

/// Get the status
///
/// The API's version and latency, and the health of the bot and its shards.
#[utoipa::path(get, path = "/", operation_id = "getStatus", tag = "public",
    params(("Sent-Epoch" = Option<String>, Header, example = "1800000000.25", description = "When the request was sent, in epoch seconds; the response then has the latency. Anything else is ignored.")),
    responses((status = 200, description = "The status", body = StatusData), Refusals, StoreRefusals))]
pub(super) async fn show(
    State(app): State<Arc<App>>,
    context: RequestContext,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let sent = headers.get(SENT_EPOCH).map(HeaderValue::as_bytes);
    let body = app.views.status.get_body(|| latencies(&app, &context, sent)).await?;
    let mut response = json(body);
    response.headers_mut().extend(app.site.link().map(|link| (header::LINK, link.clone())));
    Ok(response.into_response())
}

/// The two latencies in milliseconds: from sending to arrival, if the client says when it sent, and from arrival to now.
pub(super) fn latencies(app: &App, context: &RequestContext, sent: Option<&[u8]>) -> (Option<f64>, Duration) {
    let sent = sent.and_then(hot_request::text).and_then(|sent| response_latency(sent, context.time));
    (sent, app.sources.clock.ticks().saturating_sub(context.ticks))
}

fn response_latency(sent: &str, arrived: Time) -> Option<f64> {
    let sent: f64 = sent.trim().parse().ok().filter(|sent: &f64| sent.is_finite())?;
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit a double exactly")]
    let latency = arrived.millis() as f64 - sent * 1000.0;
    (latency <= OLDEST_SENT).then_some(latency.max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_latency_needs_a_usable_time() {
        let arrived = Time::from_seconds(10_000);
        let table = [
            ("9999.5", Some(500.0)),
            ("10000", Some(0.0)),
            ("10001", Some(0.0)),
            (" 9999 ", Some(1000.0)),
            ("6400", Some(3_600_000.0)),
            ("6399", None),
            ("", None),
            ("yesterday", None),
            ("NaN", None),
            ("inf", None),
            ("-inf", None),
        ];
        for (sent, expected) in table {
            assert_eq!(response_latency(sent, arrived), expected, "{sent:?}");
        }
    }
}
