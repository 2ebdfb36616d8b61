//! Text from outside on its way into a store.

use std::borrow::Cow;

/// The text as every store can hold it: not all of them know U+0000, so the sign for what cannot be shown stands in its place.
pub fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_store_can_hold_is_replaced() {
        for (given, kept) in
            [("", ""), ("a\u{1}\u{7f}🎉", "a\u{1}\u{7f}🎉"), ("\0", "\u{fffd}"), ("a\0\0b", "a\u{fffd}\u{fffd}b")]
        {
            assert_eq!(storable(given), kept);
        }
    }
}
