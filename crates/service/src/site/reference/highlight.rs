//! Syntax highlighting without a library: strings, keys, numbers and keywords. Everything else stays plain.

use maud::{Markup, PreEscaped, Render, html};

use super::command::ORIGIN;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodeLanguage {
    Shell,
    JavaScript,
    Python,
    Json,
    /// Everything else.
    Plain,
}

impl CodeLanguage {
    /// The languages that calls are shown in.
    pub(super) const CALLS: [Self; 3] = [Self::Shell, Self::JavaScript, Self::Python];

    /// The language that a fenced block names.
    pub(super) fn named(name: &str) -> Self {
        match name {
            "sh" | "bash" => Self::Shell,
            "js" | "javascript" => Self::JavaScript,
            "python" => Self::Python,
            "json" => Self::Json,
            _ => Self::Plain,
        }
    }

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Shell => "curl",
            Self::JavaScript => "JavaScript",
            Self::Python => "Python",
            Self::Json => "JSON",
            Self::Plain => "",
        }
    }

    const fn keywords(self) -> &'static [&'static str] {
        match self {
            Self::Shell => &["curl"],
            Self::JavaScript => &["const", "await", "if", "throw", "new", "for", "of"],
            Self::Python => &["import", "with", "as", "for", "in", "None"],
            Self::Json => &["true", "false", "null"],
            Self::Plain => &[],
        }
    }

    /// The quotes around strings, longest first.
    const fn quotes(self) -> &'static [&'static str] {
        match self {
            Self::Shell => &["\"", "'"],
            Self::JavaScript => &["\"", "'", "`"],
            Self::Python => &["'''", "\"", "'"],
            Self::Json => &["\""],
            Self::Plain => &[],
        }
    }
}

/// The code as HTML, with a `<span>` per coloured part and `origin`, in one of its own, in place of [`ORIGIN`].
pub(super) fn highlight(language: CodeLanguage, code: &str, origin: &str) -> Markup {
    let mut out = String::new();
    let mut rest = code;
    let mut is_word_start = true;
    while let Some(first) = rest.chars().next() {
        let (length, class) = if let Some(length) = string(language, rest) {
            let is_key = language == CodeLanguage::Json && rest[length..].starts_with(':');
            (length, if is_key { "k" } else { "s" })
        } else if is_word_start && is_word(first) && language != CodeLanguage::Plain {
            let word = rest.split(|letter| !is_word(letter)).next().unwrap_or(rest);
            let is_number = language != CodeLanguage::Shell && first.is_ascii_digit();
            let other = if is_number { "n" } else { "" };
            (word.len(), if language.keywords().contains(&word) { "w" } else { other })
        } else {
            (first.len_utf8(), "")
        };
        let (part, after) = rest.split_at(length);
        is_word_start = !part.ends_with(|letter| is_word(letter) || letter == '.' || letter == '-');
        if class.is_empty() {
            part.render_to(&mut out);
        } else {
            html! { span class=(class) { (part) } }.render_to(&mut out);
        }
        rest = after;
    }
    PreEscaped(out.replace(ORIGIN, &html! { span class="origin" { (origin) } }.into_string()))
}

/// The length of the string literal at the start of the code.
fn string(language: CodeLanguage, code: &str) -> Option<usize> {
    let quote = language.quotes().iter().find(|quote| code.starts_with(**quote))?;
    let mut at = quote.len();
    while at < code.len() {
        let rest = &code[at..];
        if rest.starts_with(quote) {
            return Some(at + quote.len());
        }
        // A shell's single quotes have no escapes.
        let is_escape = rest.starts_with('\\') && !(language == CodeLanguage::Shell && *quote == "'");
        at += rest.chars().take(if is_escape { 2 } else { 1 }).map(char::len_utf8).sum::<usize>();
    }
    // The closing quote is missing.
    None
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_language_is_coloured_and_nothing_is_lost_or_becomes_markup() {
        for (language, code, expected) in [
            (
                CodeLanguage::Json,
                r#"{"a": [1, true, "b:\"<"]}"#,
                "{<span class=\"k\">&quot;a&quot;</span>: [<span class=\"n\">1</span>, <span class=\"w\">true</span>, <span class=\"s\">&quot;b:\\&quot;&lt;&quot;</span>]}",
            ),
            (
                CodeLanguage::Shell,
                "curl -sS \u{1}/x -H \"T: $T\"",
                "<span class=\"w\">curl</span> -sS <span class=\"origin\">URL</span>/x -H <span class=\"s\">&quot;T: $T&quot;</span>",
            ),
            (
                CodeLanguage::JavaScript,
                "await f(\"\u{1}/x\")",
                "<span class=\"w\">await</span> f(<span class=\"s\">&quot;<span class=\"origin\">URL</span>/x&quot;</span>)",
            ),
            (
                CodeLanguage::Python,
                "data='''{\"a\": 1}''', t=30",
                "data=<span class=\"s\">'''{&quot;a&quot;: 1}'''</span>, t=<span class=\"n\">30</span>",
            ),
            (CodeLanguage::Json, "\"open", "&quot;open"),
            (CodeLanguage::Plain, "if \"a\" < 1", "if &quot;a&quot; &lt; 1"),
        ] {
            assert_eq!(highlight(language, code, "URL").into_string(), expected, "{code}");
        }
    }
}
