//! `GET /ready`.

use serde::Serialize;
use utoipa::ToSchema;

/// What a process that takes requests says.
#[derive(Serialize, ToSchema)]
pub struct Readiness {
    /// Always `ready`; a process that is not answers with an error.
    #[schema(pattern = "^ready$")]
    status: &'static str,
}

/// The only value.
pub const READY: Readiness = Readiness { status: "ready" };
