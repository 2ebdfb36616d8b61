//! A person, as shown by sign-in and feedback.

use domain::{Snowflake, User};
use serde::Serialize;
use utoipa::ToSchema;

use super::picture::PictureHost;

/// A user of the chat platform.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = User)]
pub struct UserData {
    /// The unique handle.
    username: String,
    /// The display name, or the username if there is none.
    name: String,
    /// The ID at the provider, as a string of digits.
    #[schema(value_type = String, pattern = "^[1-9][0-9]{0,18}$", example = "80351110224678912")]
    id: Snowflake,
    /// Always a URL: the user's avatar, or the provider's default one.
    #[schema(format = Uri)]
    avatar: String,
}

impl UserData {
    pub fn new(User { username, name, id, avatar }: User, pictures: &PictureHost) -> Self {
        Self { username, name, id, avatar: pictures.shown(&avatar) }
    }
}
