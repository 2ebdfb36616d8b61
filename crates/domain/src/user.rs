//! A person, as the identity provider knows them.

use serde::{Deserialize, Serialize};

use super::{Picture, Snowflake};

/// A user of the chat platform. The store keeps the user of a code's exchange as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The unique handle.
    pub username: String,
    /// The display name, or the username if there is none.
    pub name: String,
    /// The provider's ID, numeric text.
    pub id: Snowflake,
    /// Always a URL: the user's own image, or the provider's default one.
    pub avatar: Picture,
}
