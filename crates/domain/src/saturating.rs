//! Conversions that cannot fail: a number that does not fit becomes the largest one that does.

use std::time::Duration;

pub fn to_u32(number: impl TryInto<u32>) -> u32 {
    number.try_into().unwrap_or(u32::MAX)
}

pub fn to_u64(number: impl TryInto<u64>) -> u64 {
    number.try_into().unwrap_or(u64::MAX)
}

pub fn to_i64(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

pub fn to_usize(number: impl TryInto<usize>) -> usize {
    number.try_into().unwrap_or(usize::MAX)
}

pub fn millis(span: Duration) -> u64 {
    to_u64(span.as_millis())
}

pub fn nanos(span: Duration) -> u64 {
    to_u64(span.as_nanos())
}
