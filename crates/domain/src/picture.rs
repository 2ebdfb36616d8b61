//! Addresses of pictures. A picture field is always a URL: the thing's own, else the provider's default one.
//!
//! They are stored as the provider's own addresses, and [`PictureHost`] says where they are shown from. So what is stored does not
//! depend on a setting.

use std::sync::Arc;

use super::Snowflake;

const CDN: &str = "https://cdn.discordapp.com";

/// From where the provider's pictures are shown.
#[derive(Clone, Debug)]
pub struct PictureHost {
    /// `None` if it is the provider itself.
    other: Option<Arc<str>>,
}

impl PictureHost {
    /// The host with this address, which has no slash at its end.
    pub fn new(url: &str) -> Self {
        Self { other: (url != CDN).then(|| url.into()) }
    }

    /// The address at which a picture is shown. One that is not the provider's stays as it is.
    pub fn shown(&self, url: String) -> String {
        // Of somebody who was forgotten no address is stored.
        let url = if url.is_empty() { default_picture(Snowflake::NOBODY) } else { url };
        let path = self.other.as_ref().and_then(|_| url.strip_prefix(CDN)).filter(|path| path.starts_with('/'));
        match (&self.other, path) {
            (Some(other), Some(path)) => format!("{other}{path}"),
            _ => url,
        }
    }
}

/// A user's avatar from the hash that the provider names.
pub fn avatar(user: Snowflake, hash: Option<&str>) -> String {
    match hash.filter(|hash| is_hash(hash)) {
        Some(animated) if animated.starts_with("a_") => format!("{CDN}/avatars/{user}/{animated}.webp?animated=true"),
        Some(still) => format!("{CDN}/avatars/{user}/{still}.png"),
        None => default_picture(user),
    }
}

/// A guild's icon from what the bot sent: a hash, an https URL, or nothing.
pub fn guild_icon(guild: Snowflake, icon: Option<&str>) -> String {
    match icon {
        Some(url) if url.starts_with("https://") => url.to_owned(),
        Some(hash) if is_hash(hash) => format!("{CDN}/icons/{guild}/{hash}.png"),
        _ => default_picture(guild),
    }
}

fn default_picture(id: Snowflake) -> String {
    format!("{CDN}/embed/avatars/{}.png", id.default_picture())
}

/// A hash goes into a path, so nothing but a hash may.
pub fn is_hash(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_picture_is_a_url() {
        let id = Snowflake::new(80_351_110_224_678_912).unwrap();
        let default = "https://cdn.discordapp.com/embed/avatars/5.png";
        assert_eq!(avatar(id, Some("abc1")), format!("https://cdn.discordapp.com/avatars/{id}/abc1.png"));
        assert_eq!(
            avatar(id, Some("a_abc1")),
            format!("https://cdn.discordapp.com/avatars/{id}/a_abc1.webp?animated=true")
        );
        for odd in [None, Some(""), Some("../../x"), Some("a b")] {
            assert_eq!(avatar(id, odd), default);
            assert_eq!(guild_icon(id, odd), default);
        }
        assert_eq!(guild_icon(id, Some("abc1")), format!("https://cdn.discordapp.com/icons/{id}/abc1.png"));
        assert_eq!(guild_icon(id, Some("https://example.com/i.png")), "https://example.com/i.png");
        assert_eq!(guild_icon(id, Some("http://example.com/i.png")), default);
        assert_eq!(PictureHost::new(CDN).shown(String::new()), "https://cdn.discordapp.com/embed/avatars/0.png");
    }

    #[test]
    fn only_the_providers_pictures_are_shown_from_elsewhere() {
        let (provider, other) = (PictureHost::new(CDN), PictureHost::new("http://127.0.0.1:8081"));
        for (url, elsewhere) in [
            ("https://cdn.discordapp.com/icons/1/a.png", "http://127.0.0.1:8081/icons/1/a.png"),
            ("https://cdn.discordapp.com.example/a.png", "https://cdn.discordapp.com.example/a.png"),
            ("https://example.com/i.png", "https://example.com/i.png"),
        ] {
            assert_eq!(provider.shown(url.to_owned()), url);
            assert_eq!(other.shown(url.to_owned()), elsewhere);
        }
    }
}
