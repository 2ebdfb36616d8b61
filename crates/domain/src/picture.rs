//! Pictures: always an address, the thing's own or the provider's default one. What is stored is the provider's own address, so it does
//! not depend on a setting; only `api` shows it.

use serde::{Deserialize, Serialize};

/// The stored address of a picture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Picture(String);

impl Picture {
    /// The address as it is stored. People are shown the one that `api::picture::PictureHost` makes of it.
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

/// A hash goes into a path, so nothing but a hash may.
pub fn is_hash(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
