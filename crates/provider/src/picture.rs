//! Addresses of the provider's images. An image field is always a URL: the thing's own, or else the provider's default.

use domain::picture::is_hash;
use domain::{Picture, Snowflake};

/// The host of the provider's images.
pub const CDN: &str = "https://cdn.discordapp.com";

/// The path of an image that always exists.
pub const DEFAULT_PATH: &str = "/embed/avatars/0.png";

/// A user's avatar from the provider's hash.
pub fn avatar(user: Snowflake, hash: Option<&str>) -> Picture {
    match hash.filter(|hash| is_hash(hash)) {
        Some(animated) if animated.starts_with("a_") => {
            format!("{CDN}/avatars/{user}/{animated}.webp?animated=true").into()
        }
        Some(still) => format!("{CDN}/avatars/{user}/{still}.png").into(),
        None => default_picture(user),
    }
}

/// A guild's icon from what the bot sent: a hash, an https URL, or nothing.
pub fn guild_icon(guild: Snowflake, icon: Option<&str>) -> Picture {
    match icon {
        Some(url) if url.starts_with("https://") => url.into(),
        Some(hash) if is_hash(hash) => format!("{CDN}/icons/{guild}/{hash}.png").into(),
        _ => default_picture(guild),
    }
}

fn default_picture(id: Snowflake) -> Picture {
    format!("{CDN}/embed/avatars/{}.png", default_number(id)).into()
}

/// Which of the six default images belongs to this ID.
pub fn default_number(id: Snowflake) -> u64 {
    (id.get() >> 22) % 6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_picture_is_a_url() {
        let id = Snowflake::new(80_351_110_224_678_912).unwrap();
        let default = "https://cdn.discordapp.com/embed/avatars/5.png";
        assert_eq!(avatar(id, Some("abc1")).stored(), format!("https://cdn.discordapp.com/avatars/{id}/abc1.png"));
        assert_eq!(
            avatar(id, Some("a_abc1")).stored(),
            format!("https://cdn.discordapp.com/avatars/{id}/a_abc1.webp?animated=true")
        );
        for odd in [None, Some(""), Some("../../x"), Some("a b")] {
            assert_eq!(avatar(id, odd).stored(), default);
            assert_eq!(guild_icon(id, odd).stored(), default);
        }
        assert_eq!(guild_icon(id, Some("abc1")).stored(), format!("https://cdn.discordapp.com/icons/{id}/abc1.png"));
        assert_eq!(guild_icon(id, Some("https://example.com/i.png")).stored(), "https://example.com/i.png");
        assert_eq!(guild_icon(id, Some("http://example.com/i.png")).stored(), default);
    }
}
