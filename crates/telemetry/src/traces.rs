//! Traces for OpenTelemetry (OTLP over HTTP), when `otel.endpoint` is set: a span per request, and one per call to the provider
//! below it. Spans are queued up to a limit and sent by their own thread; what does not fit is dropped. They contain routes,
//! statuses and request IDs, never a query, a header or a path.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Version;
use domain::Time;
use opentelemetry::trace::{
    Span as _, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags, TraceId, TraceState,
    Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider, Span};

use crate::request_id;

/// How many spans may wait, how many are sent at a time, and how often.
const QUEUE: usize = 4096;
const BATCH: usize = 512;
const SEND_EVERY: Duration = Duration::from_secs(1);
/// How long sending may take, and how long a shutdown waits for it.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

pub struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

/// The parent of spans for work inside a request.
#[derive(Clone, Debug)]
pub struct TraceParent {
    tracer: SdkTracer,
    span: SpanContext,
}

impl Traces {
    /// Sends spans to this OTLP endpoint, for this percentage of the traces that start here.
    pub fn start(endpoint: &str, sample_percent: u8) -> Result<Self, String> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_endpoint(format!("{endpoint}/v1/traces"))
            .with_timeout(SEND_TIMEOUT)
            .build()
            .map_err(|error| format!("otel.endpoint: {error}"))?;
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE)
            .with_max_export_batch_size(BATCH)
            .with_scheduled_delay(SEND_EVERY)
            .build();
        let resource = Resource::builder_empty()
            .with_service_name("bot-companion")
            .with_attribute(KeyValue::new("service.version", Version::NAME))
            .build();
        // Whoever started a trace has decided whether it is recorded.
        let ratio = Sampler::TraceIdRatioBased(f64::from(sample_percent) / 100.0);
        let provider = SdkTracerProvider::builder()
            .with_span_processor(BatchSpanProcessor::builder(exporter).with_batch_config(batches).build())
            .with_sampler(Sampler::ParentBased(Box::new(ratio)))
            .with_resource(resource)
            .build();
        let tracer = provider.tracer("bot-companion");
        Ok(Self { provider, tracer })
    }

    /// Starts the span of a request that arrived at this time. `traceparent` is a trusted proxy's.
    pub fn begin(&self, name: String, arrived: Time, traceparent: Option<&[u8]>) -> RequestSpan {
        let parent = traceparent
            .and_then(parse_parent)
            .map_or_else(Context::new, |parent| Context::new().with_remote_span_context(parent));
        let start = UNIX_EPOCH + Duration::from_millis(arrived.millis());
        let builder = self.tracer.span_builder(name).with_kind(SpanKind::Server).with_start_time(start);
        RequestSpan { span: self.tracer.build_with_context(builder, &parent), tracer: self.tracer.clone(), start }
    }

    /// Sends what is waiting, for a few seconds at most. Blocks, so it must not run on a thread of the runtime.
    pub fn shutdown(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(SEND_TIMEOUT) {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }
}

pub struct RequestSpan {
    span: Span,
    tracer: SdkTracer,
    start: SystemTime,
}

impl RequestSpan {
    /// For spans of work inside the request; `None` if nothing is recorded.
    pub fn parent(&self) -> Option<TraceParent> {
        let span = self.span.span_context();
        self.span.is_recording().then(|| TraceParent { tracer: self.tracer.clone(), span: span.clone() })
    }

    /// Ends the span with this duration and status.
    pub fn end(mut self, took: Duration, status: u16, id: &str) {
        if self.span.is_recording() {
            self.span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status)));
            self.span.set_attribute(KeyValue::new("request.id", id.to_owned()));
            if status >= 500 {
                self.span.set_status(Status::error(""));
            }
        }
        self.span.end_with_timestamp(self.start + took);
    }
}

/// Work inside a request; ends when it is dropped.
pub struct WorkSpan(Option<Span>);

impl WorkSpan {
    /// Starts below the request that the current task works for; does nothing if that has no trace.
    pub fn begin(name: impl Into<Cow<'static, str>>) -> Self {
        Self(request_id::trace_parent().map(|TraceParent { tracer, span }| {
            let builder = tracer.span_builder(name).with_kind(SpanKind::Client);
            tracer.build_with_context(builder, &Context::new().with_remote_span_context(span))
        }))
    }

    pub fn fail(&mut self) {
        if let Some(span) = &mut self.0 {
            span.set_status(Status::error(""));
        }
    }
}

/// The `traceparent` header of W3C Trace Context, version 00.
fn parse_parent(header: &[u8]) -> Option<SpanContext> {
    let text = std::str::from_utf8(header).ok()?;
    let mut parts = text.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex =
        |text: &str, length| text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_valid =
        version == "00" && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2) && parts.next().is_none();
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()? & TraceFlags::SAMPLED.to_u8());
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let context = SpanContext::new(trace, span, flags, true, TraceState::default());
    (is_valid && context.is_valid()).then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_counts_only_in_its_shape() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let parsed = parse_parent(good.as_bytes()).unwrap();
        assert_eq!(parsed.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert!(parsed.is_sampled() && parsed.is_remote());
        for bad in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7-b7ad-01",
        ] {
            assert!(parse_parent(bad.as_bytes()).is_none(), "{bad}");
        }
    }
}
