//! What running code needs and rules do not: time, randomness, background tasks, limits on rate and concurrency, files, hosts and
//! networks.

pub mod background;
pub mod client_key;
pub mod clock;
pub mod concurrency;
pub mod file_access;
pub mod host;
pub mod liveness;
pub mod network;
pub mod permits_per_key;
pub mod random;
pub mod rate_limit;
pub mod shared_check;
pub mod single_flight;

pub use network::{Network, NetworkError};
