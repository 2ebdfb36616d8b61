//! Session tokens and bot keys: a prefix, 30 random base62 characters (178 bits) and 6 of CRC-32, so that a typo or a scan
//! is refused without touching the store. Only the SHA-256 of a token is ever kept.

use aws_lc_rs::digest;
use secrecy::{ExposeSecret, SecretString};

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const RANDOM: usize = 30;
const CHECKSUM: usize = 6;
const PREFIX: usize = 4;
const LENGTH: usize = PREFIX + RANDOM + CHECKSUM;

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A session of a user, `bcs_…`.
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

/// SHA-256 of a token: what is stored and looked up. It is of no use to whoever reads it.
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

/// Base62 text of that length, every character equally likely.
pub fn random_text(length: usize, mut fill: impl FnMut(&mut [u8])) -> String {
    let mut text = String::with_capacity(length);
    let mut bytes = [0; 32];
    while text.len() < length {
        fill(&mut bytes);
        // 248 is the largest multiple of 62 in a byte: the rest would favour some characters.
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

/// The hash of a token that we made ourselves.
pub fn hash_of(token: &SecretString) -> TokenHash {
    hash(token.expose_secret().as_bytes())
}

fn hash(text: &[u8]) -> TokenHash {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, text).as_ref());
    TokenHash(bytes)
}
