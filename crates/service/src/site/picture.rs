//! Pictures on pages: only the provider's own. Any other host could track who visits the page.

use std::sync::Arc;

use api::picture::PictureHost;
use domain::Picture;
use provider::picture::{CDN, DEFAULT_PATH};

/// Which pictures a page may show.
#[derive(Clone, Debug)]
pub(super) struct Pictures {
    host: PictureHost,
    /// The provider's host, with a trailing slash.
    allowed: Arc<str>,
}

impl Pictures {
    /// Those under this address, which has no trailing slash.
    pub(super) fn new(cdn_url: &str) -> Self {
        Self { host: PictureHost::new(CDN, DEFAULT_PATH, cdn_url), allowed: format!("{cdn_url}/").into() }
    }

    /// The prefix that a picture's address must have.
    pub(super) fn allowed(&self) -> &str {
        &self.allowed
    }

    /// The picture to show: this one, or else the provider's default.
    pub(super) fn safe(&self, picture: &Picture) -> String {
        let url = self.host.shown(picture);
        if url.starts_with(&*self.allowed) { url } else { self.host.shown(&Picture::default()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_providers_pictures_are_shown() {
        let pictures = Pictures::new("https://cdn.example");
        let default = "https://cdn.example/embed/avatars/0.png";
        for (url, shown) in [
            ("https://cdn.example/a.png", "https://cdn.example/a.png"),
            ("https://cdn.example.evil/a.png", default),
            ("https://evil.example/https://cdn.example/", default),
            ("http://cdn.example/a.png", default),
            ("javascript:alert(1)", default),
            ("", default),
        ] {
            assert_eq!(pictures.safe(&url.into()), shown, "{url}");
        }
    }
}
