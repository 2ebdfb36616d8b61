//! `GET /ready`.

use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, Type};

use super::document::constant;

/// The response of a process that accepts requests.
#[derive(Serialize, ToSchema)]
pub struct Readiness {
    /// Always `ready`; a process that isn't responds with an error.
    #[schema(schema_with = ready)]
    status: &'static str,
}

pub const READY: Readiness = Readiness { status: "ready" };

fn ready() -> Object {
    constant(Type::String, "ready".into(), "Always `ready`; a process that isn't responds with an error.")
}
