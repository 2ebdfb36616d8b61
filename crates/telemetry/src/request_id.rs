//! The request that the current task works for: its id, and its trace if there is one. It goes along into background tasks, and every
//! log line that is written meanwhile carries the id. Nothing is paid for it but a pointer per task: the line asks for it when it is
//! written.

use std::future::Future;

use futures_util::future::Either;
use http::HeaderValue;

use crate::traces::TraceParent;

tokio::task_local! {
    static CURRENT: RequestScope;
}

/// What goes along with the work for a request.
#[derive(Clone, Debug)]
pub struct RequestScope {
    /// The request's id; letters, digits, `_` and `-`.
    pub id: HeaderValue,
    /// What spans of the work are below, if the request is traced.
    pub trace: Option<TraceParent>,
}

/// Does the work for this request.
pub fn scope<F: Future>(request: RequestScope, work: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(request, work)
}

/// The id of the request that the current task works for, if any.
pub fn current() -> Option<HeaderValue> {
    CURRENT.try_with(|request| request.id.clone()).ok()
}

/// What a span of the current task is below, if it works for a request that is traced.
pub fn trace_parent() -> Option<TraceParent> {
    CURRENT.try_with(|request| request.trace.clone()).ok().flatten()
}

/// Work for another task, which goes on for the current request.
pub fn inherit<F: Future>(work: F) -> impl Future<Output = F::Output> + use<F> {
    match CURRENT.try_with(Clone::clone) {
        Ok(request) => Either::Left(CURRENT.scope(request, work)),
        Err(_) => Either::Right(work),
    }
}
