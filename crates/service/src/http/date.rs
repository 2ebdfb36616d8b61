//! The `Date` header. hyper would write its own, from a cache that only renews when the system's clock moves forward: after the
//! clock was set back, it would stay in the future. It would also report a time that the service does not trust.

use std::cell::RefCell;
use std::time::{Duration, UNIX_EPOCH};

use domain::Time;
use http::HeaderValue;

/// The last second that the format can write.
const LAST: u64 = 253_402_300_799;

/// The header for this moment. Each thread caches the text of one second.
pub(crate) fn header(now: Time) -> HeaderValue {
    thread_local! {
        static WRITTEN: RefCell<(u64, HeaderValue)> = RefCell::new(write(0));
    }
    let second = now.seconds();
    WRITTEN.with_borrow_mut(|written| {
        if written.0 != second {
            *written = write(second);
        }
        written.1.clone()
    })
}

fn write(second: u64) -> (u64, HeaderValue) {
    let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second.min(LAST)));
    (second, HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_follows_the_time_forward_and_back() {
        for (seconds, text) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (1_800_000_000, "Fri, 15 Jan 2027 08:00:00 GMT"),
            (1_800_864_000, "Mon, 25 Jan 2027 08:00:00 GMT"),
            (1_800_000_001, "Fri, 15 Jan 2027 08:00:01 GMT"),
            (LAST, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (u64::MAX / 1_000, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(header(Time::from_seconds(seconds)), text);
        }
    }
}
