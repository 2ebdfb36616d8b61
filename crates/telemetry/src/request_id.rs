//! The request that the current task works for: its ID, and its trace if there is one. It is passed on to background tasks, and
//! every log line in the meantime carries the ID. It only costs a pointer per task, because the line looks it up when it is
//! written.

use std::future::Future;

use futures_util::future::Either;
use http::HeaderValue;

use crate::traces::TraceParent;

tokio::task_local! {
    static CURRENT: RequestScope;
}

/// What accompanies the work for a request.
#[derive(Clone, Debug)]
pub struct RequestScope {
    /// The request's id; letters, digits, `_` and `-`.
    pub id: HeaderValue,
    /// The parent of the work's spans, if the request is traced.
    pub trace: Option<TraceParent>,
}

pub fn scope<F: Future>(request: RequestScope, work: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(request, work)
}

/// The id of the request that the current task works for, if any.
pub fn current() -> Option<HeaderValue> {
    CURRENT.try_with(|request| request.id.clone()).ok()
}

/// The parent for a span of the current task, if it works for a traced request.
pub fn trace_parent() -> Option<TraceParent> {
    CURRENT.try_with(|request| request.trace.clone()).ok().flatten()
}

/// Work for another task that continues the current request.
pub fn inherit<F: Future>(work: F) -> impl Future<Output = F::Output> + use<F> {
    match CURRENT.try_with(Clone::clone) {
        Ok(request) => Either::Left(CURRENT.scope(request, work)),
        Err(_) => Either::Right(work),
    }
}
