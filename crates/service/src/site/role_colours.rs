//! The colours of the team's roles, made readable on both themes' backgrounds.

/// The backgrounds of cards in `assets/style.css`, and the ink that a colour is mixed with until it can be read on them.
const LIGHT: (Rgb, Rgb) = (LIGHT_CARD, [0, 0, 0]);
const DARK: (Rgb, Rgb) = (DARK_CARD, [255, 255, 255]);
pub(super) const LIGHT_CARD: Rgb = [255, 255, 255];
pub(super) const DARK_CARD: Rgb = [0x1b, 0x1e, 0x26];
/// The contrast that small text needs (WCAG 2, level AA), and a little more.
pub(super) const CONTRAST: f64 = 4.6;

pub(super) type Rgb = [u8; 3];

/// The CSS class of a colour like `#5865F2`; `None` if it isn't a colour.
pub(super) fn role_class(colour: &str) -> Option<String> {
    parse(colour).map(|_| format!("c-{}", colour[1..].to_ascii_lowercase()))
}

/// The rule for that class: two properties with a readable version of the colour for each theme.
pub(super) fn role_rule(colour: &str) -> Option<String> {
    let (class, rgb) = (role_class(colour)?, parse(colour)?);
    let shown = |theme| hex(readable(rgb, theme));
    Some(format!(".{class}{{--role-light:{};--role-dark:{}}}\n", shown(LIGHT), shown(DARK)))
}

/// The colour itself if it can be read on the background, else mixed with ink until it can.
fn readable(colour: Rgb, (background, ink): (Rgb, Rgb)) -> Rgb {
    let mut mixed = (0..20).map(|share| mix(colour, ink, share));
    mixed.find(|candidate| contrast(*candidate, background) >= CONTRAST).unwrap_or(ink)
}

/// Mixes in another colour, with a share in twentieths.
pub(super) fn mix(colour: Rgb, other: Rgb, share: u16) -> Rgb {
    std::array::from_fn(|index| {
        let sum = u16::from(colour[index]) * (20 - share) + u16::from(other[index]) * share;
        // A mean of two bytes fits.
        u8::try_from(sum / 20).unwrap_or(u8::MAX)
    })
}

pub(super) fn contrast(a: Rgb, b: Rgb) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// Relative luminance, as WCAG 2 defines it.
fn luminance(colour: Rgb) -> f64 {
    let [red, green, blue] = colour.map(|part| {
        let part = f64::from(part) / 255.0;
        if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

pub(super) fn parse(colour: &str) -> Option<Rgb> {
    // The parser accepts a sign, which isn't a digit.
    let is_hex = |digits: &&str| digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digits = colour.strip_prefix('#').filter(is_hex)?;
    let part = |from: usize| u8::from_str_radix(&digits[from..from + 2], 16).ok();
    Some([part(0)?, part(2)?, part(4)?])
}

pub(super) fn hex([red, green, blue]: Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_can_be_read_on_both_themes() {
        for colour in ["#000000", "#FFFFFF", "#5865F2", "#FFFF00", "#808080", "#FF0000", "#1b1e26", "#00ff88"] {
            for theme in [LIGHT, DARK] {
                let shown = readable(parse(colour).unwrap(), theme);
                assert!(contrast(shown, theme.0) >= CONTRAST, "{colour} became {}", hex(shown));
            }
        }
        assert_eq!(readable([0, 0, 0], LIGHT), [0, 0, 0], "what can be read stays as it is");
        assert!(role_rule("#5865F2").unwrap().starts_with(".c-5865f2{--role-light:#"));
    }

    #[test]
    fn what_is_no_colour_becomes_no_rule() {
        for odd in ["", "#", "#12345", "#1234567", "#+1+1+1", "#zzzzzz", "red", "#12345é", "#123456}"] {
            assert_eq!(role_rule(odd), None, "{odd}");
        }
    }
}
