//! Where images are loaded from.

use std::sync::Arc;

use domain::Picture;

/// Where the provider's images are loaded from.
#[derive(Clone, Debug)]
pub struct PictureHost {
    provider: &'static str,
    /// The path of the image for someone who was forgotten, for whom no address is stored.
    default: &'static str,
    /// `None` if it is the provider itself.
    other: Option<Arc<str>>,
}

impl PictureHost {
    /// The provider's own host and the path of its default image, and the host that its images are loaded from. Neither host
    /// ends with a slash.
    pub fn new(provider: &'static str, default: &'static str, url: &str) -> Self {
        Self { provider, default, other: (url != provider).then(|| url.into()) }
    }

    /// The address that an image is loaded from. One that isn't the provider's stays as it is.
    pub fn shown(&self, picture: &Picture) -> String {
        let path = match picture.stored() {
            "" => self.default,
            url => match url.strip_prefix(self.provider) {
                Some(path) if path.starts_with('/') => path,
                _ => return url.to_owned(),
            },
        };
        format!("{}{path}", self.other.as_deref().unwrap_or(self.provider))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_providers_pictures_are_shown_from_elsewhere() {
        const CDN: &str = "https://cdn.example";
        let (provider, other) =
            (PictureHost::new(CDN, "/0.png", CDN), PictureHost::new(CDN, "/0.png", "http://127.0.0.1:8081"));
        for (url, elsewhere) in [
            ("https://cdn.example/icons/1/a.png", "http://127.0.0.1:8081/icons/1/a.png"),
            ("https://cdn.example.evil/a.png", "https://cdn.example.evil/a.png"),
            ("https://example.com/i.png", "https://example.com/i.png"),
        ] {
            assert_eq!(provider.shown(&url.into()), url);
            assert_eq!(other.shown(&url.into()), elsewhere);
        }
        assert_eq!(provider.shown(&"".into()), "https://cdn.example/0.png");
    }
}
