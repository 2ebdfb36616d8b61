//! Untrusted text on its way into a store.

use std::borrow::Cow;

/// The text in a form that every store accepts: U+0000 is replaced with U+FFFD, because PostgreSQL refuses it.
pub fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_store_refuses_is_replaced() {
        for (given, expected) in
            [("", ""), ("a\u{1}\u{7f}🎉", "a\u{1}\u{7f}🎉"), ("\0", "\u{fffd}"), ("a\0\0b", "a\u{fffd}\u{fffd}b")]
        {
            assert_eq!(storable(given), expected);
        }
    }
}
