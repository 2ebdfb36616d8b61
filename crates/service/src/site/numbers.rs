//! Numbers as each language writes them.

use super::words::Words;

/// The form that goes with a number: "1 shard", "2 shards". Both languages have two forms, and zero takes the second.
pub(super) const fn plural<'a>(count: u64, one: &'a str, other: &'a str) -> &'a str {
    if count == 1 { one } else { other }
}

/// A number with thousands separators.
pub(super) fn grouped(number: u64, words: &Words) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(words.shared.thousands);
        }
        grouped.push(digit);
    }
    grouped
}

/// A number with one decimal.
pub(super) fn decimal(number: f64, words: &Words) -> String {
    format!("{number:.1}").replace('.', words.shared.decimal)
}

/// Hundredths of a percent as "99.98%"; all of them as "100%".
pub(super) fn percent(hundredths: u64, words: &Words) -> String {
    let sign = words.shared.percent;
    match hundredths {
        10_000 => format!("100{sign}"),
        _ => format!("{}{}{:02}{sign}", hundredths / 100, words.shared.decimal, hundredths % 100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::Language;

    const EN: &Words = Language::English.words();
    const DE: &Words = Language::German.words();

    #[test]
    fn one_is_singular_and_nothing_else() {
        assert_eq!(
            [0, 1, 2, 21].map(|count| plural(count, "shard", "shards")),
            ["shards", "shard", "shards", "shards"]
        );
    }

    #[test]
    fn thousands_are_apart() {
        for (number, english, german) in
            [(0, "0", "0"), (999, "999", "999"), (1_000, "1,000", "1.000"), (12_345_678, "12,345,678", "12.345.678")]
        {
            assert_eq!((grouped(number, EN).as_str(), grouped(number, DE).as_str()), (english, german));
        }
    }

    #[test]
    fn decimals_and_percents_are_those_of_the_language() {
        assert_eq!((decimal(4.25, EN).as_str(), decimal(4.75, DE).as_str()), ("4.2", "4,8"));
        for (hundredths, english, german) in [
            (10_000, "100%", "100\u{202f}%"),
            (9_998, "99.98%", "99,98\u{202f}%"),
            (5_000, "50.00%", "50,00\u{202f}%"),
            (7, "0.07%", "0,07\u{202f}%"),
        ] {
            assert_eq!((percent(hundredths, EN).as_str(), percent(hundredths, DE).as_str()), (english, german));
        }
    }
}
