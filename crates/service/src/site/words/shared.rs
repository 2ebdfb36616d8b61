//! Words that more than one page has: the frame, errors, units.

use std::time::Duration;

pub(in crate::site) struct SharedWords {
    pub(in crate::site) skip_to_content: &'static str,
    pub(in crate::site) navigation: &'static str,
    pub(in crate::site) home: &'static str,
    pub(in crate::site) status: &'static str,
    pub(in crate::site) dashboard: &'static str,
    pub(in crate::site) reference: &'static str,
    /// The reference in the navigation, where there is little room.
    pub(in crate::site) reference_short: &'static str,
    pub(in crate::site) links: &'static str,
    pub(in crate::site) made_with: &'static str,
    pub(in crate::site) up: &'static str,
    pub(in crate::site) partly_up: &'static str,
    pub(in crate::site) down: &'static str,
    pub(in crate::site) unknown: &'static str,
    /// How many of how many shards are up.
    pub(in crate::site) shards_up: fn(u64, u64) -> String,
    /// "3 minutes ago".
    pub(in crate::site) ago: fn(Duration) -> String,
    /// "3 minutes".
    pub(in crate::site) span: fn(Duration) -> String,
    /// Separates thousands.
    pub(in crate::site) thousands: char,
    pub(in crate::site) decimal: char,
    pub(in crate::site) back_home: &'static str,
    pub(in crate::site) not_found: ErrorWords,
    pub(in crate::site) rate_limited: ErrorWords,
    pub(in crate::site) overloaded: ErrorWords,
    pub(in crate::site) unavailable: ErrorWords,
    pub(in crate::site) failed: ErrorWords,
    pub(in crate::site) request_id: &'static str,
}

/// What an error page says.
pub(in crate::site) struct ErrorWords {
    pub(in crate::site) title: &'static str,
    pub(in crate::site) text: &'static str,
}

pub(super) const EN: SharedWords = SharedWords {
    skip_to_content: "Skip to content",
    navigation: "Pages",
    home: "Home",
    status: "Status",
    dashboard: "Dashboard",
    reference: "API reference",
    reference_short: "API",
    links: "Links",
    made_with: "Made with bot-companion",
    up: "Up",
    partly_up: "Partly up",
    down: "Down",
    unknown: "Not known yet",
    shards_up: |up, all| match all {
        1 => format!("{up} of 1 shard is up"),
        _ => format!("{up} of {all} shards are up"),
    },
    ago: |span| format!("{} ago", english(span)),
    span: english,
    thousands: ',',
    decimal: '.',
    back_home: "To the home page",
    not_found: ErrorWords {
        title: "This page does not exist",
        text: "The address may be mistyped, or the page has moved.",
    },
    rate_limited: ErrorWords {
        title: "Too many requests",
        text: "Many requests came from your network. Wait a few seconds, then load the page again.",
    },
    overloaded: ErrorWords {
        title: "Very busy",
        text: "There is much to do at the moment. Load the page again in a few seconds.",
    },
    unavailable: ErrorWords {
        title: "Not available at the moment",
        text: "The data cannot be read now. Load the page again in a minute; the team has been told.",
    },
    failed: ErrorWords {
        title: "Something went wrong",
        text: "This is our mistake. Load the page again; if it stays, tell the team, with the id below.",
    },
    request_id: "Request id",
};

pub(super) const DE: SharedWords = SharedWords {
    skip_to_content: "Zum Inhalt",
    navigation: "Seiten",
    home: "Start",
    status: "Status",
    dashboard: "Dashboard",
    reference: "API-Referenz",
    reference_short: "API",
    links: "Links",
    made_with: "Mit bot-companion gemacht",
    up: "Läuft",
    partly_up: "Läuft zum Teil",
    down: "Läuft nicht",
    unknown: "Noch nicht bekannt",
    shards_up: |up, all| match all {
        1 => format!("{up} von 1 Shard läuft"),
        _ => format!("{up} von {all} Shards laufen"),
    },
    ago: |span| format!("vor {}", german_dative(span)),
    span: german,
    thousands: '.',
    decimal: ',',
    back_home: "Zur Startseite",
    not_found: ErrorWords {
        title: "Diese Seite gibt es nicht",
        text: "Vielleicht ist die Adresse falsch geschrieben, oder die Seite ist umgezogen.",
    },
    rate_limited: ErrorWords {
        title: "Zu viele Anfragen",
        text: "Aus deinem Netz kamen sehr viele Anfragen. Warte ein paar Sekunden und lade die Seite neu.",
    },
    overloaded: ErrorWords { title: "Gerade viel los", text: "Lade die Seite in ein paar Sekunden noch einmal." },
    unavailable: ErrorWords {
        title: "Im Moment nicht verfügbar",
        text: "Die Daten lassen sich gerade nicht lesen. Lade die Seite in einer Minute neu; das Team weiß Bescheid.",
    },
    failed: ErrorWords {
        title: "Etwas ist schiefgegangen",
        text: "Das ist unser Fehler. Lade die Seite neu; bleibt es dabei, sag dem Team Bescheid und nenne die Nummer unten.",
    },
    request_id: "Nummer der Anfrage",
};

/// The largest unit that fits, and how many of it.
fn parts(span: Duration) -> (u64, usize) {
    let seconds = span.as_secs();
    match seconds {
        0..60 => (seconds, 0),
        60..3_600 => (seconds / 60, 1),
        3_600..172_800 => (seconds / 3_600, 2),
        _ => (seconds / 86_400, 3),
    }
}

fn english(span: Duration) -> String {
    let (count, unit) = parts(span);
    let unit = ["second", "minute", "hour", "day"][unit];
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

fn german(span: Duration) -> String {
    let (count, unit) = parts(span);
    let (one, many) = [("Sekunde", "Sekunden"), ("Minute", "Minuten"), ("Stunde", "Stunden"), ("Tag", "Tage")][unit];
    format!("{count} {}", if count == 1 { one } else { many })
}

fn german_dative(span: Duration) -> String {
    let days = parts(span).1 == 3;
    german(span) + if days { "n" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_one_unit() {
        for (seconds, en, de) in [
            (0, "0 seconds", "vor 0 Sekunden"),
            (1, "1 second", "vor 1 Sekunde"),
            (59, "59 seconds", "vor 59 Sekunden"),
            (60, "1 minute", "vor 1 Minute"),
            (3_599, "59 minutes", "vor 59 Minuten"),
            (3_600, "1 hour", "vor 1 Stunde"),
            (172_799, "47 hours", "vor 47 Stunden"),
            (172_800, "2 days", "vor 2 Tagen"),
        ] {
            let span = Duration::from_secs(seconds);
            assert_eq!(((EN.span)(span), (DE.ago)(span)), (en.to_owned(), de.to_owned()));
        }
    }
}
