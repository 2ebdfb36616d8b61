//! The operator's own look: colours derived from one accent colour, then their style sheet, served as one file.

use super::assets::hashed_name;
use super::role_colours::{CONTRAST, DARK_CARD, LIGHT_CARD, Rgb, contrast, hex, mix, parse};
use super::{SiteFileError, files};
use crate::config::SiteConfig;
use crate::views::compressible::CompressibleBody;

pub(super) const OPTION: &str = "site.style";
const LARGEST_KILOBYTES: u64 = 64;

/// The backgrounds of pages in `assets/style.css`.
const LIGHT_PAGE: Rgb = [0xf6, 0xf7, 0xfb];
const DARK_PAGE: Rgb = [0x12, 0x14, 0x1a];
const BLACK: Rgb = [0, 0, 0];
const WHITE: Rgb = [255, 255, 255];
/// The minimum contrast between a button and the card it is on, so that the button is visible.
const VISIBLE: f64 = 1.25;

/// The operator's style sheet, ready to send.
pub(super) struct Look {
    /// The last part of its address, which contains a hash.
    pub(super) file: String,
    pub(super) body: CompressibleBody,
}

impl Look {
    /// `None` if the operator changes nothing.
    pub(super) fn read(config: &SiteConfig) -> Result<Option<Self>, SiteFileError> {
        let mut sheet = config.accent.as_deref().and_then(parse).map(accent_rules).unwrap_or_default();
        if let Some(path) = &config.style {
            sheet.push_str(&files::read_text(OPTION, path, LARGEST_KILOBYTES)?);
        }
        if sheet.is_empty() {
            return Ok(None);
        }
        let file = hashed_name("look.css", sheet.as_bytes());
        Ok(Some(Self { file, body: CompressibleBody::new(sheet.into()) }))
    }
}

/// The colours of one theme.
struct AccentColours {
    /// For links and marks, readable on every background.
    text: Rgb,
    /// The background of selected items.
    soft: Rgb,
    /// For buttons, and for the text on them.
    fill: Rgb,
    ink: Rgb,
}

impl AccentColours {
    fn new(accent: Rgb, [card, page]: [Rgb; 2], soft_share: u16, towards: Rgb) -> Self {
        let soft = mix(card, accent, soft_share);
        let is_readable = |candidate: &Rgb| [card, page, soft].iter().all(|on| contrast(*candidate, *on) >= CONTRAST);
        let text = (0..=20).map(|share| mix(accent, towards, share)).find(is_readable).unwrap_or(towards);
        // The accent itself, unless it's invisible on the card.
        let fill = if contrast(accent, card) >= VISIBLE { accent } else { text };
        let ink = if contrast(WHITE, fill) >= CONTRAST { WHITE } else { BLACK };
        Self { text, soft, fill, ink }
    }
}

fn colours(accent: Rgb) -> [AccentColours; 2] {
    [
        AccentColours::new(accent, [LIGHT_CARD, LIGHT_PAGE], 2, BLACK),
        AccentColours::new(accent, [DARK_CARD, DARK_PAGE], 4, WHITE),
    ]
}

/// The rules for both themes, laid out like the colours in `assets/style.css`.
fn accent_rules(accent: Rgb) -> String {
    let [light, dark] = colours(accent).map(|colours| {
        let AccentColours { text, soft, fill, ink } = colours;
        let [text, soft, fill, ink] = [text, soft, fill, ink].map(hex);
        format!("{{--accent:{text};--accent-soft:{soft};--accent-fill:{fill};--accent-ink:{ink}}}")
    });
    format!(
        ":where(:root){light}\n\
         @media screen and (prefers-color-scheme:dark){{:where(:root:not([data-theme=\"light\"])){dark}}}\n\
         @media screen{{:where(:root[data-theme=\"dark\"]){dark}}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_accent_can_be_read_in_both_themes() {
        let steps = [0, 51, 102, 128, 153, 204, 255];
        let accents =
            steps.iter().flat_map(|red| steps.iter().flat_map(move |green| steps.map(|blue| [*red, *green, blue])));
        for accent in accents {
            let [light, dark] = colours(accent);
            for (theme, card, page) in [(light, LIGHT_CARD, LIGHT_PAGE), (dark, DARK_CARD, DARK_PAGE)] {
                for background in [card, page, theme.soft] {
                    let reached = contrast(theme.text, background);
                    assert!(reached >= 4.5, "{} on {}: {reached}", hex(theme.text), hex(background));
                }
                let reached = contrast(theme.ink, theme.fill);
                assert!(reached >= 4.5, "{} on a button of {}: {reached}", hex(theme.ink), hex(theme.fill));
                assert!(contrast(theme.fill, card) >= VISIBLE, "a button of {} vanishes", hex(theme.fill));
            }
        }
        assert_eq!(colours([0x42, 0x50, 0xc9])[0].text, [0x42, 0x50, 0xc9], "a readable colour stays as it is");
    }

    #[test]
    fn the_dark_theme_has_the_same_colours_whether_chosen_or_preferred_and_older_browsers_know_them() {
        let sheet = include_str!("assets/style.css");
        let colours_after = |selector: &str| {
            let (_, rest) = sheet.split_once(selector).unwrap();
            rest.split_once('}').unwrap().0
        };
        let light = colours_after(":where(:root) {");
        let dark = colours_after(":where(:root:not([data-theme=\"light\"])) {");
        assert_eq!(dark, colours_after(":where(:root[data-theme=\"dark\"]) {"));
        for (colours, card, page) in [(light, LIGHT_CARD, LIGHT_PAGE), (dark, DARK_CARD, DARK_PAGE)] {
            assert!(colours.contains(&format!("--card: {};", hex(card))), "{colours}");
            assert!(colours.contains(&format!("--page: {};", hex(page))), "{colours}");
        }
        for sheet in [sheet, &accent_rules([0xff, 0xd4, 0])] {
            assert!(!sheet.contains("light-dark("), "browsers from before mid-2024 would show no colour at all");
        }
    }
}
