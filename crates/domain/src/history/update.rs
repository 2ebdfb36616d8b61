//! Updates: what an operator tells visitors during an incident or an announcement.

use std::str::FromStr;

use super::super::Time;
use super::announcement;

/// The longest text of an update, in characters.
pub const TEXT: usize = 1_000;

/// What an update is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateSubject {
    Announcement(u64),
    Incident(u64),
}

impl FromStr for UpdateSubject {
    type Err = String;

    /// "3" is an announcement, "incident-3" an incident: the same names as in links to the status page.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().ok();
        let subject = match text.strip_prefix("incident-") {
            Some(id) => number(id).map(Self::Incident),
            None => number(text.strip_prefix("announcement-").unwrap_or(text)).map(Self::Announcement),
        };
        subject.ok_or_else(|| "write an announcement's number, like 3, or an incident's, like incident-3".to_owned())
    }
}

impl std::fmt::Display for UpdateSubject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Announcement(id) => write!(f, "announcement-{id}"),
            Self::Incident(id) => write!(f, "incident-{id}"),
        }
    }
}

/// How far along the operator's work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdatePhase {
    Investigating,
    Identified,
    Monitoring,
    Resolved,
}

impl UpdatePhase {
    pub const ALL: [Self; 4] = [Self::Investigating, Self::Identified, Self::Monitoring, Self::Resolved];

    /// The name that is stored and printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Investigating => "investigating",
            Self::Identified => "identified",
            Self::Monitoring => "monitoring",
            Self::Resolved => "resolved",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == name)
    }
}

/// An update that visitors may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewUpdate {
    pub subject: UpdateSubject,
    pub phase: UpdatePhase,
    /// Possibly in several lines; may be empty.
    pub text: String,
}

impl NewUpdate {
    /// Checks what an operator wrote; the error says what to do.
    pub fn new(subject: UpdateSubject, phase: UpdatePhase, text: &str) -> Result<Self, String> {
        Ok(Self { subject, phase, text: announcement::checked_text(text, TEXT)? })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    pub id: u64,
    pub subject: UpdateSubject,
    pub phase: UpdatePhase,
    /// Possibly in several lines; may be empty.
    pub text: String,
    pub posted: Time,
}

/// The result of posting an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateOutcome {
    Posted,
    /// There is no such announcement or incident.
    NoSubject,
    /// It has reached the limit.
    TooMany,
    /// An incident can't be resolved before the bot is back.
    NotOver,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_written_as_in_the_address_of_its_place() {
        for (text, subject) in [
            ("3", Some(UpdateSubject::Announcement(3))),
            ("announcement-3", Some(UpdateSubject::Announcement(3))),
            ("incident-12", Some(UpdateSubject::Incident(12))),
            ("incident-", None),
            ("incident 3", None),
            ("-3", None),
            ("", None),
        ] {
            assert_eq!(text.parse().ok(), subject, "{text}");
        }
        for subject in [UpdateSubject::Announcement(3), UpdateSubject::Incident(4)] {
            assert_eq!(subject.to_string().parse(), Ok(subject));
        }
    }

    #[test]
    fn phases_have_names_and_texts_a_limit() {
        assert!(UpdatePhase::ALL.into_iter().all(|phase| UpdatePhase::parse(phase.name()) == Some(phase)));
        assert_eq!(UpdatePhase::parse("Resolved"), None);
        let update = |text: &str| NewUpdate::new(UpdateSubject::Incident(1), UpdatePhase::Identified, text);
        assert_eq!(update(" A bad disk.\nNew one ordered. ").unwrap().text, "A bad disk.\nNew one ordered.");
        assert_eq!(update("").unwrap().text, "");
        assert!(update(&"ä".repeat(1_000)).is_ok());
        assert!(update(&"ä".repeat(1_001)).unwrap_err().contains("1001 characters long, and the limit is 1000"));
        assert!(update("bell\u{7}").unwrap_err().contains("U+0007"));
    }
}
