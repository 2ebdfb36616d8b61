//! What an operator may announce, and the state of an announcement.

use std::time::Duration;

use super::super::Time;
use super::Announcement;

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
    /// When it happens, if it is maintenance.
    pub window: Option<MaintenanceWindow>,
}

impl Notice {
    /// Checks what an operator wrote; the error says what to do.
    pub fn new(title: &str, text: &str) -> Result<Self, String> {
        let (title, text) = (title.trim(), text.trim());
        if title.is_empty() {
            return Err("the title is empty: tell visitors in one line what they should know".to_owned());
        }
        let length = title.chars().count();
        if length > TITLE {
            return Err(too_long("title", length, TITLE, "shorten it and put the rest in --text"));
        }
        if title.contains(char::is_control) {
            return Err(
                "the title contains a line break or another control character: keep it to one line and put the rest in --text"
                    .to_owned(),
            );
        }
        Ok(Self { title: title.to_owned(), text: checked_text(text, TEXT)?, window: None })
    }

    /// The same notice, as maintenance in this window.
    #[must_use]
    pub fn during(self, window: MaintenanceWindow) -> Self {
        Self { window: Some(window), ..self }
    }
}

/// A text in one or more lines, trimmed; the error says what to do.
pub(super) fn checked_text(text: &str, most: usize) -> Result<String, String> {
    let text = text.trim();
    let length = text.chars().count();
    if length > most {
        return Err(too_long("text", length, most, "shorten it and link to the rest"));
    }
    if let Some(control) = text.chars().find(|letter| letter.is_control() && *letter != '\n') {
        let code = u32::from(control);
        return Err(format!(
            "the text contains the control character U+{code:04X}: remove it; line feeds are the only ones allowed"
        ));
    }
    Ok(text.to_owned())
}

fn too_long(what: &str, length: usize, most: usize, remedy: &str) -> String {
    format!("the {what} is {length} characters long, and the limit is {most}: {remedy}")
}

/// The longest maintenance.
const LONGEST_WINDOW: Duration = Duration::from_hours(30 * 24);
/// How far ahead maintenance may be announced.
const FURTHEST_AHEAD: Duration = Duration::from_hours(366 * 24);

/// When maintenance happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaintenanceWindow {
    pub begins: Time,
    pub ends: Time,
}

impl MaintenanceWindow {
    /// Checks what an operator wrote at this time; the error says what to do.
    pub fn new(begins: Time, ends: Time, now: Time) -> Result<Self, String> {
        if ends <= begins {
            return Err("maintenance must end after it begins: --ends must be later than --begins".to_owned());
        }
        if ends <= now {
            return Err("the maintenance would already be over: --ends must be in the future".to_owned());
        }
        if ends.since(begins) > LONGEST_WINDOW || begins.since(now) > FURTHEST_AHEAD {
            return Err(
                "maintenance can start at most a year ahead and last at most 30 days: check the dates".to_owned()
            );
        }
        Ok(Self { begins, ends })
    }
}

/// The state of an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnouncementState {
    /// Maintenance that hasn't begun.
    Scheduled,
    /// Maintenance right now.
    InProgress,
    /// An announcement that is not over.
    Active,
    /// Maintenance that was cancelled before it began.
    Cancelled,
    Over,
}

impl AnnouncementState {
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::InProgress => "in_progress",
            Self::Active => "active",
            Self::Cancelled => "cancelled",
            Self::Over => "over",
        }
    }
}

impl Announcement {
    pub fn state(&self, now: Time) -> AnnouncementState {
        match (self.window, self.ended) {
            (Some(window), Some(ended)) if ended < window.begins => AnnouncementState::Cancelled,
            (Some(window), None) if now < window.begins => AnnouncementState::Scheduled,
            (Some(window), None) if now < window.ends => AnnouncementState::InProgress,
            (None, None) => AnnouncementState::Active,
            (_, Some(_)) | (Some(_), None) => AnnouncementState::Over,
        }
    }

    /// Since when it has been over. Maintenance ends by itself at its planned end.
    pub fn over_since(&self, now: Time) -> Option<Time> {
        let planned = self.window.map(|window| window.ends).filter(|ends| *ends <= now);
        // The operator may resolve it later.
        self.ended.into_iter().chain(planned).min()
    }

    /// When it last changed, by itself or through the operator.
    pub fn changed(&self, now: Time) -> Time {
        let begun = self.window.map(|window| window.begins).filter(|begins| *begins <= now);
        let by_itself = self.over_since(now).or(begun);
        by_itself.into_iter().chain(self.rescheduled).fold(self.posted, Time::max)
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

    #[test]
    fn maintenance_has_a_begin_and_an_end_that_make_sense() {
        let at = Time::from_seconds;
        let now = at(1_000_000);
        let day = 86_400;
        for (begins, ends, problem) in [
            (1_000_100, 1_000_200, None),
            (999_000, 1_000_001, None),
            (1_000_000, 1_000_000 + 30 * day, None),
            (1_000_200, 1_000_100, Some("--ends must be later than --begins")),
            (1_000_200, 1_000_200, Some("--ends must be later than --begins")),
            (999_000, 1_000_000, Some("--ends must be in the future")),
            (1_000_000, 1_000_001 + 30 * day, Some("last at most 30 days")),
            (1_000_000 + 367 * day, 1_000_000 + 368 * day, Some("at most a year ahead")),
        ] {
            match (MaintenanceWindow::new(at(begins), at(ends), now), problem) {
                (Ok(window), None) => assert_eq!((window.begins, window.ends), (at(begins), at(ends))),
                (Err(said), Some(problem)) => assert!(said.contains(problem), "{said}"),
                (outcome, _) => panic!("{begins} {ends}: {outcome:?}"),
            }
        }
    }

    #[test]
    fn maintenance_is_scheduled_then_in_progress_then_over_by_itself() {
        use AnnouncementState::{Active, Cancelled, InProgress, Over, Scheduled};
        let at = Time::from_seconds;
        let window = Some(MaintenanceWindow { begins: at(200), ends: at(300) });
        for (window, ended, now, state, over_since, changed) in [
            (None, None, 500, Active, None, 100),
            (None, Some(400), 500, Over, Some(400), 400),
            (window, None, 199, Scheduled, None, 100),
            (window, None, 200, InProgress, None, 200),
            (window, None, 299, InProgress, None, 200),
            (window, None, 300, Over, Some(300), 300),
            (window, Some(150), 160, Cancelled, Some(150), 150),
            (window, Some(250), 260, Over, Some(250), 250),
            (window, Some(400), 500, Over, Some(300), 300),
        ] {
            let (title, text) = (String::new(), String::new());
            let ended = ended.map(at);
            let announcement = Announcement { id: 1, title, text, posted: at(100), ended, window, rescheduled: None };
            let seen = (announcement.state(at(now)), announcement.over_since(at(now)), announcement.changed(at(now)));
            assert_eq!(seen, (state, over_since.map(at), at(changed)), "{window:?} {ended:?} at {now}");
            let moved = Announcement { rescheduled: Some(at(220)), ..announcement };
            assert_eq!(moved.changed(at(now)), at(changed.max(220)));
        }
    }
}
