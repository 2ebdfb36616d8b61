//! Users who were forgotten: how the store remembers that they are, without remembering who.

use aws_lc_rs::digest;

use super::Snowflake;

/// SHA-256 over a user's ID: all that is kept of a user who was forgotten. It does not identify anyone, but someone who knows
/// an ID can check whether it was forgotten, which is its purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserHash(pub [u8; 32]);

impl UserHash {
    pub fn of(user: Snowflake) -> Self {
        let digest = digest::digest(&digest::SHA256, format!("bot-companion forgotten user {user}").as_bytes());
        let mut hash = [0; 32];
        hash.copy_from_slice(digest.as_ref());
        Self(hash)
    }

    /// What replaces the user in the audit: its beginning in hexadecimal.
    pub fn in_audit(&self) -> String {
        self.0.iter().take(8).fold("forgotten:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_of_one_user_and_shows_no_id() {
        let (one, other) = (Snowflake::new(1234).unwrap(), Snowflake::new(1235).unwrap());
        assert_eq!(UserHash::of(one), UserHash::of(one));
        assert_ne!(UserHash::of(one), UserHash::of(other));
        assert_eq!(UserHash::of(one).in_audit().len(), "forgotten:".len() + 16);
        assert!(!UserHash::of(one).in_audit().contains("1234"));
    }
}
