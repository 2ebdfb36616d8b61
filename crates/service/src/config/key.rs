use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_PAD_INDIFFERENT};
use secrecy::zeroize::Zeroize as _;
use secrecy::{ExposeSecret as _, SecretBox, SecretString};

/// A key that encrypts the provider's tokens at rest. Written `id:base64 of 32 bytes`.
#[derive(Clone, Debug)]
pub struct SecretKey {
    /// Its name, stored with what it encrypted.
    pub id: String,
    bytes: Arc<SecretBox<[u8; Self::LENGTH]>>,
}

/// Why a text is not a key. It never contains the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretKeyError {
    #[error("write an ID, a colon and 32 bytes in base64")]
    Shape,
    /// The ID has the wrong format.
    #[error("the ID before the colon must be 1 to 32 letters, digits, \"_\" or \"-\"")]
    Id,
    /// The part after the colon cannot be decoded.
    #[error("the part after the colon is not base64")]
    Base64,
    /// It does not decode to 32 bytes.
    #[error("the part after the colon is {0} bytes in base64, not 32")]
    Length(usize),
}

impl SecretKey {
    pub const LENGTH: usize = 32;

    pub fn new(id: impl Into<String>, mut bytes: [u8; Self::LENGTH]) -> Self {
        let secret = SecretBox::new(Box::new(bytes));
        bytes.zeroize();
        Self { id: id.into(), bytes: Arc::new(secret) }
    }

    pub fn bytes(&self) -> &[u8; Self::LENGTH] {
        self.bytes.expose_secret()
    }

    /// The key as written in a configuration.
    pub fn to_text(&self) -> SecretString {
        format!("{}:{}", self.id, STANDARD.encode(self.bytes())).into()
    }
}

impl FromStr for SecretKey {
    type Err = SecretKeyError;

    fn from_str(text: &str) -> Result<Self, SecretKeyError> {
        let (id, encoded) = text.split_once(':').ok_or(SecretKeyError::Shape)?;
        let of_id = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if !(1..=32).contains(&id.len()) || !id.bytes().all(of_id) {
            return Err(SecretKeyError::Id);
        }
        let decoded = STANDARD_PAD_INDIFFERENT.decode(encoded).map_err(|_| SecretKeyError::Base64)?;
        let decoded = SecretBox::new(decoded.into_boxed_slice());
        let bytes =
            decoded.expose_secret().try_into().map_err(|_| SecretKeyError::Length(decoded.expose_secret().len()))?;
        Ok(Self::new(id, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let key = SecretKey::new("k-1", [7; 32]);
        let text = key.to_text();
        let again: SecretKey = text.expose_secret().parse().unwrap();
        assert_eq!((again.id.as_str(), again.bytes()), ("k-1", &[7; 32]));
        let unpadded: SecretKey = text.expose_secret().trim_end_matches('=').parse().unwrap();
        assert_eq!(unpadded.bytes(), &[7; 32]);
    }

    #[test]
    fn refused() {
        for (text, error) in [
            ("", SecretKeyError::Shape),
            ("AAAA", SecretKeyError::Shape),
            (":AAAA", SecretKeyError::Id),
            ("a b:AAAA", SecretKeyError::Id),
            ("a:?", SecretKeyError::Base64),
            ("a:AAAA", SecretKeyError::Length(3)),
            ("a:", SecretKeyError::Length(0)),
        ] {
            assert_eq!(text.parse::<SecretKey>().unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn cannot_be_printed() {
        let key = SecretKey::new("k", [0xAB; 32]);
        let shown = format!("{key:?}");
        assert!(shown.contains("REDACTED") && !shown.contains("171"), "{shown}");
    }
}
