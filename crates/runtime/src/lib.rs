//! What running code needs and rules do not: time, randomness, background tasks, limits on rate and concurrency, and files.

pub mod background;
pub mod clock;
pub mod concurrency;
pub mod file_access;
pub mod liveness;
pub mod permits_per_key;
pub mod random;
pub mod rate_limit;
pub mod shared_check;
pub mod single_flight;
pub mod subjects;
