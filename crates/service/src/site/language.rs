//! The language of a page, from the browser's preferences (`Accept-Language`).

use super::words::{DE, EN, Words};

/// A supported language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// English, the default.
    #[default]
    English,
    German,
}

impl Language {
    pub const ALL: [Self; 2] = [Self::English, Self::German];

    /// Its tag, as `lang` names it.
    pub const fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::German => "de",
        }
    }

    /// The language's name in itself.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::English => "English",
            Self::German => "Deutsch",
        }
    }

    /// The language with this tag.
    pub fn tagged(tag: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.tag() == tag)
    }

    pub(super) const fn words(self) -> &'static Words {
        match self {
            Self::English => &EN,
            Self::German => &DE,
        }
    }

    /// The supported language that an `Accept-Language` prefers; if several rank equally, the first one listed.
    pub fn preferred(accepted: &str) -> Self {
        let mut best = (Self::default(), 0.0);
        for range in accepted.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let tag = parts.next().unwrap_or_default();
            let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |weight| weight.parse().ok());
            let primary = tag.split('-').next().unwrap_or_default();
            let known = Self::ALL.into_iter().find(|language| primary.eq_ignore_ascii_case(language.tag()));
            if let (Some(language), Some(weight)) = (known, weight)
                && weight > best.1
            {
                best = (language, weight);
            }
        }
        best.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_browser_says_which_language() {
        for (accepted, language) in [
            ("", Language::English),
            ("de", Language::German),
            ("DE-at", Language::German),
            ("de-DE,de;q=0.9,en;q=0.8", Language::German),
            ("en-GB,en;q=0.9,de;q=0.8", Language::English),
            ("fr, de;q=0.5, en;q=0.4", Language::German),
            ("fr", Language::English),
            ("de;q=0", Language::English),
            ("de;q=nonsense", Language::English),
            ("de;q=NaN", Language::English),
            ("en;q=0.5, de;q=0.5", Language::English),
            ("deutsch", Language::English),
            ("*", Language::English),
        ] {
            assert_eq!(Language::preferred(accepted), language, "{accepted}");
        }
    }
}
