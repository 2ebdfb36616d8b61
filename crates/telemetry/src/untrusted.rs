//! Untrusted text, escaped for the log.

use std::fmt;

/// Shows untrusted text with control and bidirectional characters escaped, so that it can neither forge a line nor hide in one,
/// and shortened to a sane length.
#[derive(Clone, Copy, Debug)]
pub struct Untrusted<'a>(pub &'a str);

const SHOWN: usize = 256;

impl fmt::Display for Untrusted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars().take(SHOWN) {
            let hides = character.is_control()
                || matches!(character, '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
            if hides {
                write!(f, "{}", character.escape_unicode())?;
            } else {
                write!(f, "{character}")?;
            }
        }
        if self.0.chars().nth(SHOWN).is_some() { f.write_str("…") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_text_forges_no_line() {
        assert_eq!(Untrusted("a\nb\u{1b}[31m\u{202e}c").to_string(), "a\\u{a}b\\u{1b}[31m\\u{202e}c");
        assert_eq!(Untrusted("عربي 🎉").to_string(), "عربي 🎉");
        assert_eq!(Untrusted(&"x".repeat(300)).to_string().chars().count(), 257);
    }
}
