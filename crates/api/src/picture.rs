//! From where pictures are shown.

use std::sync::Arc;

use domain::Picture;

/// From where the provider's pictures are shown.
#[derive(Clone, Debug)]
pub struct PictureHost {
    provider: &'static str,
    /// `None` if it is the provider itself.
    other: Option<Arc<str>>,
}

impl PictureHost {
    /// The provider's own host, and the one that its pictures are shown from. Neither has a slash at its end.
    pub fn new(provider: &'static str, url: &str) -> Self {
        Self { provider, other: (url != provider).then(|| url.into()) }
    }

    /// The address at which a picture is shown. One that is not the provider's stays as it is.
    pub fn shown(&self, picture: &Picture) -> String {
        let url = picture.stored();
        let path =
            self.other.as_ref().and_then(|_| url.strip_prefix(self.provider)).filter(|path| path.starts_with('/'));
        match (&self.other, path) {
            (Some(other), Some(path)) => format!("{other}{path}"),
            _ => url.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_providers_pictures_are_shown_from_elsewhere() {
        const CDN: &str = "https://cdn.example";
        let (provider, other) = (PictureHost::new(CDN, CDN), PictureHost::new(CDN, "http://127.0.0.1:8081"));
        for (url, elsewhere) in [
            ("https://cdn.example/icons/1/a.png", "http://127.0.0.1:8081/icons/1/a.png"),
            ("https://cdn.example.evil/a.png", "https://cdn.example.evil/a.png"),
            ("https://example.com/i.png", "https://example.com/i.png"),
        ] {
            assert_eq!(provider.shown(&url.into()), url);
            assert_eq!(other.shown(&url.into()), elsewhere);
        }
    }
}
