//! One request and its response: the time limit, failures and outages, and what the service ignores.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Map, Value};

use crate::clock::Clock;
use crate::core::Core;
use crate::outage::Channel;
use crate::sender::reason;
use crate::transport::{Answer, Body, Request, Response};

/// When a request last made progress.
type Moved = Arc<Mutex<Duration>>;

impl Core {
    /// Sends a request and waits for the response, as long as there is progress. Apart from a 200, only what the caller `handles`
    /// counts as an answer; everything else is a failure.
    pub(crate) async fn call(
        &self,
        channel: Channel,
        what: &str,
        request: Request,
        handles: impl Fn(u16, &Map<String, Value>) -> bool + Send,
    ) -> Answer {
        self.reporter.count(|counters| counters.requests += 1);
        match self.send(request).await {
            Err(reason) => Answer::Later(self.fail_with(channel, &format!("{what}: {reason}"), None)),
            Ok(Response { status, retry_after, data }) => match (status, data) {
                (200, None) => {
                    let reason =
                        format!("{what}: the response is not from a bot-companion service; check COMPANION_URL");
                    Answer::Later(self.fail_with(channel, &reason, None))
                }
                (429, _) => Answer::Later(self.delay(channel, retry_after.as_deref())),
                (401, _) => Answer::Later(self.fail_with(channel, REFUSED_KEY, retry_after.as_deref())),
                (status, data) => {
                    // A proxy's answer has no envelope.
                    let data = data.unwrap_or_default();
                    if status == 200 || handles(status, &data) {
                        self.succeed(channel);
                        self.note_ignored(&data);
                        return Answer::Answered(status, data);
                    }
                    let reason = format!("{what}: {}", meaning(status, &data));
                    Answer::Later(self.fail_with(channel, &reason, retry_after.as_deref()))
                }
            },
        }
    }

    async fn send(&self, mut request: Request) -> Result<Response, String> {
        let moved: Moved = Arc::new(Mutex::new(self.clock.now()));
        if let Body::Stream(lines) = request.body {
            let (clock, moved) = (Arc::clone(&self.clock), Arc::clone(&moved));
            request.body = Body::Stream(lines.inspect(move |_| note(&moved, &*clock)).boxed());
        }
        let mut response = self.transport.send(request);
        loop {
            let last = *moved.lock().unwrap_or_else(PoisonError::into_inner);
            let left = (last + self.limits.stall_timeout).saturating_sub(self.clock.now());
            if left.is_zero() {
                return Err(format!("no progress for {:?}", self.limits.stall_timeout));
            }
            tokio::select! {
                biased;
                response = &mut response => return response,
                () = self.clock.sleep(left) => {}
            }
        }
    }

    fn fail_with(&self, channel: Channel, reason: &str, retry_after: Option<&str>) -> Duration {
        self.reporter.count(|counters| counters.failures += 1);
        let (is_first, is_refused) = {
            let mut state = self.lock();
            let is_first = state.outage.begin(channel, self.clock.now());
            (is_first, reason == REFUSED_KEY && state.outage.refuse_key())
        };
        if is_refused {
            // Logged on its own: a line about the connection would hide that the key is wrong.
            self.reporter.error(reason);
        } else if is_first {
            self.reporter.warn(&format!("the service cannot be reached; retrying, the bot is not affected: {reason}"));
        }
        self.delay(channel, retry_after)
    }

    fn delay(&self, channel: Channel, retry_after: Option<&str>) -> Duration {
        let failures = self.lock().outage.count(channel);
        let delay = self.limits.retry_delay(failures, self.clock.random());
        let asked =
            retry_after.and_then(|header| self.limits.asked_delay(header, self.clock.epoch(), self.clock.random()));
        asked.map_or(delay, |asked| asked.max(delay))
    }

    fn succeed(&self, channel: Channel) {
        let mut state = self.lock();
        if let Some(outage) = state.outage.succeed(channel, self.clock.now()) {
            self.reporter.info(&format!("the service is back after {} s", outage.as_secs()));
            state.is_doubtful = true;
            self.start_after(&mut state, Duration::ZERO);
        }
    }

    fn note_ignored(&self, data: &Map<String, Value>) {
        if let Some(ignored) = data.get("ignored").and_then(Value::as_u64) {
            self.reporter.count(|counters| counters.lines_ignored += ignored);
        }
        for reason in data.get("reasons").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
            let kind = reason.trim_start_matches(|one: char| one.is_ascii_digit());
            self.reporter.warn_once(&format!("ignored {kind}"), &format!("the service ignores: {reason}"));
        }
    }
}

const REFUSED_KEY: &str = "the service refuses the bot key; check COMPANION_BOT_KEY. Retrying";

/// For the log.
pub(crate) fn meaning(status: u16, data: &Map<String, Value>) -> String {
    if status == 413 {
        return "status 413, the service, or a proxy in front of it, refuses a body of this size".to_owned();
    }
    let hint = if status == 404 || (300..400).contains(&status) { "; check COMPANION_URL" } else { "" };
    format!("status {status}, {}{hint}", reason(data))
}

fn note(moved: &Moved, clock: &dyn Clock) {
    *moved.lock().unwrap_or_else(PoisonError::into_inner) = clock.now();
}
