//! The operator's own look: colours made from one accent colour, and their own style sheet. Both are one file.

use std::fmt::Write as _;

use aws_lc_rs::digest;

use super::role_colours::{CONTRAST, DARK_CARD, LIGHT_CARD, Rgb, contrast, hex, mix, parse};
use super::{SiteFileError, files};
use crate::config::SiteConfig;
use crate::views::compressible::CompressibleBody;

pub(super) const SETTING: &str = "site.style";
const LARGEST_KILOBYTES: u64 = 64;

/// The backgrounds of pages in `assets/style.css`.
const LIGHT_PAGE: Rgb = [0xf6, 0xf7, 0xfb];
const DARK_PAGE: Rgb = [0x12, 0x14, 0x1a];
const BLACK: Rgb = [0, 0, 0];
const WHITE: Rgb = [255, 255, 255];
/// The least contrast of a button's area to the card that it is on, so that it looks like one.
const VISIBLE: f64 = 1.25;

/// The operator's style sheet, ready to send.
pub(super) struct Look {
    /// The last part of its address, which holds a hash.
    pub(super) file: String,
    pub(super) body: CompressibleBody,
}

impl Look {
    /// `None` if the look is the service's own.
    pub(super) fn read(config: &SiteConfig) -> Result<Option<Self>, SiteFileError> {
        let mut sheet = config.accent.as_deref().and_then(parse).map(accent_rule).unwrap_or_default();
        if let Some(path) = &config.style {
            sheet.push_str(&files::read_text(SETTING, path, LARGEST_KILOBYTES)?);
        }
        if sheet.is_empty() {
            return Ok(None);
        }
        let mut hash = String::new();
        for byte in &digest::digest(&digest::SHA256, sheet.as_bytes()).as_ref()[..8] {
            // Writing to a string cannot fail.
            let _ = write!(hash, "{byte:02x}");
        }
        Ok(Some(Self { file: format!("look.{hash}.css"), body: CompressibleBody::new(sheet.into()) }))
    }
}

/// The colours of one theme.
struct AccentColours {
    /// Of links and marks, readable on every background.
    text: Rgb,
    /// Behind what is chosen.
    soft: Rgb,
    /// Of buttons, and of the text on them.
    fill: Rgb,
    ink: Rgb,
}

impl AccentColours {
    fn new(accent: Rgb, [card, page]: [Rgb; 2], soft_share: u16, towards: Rgb) -> Self {
        let soft = mix(card, accent, soft_share);
        let is_readable = |candidate: &Rgb| [card, page, soft].iter().all(|on| contrast(*candidate, *on) >= CONTRAST);
        let text = (0..=20).map(|share| mix(accent, towards, share)).find(is_readable).unwrap_or(towards);
        // The accent itself, unless it vanishes on the card.
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

fn accent_rule(accent: Rgb) -> String {
    let [light, dark] = colours(accent);
    let both = |of: fn(&AccentColours) -> Rgb| format!("light-dark({},{})", hex(of(&light)), hex(of(&dark)));
    format!(
        ":root{{--accent:{};--accent-soft:{};--accent-fill:{};--accent-ink:{}}}\n",
        both(|colours| colours.text),
        both(|colours| colours.soft),
        both(|colours| colours.fill),
        both(|colours| colours.ink),
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
        assert_eq!(colours([0x42, 0x50, 0xc9])[0].text, [0x42, 0x50, 0xc9], "what can be read stays as it is");
    }
}
