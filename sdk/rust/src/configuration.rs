//! The address of the service and the bot's key.

use std::fmt;

use hyper::Uri;
use hyper::header::HeaderValue;

/// The service's address, and the key for it.
#[derive(Clone)]
pub(crate) struct Configuration {
    pub(crate) url: String,
    pub(crate) authorization: HeaderValue,
}

/// Why the feed cannot start: which value is missing or wrong, and what to do. It never contains the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationError(String);

impl ConfigurationError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigurationError {}

impl Configuration {
    /// From the variables `COMPANION_URL` and `COMPANION_BOT_KEY`.
    pub(crate) fn from_env() -> Result<Self, ConfigurationError> {
        let read = |name: &str, remedy: &str| match std::env::var(name) {
            Ok(value) if !value.is_empty() => Ok(value),
            Ok(_) | Err(std::env::VarError::NotPresent) => {
                Err(ConfigurationError(format!("{name} is not set: {remedy}")))
            }
            Err(std::env::VarError::NotUnicode(_)) => Err(ConfigurationError(format!("{name} is not text: {remedy}"))),
        };
        let url = read("COMPANION_URL", "set it to the service's address, for example https://companion.example")?;
        let key = read("COMPANION_BOT_KEY", "set it to the key that `bot-companion key create` shows")?;
        Self::new(&url, &key)
    }

    pub(crate) fn new(url: &str, key: &str) -> Result<Self, ConfigurationError> {
        Ok(Self { url: checked_url(url)?, authorization: authorization(key)? })
    }
}

/// The address without a slash at the end.
fn checked_url(url: &str) -> Result<String, ConfigurationError> {
    let wrong = |why: &str| Err(ConfigurationError(format!("COMPANION_URL {why}")));
    if url.trim() != url {
        return wrong("has a space or a line break around it: remove it");
    }
    let Ok(parsed) = url.parse::<Uri>() else {
        return wrong("is not an address: write it like https://companion.example");
    };
    if !matches!(parsed.scheme_str(), Some("http" | "https")) || parsed.host().is_none_or(str::is_empty) {
        return wrong("does not begin with http:// or https://: write it like https://companion.example");
    }
    if parsed.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return wrong("contains a username: remove it, the key belongs in COMPANION_BOT_KEY");
    }
    if parsed.query().is_some() {
        return wrong("has a question mark in it: it must end with the host or the base path");
    }
    Ok(url.trim_end_matches('/').to_owned())
}

fn authorization(key: &str) -> Result<HeaderValue, ConfigurationError> {
    let wrong = |why: &str| Err(ConfigurationError(format!("COMPANION_BOT_KEY {why}")));
    if key.chars().any(char::is_whitespace) {
        return wrong("has a space or a line break in it: copy the key alone");
    }
    if !key.starts_with("bck_") || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return wrong("is not a bot key, which begins with bck_: create one with `bot-companion key create`");
    }
    HeaderValue::from_str(&format!("Bearer {key}")).or_else(|_| wrong("has a character that no key has"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(url: &str, key: &str) -> String {
        Configuration::new(url, key).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn errors_name_the_variable_and_never_the_key() {
        for url in
            ["companion.example", "ftp://companion.example", "https://", "https://a b", "http://u:p@x", "http://x/?a"]
        {
            assert!(error_of(url, "bck_x").starts_with("COMPANION_URL "), "{url}");
        }
        for key in ["bck_secret\n", "secret", "bck_sec ret", "bck_secr\u{e9}t"] {
            let error = error_of("https://companion.example", key);
            assert!(error.starts_with("COMPANION_BOT_KEY "), "{key:?}: {error}");
            assert!(!error.contains("sec"), "{error}");
        }
    }

    #[test]
    fn a_base_path_stays_and_a_last_slash_goes() {
        assert_eq!(
            Configuration::new("http://[::1]:8080/api/", "bck_x").map(|configuration| configuration.url),
            Ok("http://[::1]:8080/api".into())
        );
    }
}
