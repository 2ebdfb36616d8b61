//! Session tokens and bot keys: a prefix, 30 random base62 characters (178 bits) and 6 for a CRC-32, so that typos and scans
//! are refused without asking the store. Only the SHA-256 of a token is ever stored.

use aws_lc_rs::digest;
use secrecy::{ExposeSecret, SecretString};

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const RANDOM: usize = 30;
const CHECKSUM: usize = 6;
const PREFIX: usize = 4;
const LENGTH: usize = PREFIX + RANDOM + CHECKSUM;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A user's session, `bcs_…`.
    Session,
    /// A bot's key for the feed, `bck_…`.
    BotKey,
}

impl TokenKind {
    const fn prefix(self) -> &'static str {
        match self {
            Self::Session => "bcs_",
            Self::BotKey => "bck_",
        }
    }
}

/// SHA-256 of a token, which is stored and looked up. The token cannot be derived from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenHash(pub [u8; 32]);

/// A new token, from a source of cryptographically random bytes.
pub fn generate(kind: TokenKind, fill: impl FnMut(&mut [u8])) -> SecretString {
    let mut text = String::with_capacity(LENGTH);
    text.push_str(kind.prefix());
    text.push_str(&random_text(RANDOM, fill));
    let mut sum = crc32fast::hash(text.as_bytes());
    for _ in 0..CHECKSUM {
        text.push(char::from(ALPHABET[(sum % 62) as usize]));
        sum /= 62;
    }
    SecretString::from(text)
}

/// Base62 text of that length, with every character equally likely.
pub fn random_text(length: usize, mut fill: impl FnMut(&mut [u8])) -> String {
    let mut text = String::with_capacity(length);
    let mut bytes = [0; 32];
    while text.len() < length {
        fill(&mut bytes);
        // 248 is the largest multiple of 62 in a byte; higher bytes would make some characters more likely.
        for byte in bytes.into_iter().filter(|byte| *byte < 248).take(length - text.len()) {
            text.push(char::from(ALPHABET[usize::from(byte % 62)]));
        }
    }
    text
}

/// The hash of a well-formed token of that kind; `None` for anything else.
pub fn parse(kind: TokenKind, text: &[u8]) -> Option<TokenHash> {
    if text.len() != LENGTH || !text.starts_with(kind.prefix().as_bytes()) {
        return None;
    }
    let (body, checksum) = text.split_at(PREFIX + RANDOM);
    if !body[PREFIX..].iter().all(u8::is_ascii_alphanumeric) {
        return None;
    }
    let mut sum = crc32fast::hash(body);
    for character in checksum {
        if *character != ALPHABET[(sum % 62) as usize] {
            return None;
        }
        sum /= 62;
    }
    Some(hash(text))
}

/// The hash of a token that we created ourselves.
pub fn hash_of(token: &SecretString) -> TokenHash {
    hash(token.expose_secret().as_bytes())
}

fn hash(text: &[u8]) -> TokenHash {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, text).as_ref());
    TokenHash(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KINDS: [TokenKind; 2] = [TokenKind::Session, TokenKind::BotKey];

    fn made(kind: TokenKind, seed: u64) -> String {
        let mut random = crate::tests::seeded(seed);
        let fill = |bytes: &mut [u8]| bytes.iter_mut().for_each(|byte| *byte = random().to_le_bytes()[0]);
        generate(kind, fill).expose_secret().to_owned()
    }

    #[test]
    fn tokens_are_distinct_and_every_character_comes_up() {
        let tokens: std::collections::HashSet<_> = (0..2000).map(|seed| made(TokenKind::Session, seed)).collect();
        assert_eq!(tokens.len(), 2000);
        let mut counts = [0_u32; 62];
        for byte in tokens.iter().flat_map(|token| token[PREFIX..PREFIX + RANDOM].bytes()) {
            counts[ALPHABET.iter().position(|letter| *letter == byte).unwrap()] += 1;
        }
        // 60,000 characters, about 968 of each; 200 is more than six standard deviations.
        assert!(counts.iter().all(|count| count.abs_diff(968) < 200), "{counts:?}");
    }

    #[test]
    fn bytes_that_would_make_a_character_more_likely_are_skipped() {
        let mut next = 248;
        let fill = |bytes: &mut [u8]| {
            bytes.fill(255);
            bytes[0] = next;
            next = next.wrapping_add(1);
        };
        // 248 to 255 are skipped; the first byte used is 0.
        assert_eq!(random_text(3, fill), "012");
    }

    proptest! {
        #[test]
        fn a_generated_token_parses_as_its_own_kind_only(seed: u64) {
            for (kind, other) in [(KINDS[0], KINDS[1]), (KINDS[1], KINDS[0])] {
                let token = made(kind, seed);
                prop_assert_eq!(token.len(), LENGTH);
                prop_assert_eq!(parse(kind, token.as_bytes()), Some(hash_of(&SecretString::from(token.as_str()))));
                prop_assert_eq!(parse(other, token.as_bytes()), None);
                let renamed = token.replacen(kind.prefix(), other.prefix(), 1);
                prop_assert_eq!(parse(other, renamed.as_bytes()), None, "the prefix is part of the checksum");
            }
        }

        #[test]
        fn any_changed_character_is_refused(seed: u64, index in 0..LENGTH, byte: u8) {
            let mut token = made(TokenKind::Session, seed).into_bytes();
            prop_assume!(token[index] != byte);
            token[index] = byte;
            prop_assert_eq!(parse(TokenKind::Session, &token), None);
        }

        #[test]
        fn any_other_length_is_refused(seed: u64, cut in 0..LENGTH, more in "[ -~]{1,5}") {
            let token = made(TokenKind::Session, seed);
            prop_assert_eq!(parse(TokenKind::Session, &token.as_bytes()[..cut]), None);
            prop_assert_eq!(parse(TokenKind::Session, format!("{token}{more}").as_bytes()), None);
            prop_assert_eq!(parse(TokenKind::Session, format!("{more}{token}").as_bytes()), None);
        }

        #[test]
        fn arbitrary_bytes_are_refused(bytes: Vec<u8>, shaped in "bcs_[0-9A-Za-z]{36}") {
            for kind in KINDS {
                prop_assert_eq!(parse(kind, &bytes), None);
                // One in four billion would pass the checksum.
                prop_assert_eq!(parse(kind, shaped.as_bytes()), None);
            }
        }
    }
}
