//! A person, as the specification shows one (2.3).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Snowflake;

/// A user of the chat platform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct User {
    /// The unique handle.
    pub username: String,
    /// The display name, or the username where there is none.
    pub name: String,
    /// The provider's id, numeric text.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "80351110224678912")]
    pub id: Snowflake,
    /// Always a URL: the user's own picture, or the provider's default one.
    #[schema(format = Uri)]
    pub avatar: String,
}
