//! What an operator may announce.

/// The longest title, in characters.
pub const TITLE: usize = 200;
/// The longest text, in characters.
pub const TEXT: usize = 4_000;

/// A title and a text that visitors may be shown: trimmed, of limited length, without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// One line.
    pub title: String,
    /// More details, possibly in several lines; may be empty.
    pub text: String,
}

impl Notice {
    /// Checks what an operator wrote; the error says what to do.
    pub fn new(title: &str, text: &str) -> Result<Self, String> {
        let (title, text) = (title.trim(), text.trim());
        if title.is_empty() {
            return Err("the title is empty: tell visitors in one line what they should know".to_owned());
        }
        let long = |what: &str, length: usize, most: usize, remedy: &str| {
            let why = format!("the {what} is {length} characters long, and the limit is {most}: {remedy}");
            if length > most { Err(why) } else { Ok(()) }
        };
        long("title", title.chars().count(), TITLE, "shorten it and put the rest in --text")?;
        long("text", text.chars().count(), TEXT, "shorten it and link to the rest")?;
        if title.contains(char::is_control) {
            return Err(
                "the title contains a line break or another control character: keep it to one line and put the rest in --text"
                    .to_owned(),
            );
        }
        if let Some(control) = text.chars().find(|letter| letter.is_control() && *letter != '\n') {
            let code = u32::from(control);
            return Err(format!(
                "the text contains the control character U+{code:04X}: remove it; line feeds are the only ones allowed"
            ));
        }
        Ok(Self { title: title.to_owned(), text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_announced_and_what_is_wrong_with_the_rest() {
        let long = |letters: usize| "ä".repeat(letters);
        for (title, text, problem) in [
            ("Maintenance at 20:00 UTC", "", None),
            ("  Maintenance 🎉 ", "\nTwo lines:\nthis is one.\n", None),
            (&long(200), &long(4_000), None),
            ("", "x", Some("the title is empty")),
            (" \n ", "x", Some("the title is empty")),
            (
                &long(201),
                "",
                Some("is 201 characters long, and the limit is 200: shorten it and put the rest in --text"),
            ),
            ("x", &long(4_001), Some("the text is 4001 characters long, and the limit is 4000")),
            ("one\ntwo", "", Some("keep it to one line and put the rest in --text")),
            ("one\u{1b}[2Jtwo", "", Some("another control character")),
            ("x", "one\r\ntwo", Some("control character U+000D: remove it")),
            ("x", "\u{9b}31m", Some("U+009B")),
        ] {
            match (Notice::new(title, text), problem) {
                (Ok(notice), None) => {
                    assert_eq!((notice.title.as_str(), notice.text.as_str()), (title.trim(), text.trim()));
                }
                (Err(said), Some(problem)) => assert!(said.contains(problem), "{said}"),
                (outcome, _) => panic!("{title:?} {text:?}: {outcome:?}"),
            }
        }
    }
}
