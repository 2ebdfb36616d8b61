//! Addresses of the provider's pictures. A picture field is always a URL: the thing's own, else the provider's default one.

use domain::Snowflake;
use domain::picture::is_hash;

/// Where the provider has its pictures.
pub const CDN: &str = "https://cdn.discordapp.com";

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
    format!("{CDN}/embed/avatars/{}.png", default_number(id))
}

/// Which of the six default pictures belongs to this id.
pub(crate) fn default_number(id: Snowflake) -> u64 {
    (id.get() >> 22) % 6
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
    }
}
