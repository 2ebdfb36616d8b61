//! Turns addresses in an operator's text into links.

use maud::{Markup, html};

/// The text, with every `http://` and `https://` address in it as a link.
pub(super) fn linked(text: &str) -> Markup {
    html! {
        @for part in parts(text) {
            @match part {
                TextPart::Text(text) => { (text) }
                TextPart::Address(address) => { a href=(address) rel="noopener noreferrer" { (address) } }
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum TextPart<'a> {
    Text(&'a str),
    Address(&'a str),
}

fn parts(text: &str) -> Vec<TextPart<'_>> {
    let mut parts = Vec::new();
    let mut done = 0;
    for (found, _) in text.match_indices("http") {
        let address = address(&text[found..]);
        // An address starts where a word does.
        let is_inside = text[..found].ends_with(char::is_alphanumeric);
        if found < done || is_inside || address.is_empty() {
            continue;
        }
        parts.extend((found > done).then(|| TextPart::Text(&text[done..found])));
        parts.push(TextPart::Address(address));
        done = found + address.len();
    }
    parts.extend((done < text.len()).then(|| TextPart::Text(&text[done..])));
    parts
}

/// The address at the start of this text, without the punctuation of its sentence; empty if there is none.
fn address(text: &str) -> &str {
    let Some(host) = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) else { return "" };
    if !host.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '[') {
        return "";
    }
    let is_end = |letter: char| letter.is_whitespace() || letter.is_control() || matches!(letter, '<' | '>' | '"');
    let mut address = text.split(is_end).next().unwrap_or_default();
    while let Some(last) = address.chars().next_back() {
        let is_closing = last == ')' && !address.contains('(');
        if !is_closing && !matches!(last, '.' | ',' | ';' | ':' | '!' | '?' | '\'' | ']' | '}' | '*' | '_' | '“' | '”')
        {
            break;
        }
        address = address.strip_suffix(last).unwrap_or_default();
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_links_and_nothing_else_is() {
        for (text, expected) in [
            ("", ""),
            ("no address", "no address"),
            ("see https://a.example/b?c=1&d=2.", "see [https://a.example/b?c=1&d=2]."),
            ("https://a.example", "[https://a.example]"),
            ("(http://a.example/x), then", "([http://a.example/x]), then"),
            ("https://a.example/x_(y)!", "[https://a.example/x_(y)]!"),
            ("one\nhttps://a.example\ntwo", "one\n[https://a.example]\ntwo"),
            ("https://a.example https://b.example", "[https://a.example] [https://b.example]"),
            ("xhttps://a.example", "xhttps://a.example"),
            ("https:// http https://\"", "https:// http https://\""),
            ("javascript:alert(1) HTTPS://A.example", "javascript:alert(1) HTTPS://A.example"),
            ("https://a.example\"onclick=x", "[https://a.example]\"onclick=x"),
            ("häuser https://ä.example", "häuser https://ä.example"),
        ] {
            let written: String = parts(text)
                .iter()
                .map(|part| match part {
                    TextPart::Text(text) => (*text).to_owned(),
                    TextPart::Address(address) => format!("[{address}]"),
                })
                .collect();
            assert_eq!(written, expected, "{text}");
        }
        let shown = linked("<b> https://a.example/?a=1&b='2'").into_string();
        assert_eq!(
            shown,
            "&lt;b&gt; <a href=\"https://a.example/?a=1&amp;b='2\" rel=\"noopener noreferrer\">https://a.example/?a=1&amp;b='2</a>'"
        );
    }
}
