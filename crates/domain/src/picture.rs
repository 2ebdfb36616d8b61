//! Images: always a URL, the thing's own or the provider's default. The provider's own address is stored, so it does not depend
//! on an option; only `api` shows it.

use serde::{Deserialize, Serialize};

/// The stored address of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Picture(String);

impl Picture {
    /// The address as stored. People see the one that `api::picture::PictureHost` derives from it.
    pub fn stored(&self) -> &str {
        &self.0
    }
}

impl From<String> for Picture {
    fn from(address: String) -> Self {
        Self(address)
    }
}

impl From<&str> for Picture {
    fn from(address: &str) -> Self {
        Self(address.to_owned())
    }
}

/// A hash becomes part of a path, so nothing else may.
pub fn is_hash(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
