//! What operators see: metrics, traces, request IDs, log throttles, the running build, and untrusted text made safe for the log.

pub mod log_throttle;
pub mod metrics;
pub mod request_id;
pub mod traces;
pub mod untrusted;
pub mod version;

pub use version::{Commit, Version};
