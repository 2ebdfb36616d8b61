//! Opening a store that is not ready yet. The service and the commands keep trying for `store.start_wait`: after a power cut,
//! or on a busy host, the database may come up a little later than they do.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::{Result, StoreError};

/// How long to wait before the next try.
const PAUSE: Duration = Duration::from_millis(500);
/// How often to log that it is still trying.
const TELL_EVERY: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreLocation<'a> {
    /// A file, by its path.
    File(&'a str),
    /// A database server, by its hosts.
    Server(&'a str),
}

/// What to do after a failed try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Waiting will not fix it.
    GiveUp,
    /// Time is up.
    TimeIsUp,
    Again,
}

/// Decides based on the error and the time spent so far.
fn next(location: StoreLocation<'_>, error: &StoreError, tried: Duration, limit: Duration) -> Next {
    let mends_itself = match error {
        // A wrong password, a schema of a newer release, not a database.
        StoreError::Failed(_) | StoreError::Damaged(_) => false,
        // A server that is starting, or cannot be reached yet. A full or broken disk needs attention.
        StoreError::Unavailable(_) => matches!(location, StoreLocation::Server(_)),
        // Too many connections, or another process holds the file.
        StoreError::Busy(_) => true,
    };
    match mends_itself {
        false => Next::GiveUp,
        true if tried >= limit => Next::TimeIsUp,
        true => Next::Again,
    }
}

/// Keeps opening it until it succeeds or there is no point in waiting. If time runs out during a try, that try may finish.
pub(super) async fn keep_trying<T, F>(
    limit: Duration,
    location: StoreLocation<'_>,
    mut open: impl FnMut() -> F,
) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let (began, mut told) = (Instant::now(), None::<Instant>);
    let (StoreLocation::File(name) | StoreLocation::Server(name)) = location;
    loop {
        let error = match open().await {
            Ok(opened) => {
                if told.is_some() {
                    info!(store = name, "the store is open now");
                }
                return Ok(opened);
            }
            Err(error) => error,
        };
        match next(location, &error, began.elapsed(), limit) {
            Next::GiveUp => return Err(error),
            Next::TimeIsUp => return Err(gave_up(location, error, limit)),
            Next::Again => {}
        }
        if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
            let left = limit.saturating_sub(began.elapsed()).as_secs();
            warn!(store = name, %error, "the store cannot be opened yet; retrying for {left} s (store.start_wait)");
            told = Some(Instant::now());
        }
        sleep(PAUSE).await;
    }
}

/// The last error, with what can be done about it.
fn gave_up(location: StoreLocation<'_>, error: StoreError, limit: Duration) -> StoreError {
    let remedy = match location {
        StoreLocation::File(path) => format!(
            "Gave up on `{path}` after {limit:?}: find out which process holds it, or give it more time with store.start_wait"
        ),
        StoreLocation::Server(hosts) => format!(
            "Gave up on {hosts} after {limit:?}: start the database, or correct store.url; store.start_wait gives a slow \
             database more time, and `connect_timeout` in store.url gives each connection more"
        ),
    };
    let with_remedy = |why: String| format!("{why}. {remedy}");
    match error {
        StoreError::Unavailable(why) => StoreError::Unavailable(with_remedy(why)),
        StoreError::Busy(why) => StoreError::Busy(with_remedy(why)),
        // These were not waited for.
        StoreError::Failed(_) | StoreError::Damaged(_) => error,
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn only_what_mends_itself_is_waited_for_and_not_for_ever() {
        let (file, server) = (StoreLocation::File("a.db"), StoreLocation::Server("db:5432"));
        let failed = || StoreError::Failed("x".to_owned());
        let away = || StoreError::Unavailable("x".to_owned());
        let busy = || StoreError::Busy("x".to_owned());
        for (location, error, tried, limit, expected) in [
            (server, away(), 0, 30, Next::Again),
            (server, away(), 29, 30, Next::Again),
            (server, away(), 30, 30, Next::TimeIsUp),
            (server, away(), 0, 0, Next::TimeIsUp),
            (server, busy(), 3, 30, Next::Again),
            (server, busy(), 31, 30, Next::TimeIsUp),
            (server, failed(), 0, 30, Next::GiveUp),
            (file, busy(), 5, 30, Next::Again),
            (file, busy(), 5, 0, Next::TimeIsUp),
            (file, away(), 0, 30, Next::GiveUp),
            (file, failed(), 0, 30, Next::GiveUp),
            (file, StoreError::Damaged("x".to_owned()), 0, 30, Next::GiveUp),
        ] {
            let found = next(location, &error, tried * SECOND, limit * SECOND);
            assert_eq!(found, expected, "{location:?}, {error}, {tried} of {limit} s");
        }
    }

    #[tokio::test]
    async fn it_tries_again_until_it_succeeds_and_says_at_the_end_what_helps() {
        let mut tries = 0;
        let opened = keep_trying(Duration::MAX, StoreLocation::Server("db:5432"), || {
            tries += 1;
            ready(if tries < 3 { Err(StoreError::Unavailable("refused".to_owned())) } else { Ok(tries) })
        });
        assert_eq!(opened.await.unwrap(), 3);

        let mut tries = 0;
        let refused: Result<()> = keep_trying(Duration::MAX, StoreLocation::Server("db:5432"), || {
            tries += 1;
            ready(Err(StoreError::Failed("wrong password".to_owned())))
        })
        .await;
        assert_eq!((tries, refused.unwrap_err().to_string().as_str()), (1, "the store failed: wrong password"));

        let gone: Result<()> = keep_trying(Duration::ZERO, StoreLocation::Server("db:5432"), || {
            ready(Err(StoreError::Unavailable("refused".to_owned())))
        })
        .await;
        let said = gone.unwrap_err().to_string();
        for part in ["refused", "db:5432", "store.start_wait", "connect_timeout"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
