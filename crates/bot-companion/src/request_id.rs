//! The id of the request that the current task works for. It goes along into background tasks, and every log line that is written
//! meanwhile carries it. Nothing is paid for it but a pointer per task: the line asks for it when it is written.

use std::future::Future;

use futures_util::future::Either;
use http::HeaderValue;

tokio::task_local! {
    static CURRENT: HeaderValue;
}

/// Does the work under this id.
pub fn scope<F: Future>(id: HeaderValue, work: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(id, work)
}

/// The id that the current task works under, if any.
pub fn current() -> Option<HeaderValue> {
    CURRENT.try_with(Clone::clone).ok()
}

/// Work for another task, which goes on under the current id.
pub fn inherit<F: Future>(work: F) -> impl Future<Output = F::Output> + use<F> {
    match current() {
        Some(id) => Either::Left(CURRENT.scope(id, work)),
        None => Either::Right(work),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::background::Background;

    #[tokio::test]
    async fn background_work_goes_on_under_the_id_of_who_began_it() {
        let background = Background::here();
        let outer = async {
            let inner = background.spawn(async { current() }).await.unwrap();
            assert_eq!(inner, current());
            inner
        };
        assert_eq!(scope(HeaderValue::from_static("abc"), outer).await.unwrap(), "abc");
        assert_eq!(background.spawn(async { current() }).await.unwrap(), None);
        assert_eq!(current(), None);
    }
}
