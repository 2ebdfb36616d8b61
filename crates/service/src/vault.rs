//! Encryption at rest for the provider's tokens: AES-256-GCM with the key's ID in front and the user's ID as associated data,
//! so that a row copied to another user cannot be decrypted. Every key decrypts, the first one encrypts.

use std::sync::Arc;

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use domain::{Snowflake, Time};
use provider::idp::Grant;
use runtime::random::secret_bytes;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use store::SealedGrant;

use crate::config::SecretKey;

pub struct Vault {
    keys: ArcSwap<VaultKeys>,
}

/// Keys with their IDs; at least one. The first one encrypts.
pub struct VaultKeys(Vec<(String, LessSafeKey)>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    /// A key with the wrong format.
    #[error("the key `{0}` is not 32 bytes long")]
    BadKey(String),
    #[error("no key is configured")]
    NoKey,
    /// It was encrypted with a key that is no longer configured.
    #[error("encrypted with a key that is no longer configured")]
    UnknownKey,
    /// It could not be encrypted.
    #[error("the grant cannot be encrypted")]
    NotSealed,
    /// It is damaged, or belongs to another user.
    #[error("the grant cannot be decrypted")]
    Damaged,
}

/// The plaintext, with short names because it is stored for every user.
#[derive(Serialize, Deserialize)]
struct SealedContent<'a> {
    access: std::borrow::Cow<'a, str>,
    refresh: std::borrow::Cow<'a, str>,
    expires: u64,
    scopes: Vec<std::borrow::Cow<'a, str>>,
}

impl VaultKeys {
    pub fn new(keys: &[SecretKey]) -> Result<Self, VaultError> {
        let keys = keys
            .iter()
            .map(|key| {
                let bad = || VaultError::BadKey(key.id.clone());
                let unbound = UnboundKey::new(&AES_256_GCM, key.bytes()).map_err(|_| bad())?;
                Ok((key.id.clone(), LessSafeKey::new(unbound)))
            })
            .collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() { Err(VaultError::NoKey) } else { Ok(Self(keys)) }
    }
}

impl Vault {
    pub fn new(keys: &[SecretKey]) -> Result<Self, VaultError> {
        Ok(Self { keys: ArcSwap::from_pointee(VaultKeys::new(keys)?) })
    }

    /// A vault that decrypts with these keys, if there are any.
    pub fn for_reading(keys: &[SecretKey]) -> Result<Self, VaultError> {
        let keys = if keys.is_empty() { VaultKeys(Vec::new()) } else { VaultKeys::new(keys)? };
        Ok(Self { keys: ArcSwap::from_pointee(keys) })
    }

    pub fn replace(&self, keys: VaultKeys) {
        self.keys.store(Arc::new(keys));
    }

    /// The IDs of the keys, starting with the one that encrypts.
    pub fn key_ids(&self) -> Vec<String> {
        self.keys.load().0.iter().map(|(id, _)| id.clone()).collect()
    }

    /// Encrypts a user's grant with the first key: length of the key's ID, the ID, the nonce, then the ciphertext with its tag.
    pub fn seal(&self, user: Snowflake, grant: &Grant) -> Result<SealedGrant, VaultError> {
        let keys = self.keys.load();
        let (id, key) = keys.0.first().ok_or(VaultError::NoKey)?;
        let inside = SealedContent {
            access: grant.access_token.expose_secret().into(),
            refresh: grant.refresh_token.expose_secret().into(),
            expires: grant.expires.millis(),
            scopes: grant.scopes.iter().map(|scope| scope.as_str().into()).collect(),
        };
        let mut secret = serde_json::to_vec(&inside).map_err(|_| VaultError::NotSealed)?;
        let mut nonce = [0; NONCE_LEN];
        secret_bytes(&mut nonce);
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad(user), &mut secret)
            .map_err(|_| VaultError::NotSealed)?;
        let mut sealed = Vec::with_capacity(1 + id.len() + NONCE_LEN + secret.len());
        sealed.push(u8::try_from(id.len()).map_err(|_| VaultError::NotSealed)?);
        sealed.extend_from_slice(id.as_bytes());
        sealed.extend_from_slice(&nonce);
        sealed.extend_from_slice(&secret);
        Ok(SealedGrant(sealed))
    }

    /// Whether this was encrypted with the first key.
    pub fn is_current(&self, sealed: &SealedGrant) -> bool {
        let keys = self.keys.load();
        keys.0.first().is_some_and(|(id, _)| parts(sealed).is_ok_and(|(sealed_with, _)| sealed_with == id.as_bytes()))
    }

    /// Decrypts a user's grant with the key that encrypted it.
    pub fn open(&self, user: Snowflake, sealed: &SealedGrant) -> Result<Grant, VaultError> {
        let (id, rest) = parts(sealed)?;
        let (nonce, ciphertext) = rest.split_first_chunk::<NONCE_LEN>().ok_or(VaultError::Damaged)?;
        let keys = self.keys.load();
        let (_, key) = keys.0.iter().find(|(known, _)| known.as_bytes() == id).ok_or(VaultError::UnknownKey)?;
        let mut secret = ciphertext.to_vec();
        let plain = key
            .open_in_place(Nonce::assume_unique_for_key(*nonce), aad(user), &mut secret)
            .map_err(|_| VaultError::Damaged)?;
        let inside: SealedContent<'_> = serde_json::from_slice(plain).map_err(|_| VaultError::Damaged)?;
        Ok(Grant {
            access_token: SecretString::from(inside.access.into_owned()),
            refresh_token: SecretString::from(inside.refresh.into_owned()),
            expires: Time::from_millis(inside.expires),
            scopes: inside.scopes.into_iter().map(Into::into).collect(),
        })
    }
}

/// The ID of the key that encrypted a grant; empty if the grant names none.
pub fn sealed_with(sealed: &SealedGrant) -> String {
    parts(sealed).map_or_else(|_| String::new(), |(id, _)| String::from_utf8_lossy(id).into_owned())
}

/// The ID of the key, and the rest.
fn parts(sealed: &SealedGrant) -> Result<(&[u8], &[u8]), VaultError> {
    let (length, rest) = sealed.0.split_first().ok_or(VaultError::Damaged)?;
    rest.split_at_checked(usize::from(*length)).ok_or(VaultError::Damaged)
}

fn aad(user: Snowflake) -> Aad<[u8; 8]> {
    Aad::from(user.get().to_be_bytes())
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.keys.load().0.iter().map(|(id, _)| id)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str, byte: u8) -> SecretKey {
        SecretKey::new(id.to_owned(), [byte; 32])
    }

    fn grant() -> Grant {
        Grant {
            access_token: SecretString::from("access \"quoted\""),
            refresh_token: SecretString::from("refresh"),
            expires: Time::from_millis(12_345),
            scopes: vec!["identify".to_owned(), "guilds".to_owned()],
        }
    }

    #[test]
    fn keys_rotate_without_losing_what_was_sealed() {
        let user = Snowflake::new(7).unwrap();
        let sealed = Vault::new(&[key("old", 1)]).unwrap().seal(user, &grant()).unwrap();
        let rotated = Vault::new(&[key("new", 2), key("old", 1)]).unwrap();
        let opened = rotated.open(user, &sealed).unwrap();
        assert_eq!(opened.access_token.expose_secret(), "access \"quoted\"");
        assert_eq!(opened.refresh_token.expose_secret(), "refresh");
        assert_eq!((opened.expires, opened.scopes.len()), (Time::from_millis(12_345), 2));

        let resealed = rotated.seal(user, &opened).unwrap();
        assert_eq!((sealed_with(&sealed).as_str(), sealed_with(&resealed).as_str()), ("old", "new"));
        assert_eq!((rotated.is_current(&sealed), rotated.is_current(&resealed)), (false, true));
        let retired = Vault::new(&[key("new", 2)]).unwrap();
        assert!(retired.open(user, &resealed).is_ok());
        assert_eq!(retired.open(user, &sealed).unwrap_err(), VaultError::UnknownKey);
        retired.replace(VaultKeys::new(&[key("old", 1)]).unwrap());
        assert!(retired.open(user, &sealed).is_ok(), "while it runs");
        assert!(retired.open(user, &resealed).is_err());
    }

    #[test]
    fn nothing_opens_for_another_user_or_after_damage() {
        let (user, other) = (Snowflake::new(7).unwrap(), Snowflake::new(8).unwrap());
        let vault = Vault::new(&[key("a", 1)]).unwrap();
        let sealed = vault.seal(user, &grant()).unwrap();
        assert_eq!(vault.open(other, &sealed).unwrap_err(), VaultError::Damaged);
        assert_ne!(vault.seal(user, &grant()).unwrap(), sealed, "a fresh nonce each time");
        for index in 0..sealed.0.len() {
            let mut damaged = sealed.clone();
            damaged.0[index] ^= 1;
            assert!(vault.open(user, &damaged).is_err(), "byte {index}");
            assert!(vault.open(user, &SealedGrant(sealed.0[..index].to_vec())).is_err(), "cut at {index}");
        }
    }

    #[test]
    fn debug_prints_ids_and_nothing_else() {
        let vault = Vault::new(&[key("first", 65)]).unwrap();
        assert_eq!(format!("{vault:?}"), "[\"first\"]");
    }
}
