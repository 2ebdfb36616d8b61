//! Locks that last for a transaction, as advisory locks of the database.

use crate::sql::Lock;

/// The two numbers of a lock, which are those of an `int`.
pub(super) fn key(lock: Lock) -> (i64, i64) {
    let (class, key) = match lock {
        Lock::Feed => (1, 0),
        Lock::Health => (2, 0),
        Lock::User(user) => (3, user.get() >> 12),
        Lock::CleanUp => (5, 0),
        Lock::History => (6, 0),
        Lock::Code(hash) => (4, u64::from(u32::from_be_bytes(hash))),
    };
    // Two locks that share a key only cost a needless wait.
    let [.., a, b, c, d] = key.to_be_bytes();
    (0x0062_6300 + class, i32::from_be_bytes([a, b, c, d]).into())
}
