//! Words that several pages share: the frame, errors, units.

use std::time::Duration;

use super::super::numbers::plural;

pub(in crate::site) struct SharedWords {
    pub(in crate::site) skip_to_content: &'static str,
    pub(in crate::site) navigation: &'static str,
    pub(in crate::site) home: &'static str,
    pub(in crate::site) status: &'static str,
    pub(in crate::site) features: &'static str,
    pub(in crate::site) dashboard: &'static str,
    pub(in crate::site) reference: &'static str,
    /// The reference in the navigation, where there is little room.
    pub(in crate::site) reference_short: &'static str,
    pub(in crate::site) links: &'static str,
    pub(in crate::site) language: &'static str,
    pub(in crate::site) theme: &'static str,
    /// System, light, dark.
    pub(in crate::site) themes: [&'static str; 3],
    pub(in crate::site) made_with: &'static str,
    pub(in crate::site) up: &'static str,
    pub(in crate::site) partly_up: &'static str,
    pub(in crate::site) down: &'static str,
    /// The number of shards that are up, and the number of all shards.
    pub(in crate::site) shards_up: fn(u64, u64) -> String,
    /// "3 minutes ago".
    pub(in crate::site) ago: fn(Duration) -> String,
    /// "3 minutes".
    pub(in crate::site) span: fn(Duration) -> String,
    /// How long the bot has been up.
    pub(in crate::site) up_for: fn(Duration) -> String,
    /// Separates thousands.
    pub(in crate::site) thousands: char,
    pub(in crate::site) decimal: &'static str,
    /// The percent sign, with the space that the language puts before it.
    pub(in crate::site) percent: &'static str,
    pub(in crate::site) connection_lost: &'static str,
    pub(in crate::site) just_now: &'static str,
    pub(in crate::site) back_home: &'static str,
    /// What reloads the page, or a list on it.
    pub(in crate::site) try_again: &'static str,
    /// When to reload the page, with the seconds from `Retry-After` if there are any; 0 means now.
    pub(in crate::site) try_again_in: fn(Option<u64>) -> String,
    pub(in crate::site) not_found: ErrorWords,
    pub(in crate::site) rate_limited: ErrorWords,
    pub(in crate::site) overloaded: ErrorWords,
    pub(in crate::site) unavailable: ErrorWords,
    pub(in crate::site) failed: ErrorWords,
    pub(in crate::site) request_id: &'static str,
}

/// The words of an error page.
pub(in crate::site) struct ErrorWords {
    pub(in crate::site) title: &'static str,
    pub(in crate::site) text: &'static str,
}

pub(super) const EN: SharedWords = SharedWords {
    skip_to_content: "Skip to content",
    navigation: "Pages",
    home: "Home",
    status: "Status",
    features: "Features",
    dashboard: "Dashboard",
    reference: "API reference",
    reference_short: "API",
    links: "Links",
    language: "Language",
    theme: "Theme",
    themes: ["System", "Light", "Dark"],
    made_with: "Made with bot-companion",
    up: "Up",
    partly_up: "Partly up",
    down: "Down",
    shards_up: |up, all| {
        let shards = plural(all, "shard", "shards");
        let verb = plural(if all == 1 { 1 } else { up }, "is", "are");
        format!("{up} of {all} {shards} {verb} up")
    },
    ago: |span| format!("{} ago", english(span)),
    span: english,
    up_for: |span| format!("Up for {}", english(span)),
    thousands: ',',
    decimal: ".",
    percent: "%",
    connection_lost: "Connection lost. Last updated {ago}.",
    just_now: "just now",
    back_home: "Go to the home page",
    try_again: "Try again",
    try_again_in: |seconds| match seconds {
        Some(0) => "You can try again now.".to_owned(),
        Some(seconds) => format!("Try again in {seconds} {}.", plural(seconds, "second", "seconds")),
        None => "Try again in a minute.".to_owned(),
    },
    not_found: ErrorWords {
        title: "This page doesn't exist",
        text: "The address may be mistyped, or the page may have moved.",
    },
    rate_limited: ErrorWords { title: "Too many requests", text: "Your network has sent too many requests." },
    overloaded: ErrorWords { title: "Too busy", text: "We're very busy right now." },
    unavailable: ErrorWords { title: "Temporarily unavailable", text: "We can't load this page right now." },
    failed: ErrorWords {
        title: "Something went wrong",
        text: "This is our fault. Try again. If that doesn't help, send the bot's team the ID below.",
    },
    request_id: "Request ID",
};

pub(super) const DE: SharedWords = SharedWords {
    skip_to_content: "Zum Inhalt",
    navigation: "Seiten",
    home: "Start",
    status: "Status",
    features: "Funktionen",
    dashboard: "Dashboard",
    reference: "API-Referenz",
    reference_short: "API",
    links: "Links",
    language: "Sprache",
    theme: "Design",
    themes: ["System", "Hell", "Dunkel"],
    made_with: "Erstellt mit bot-companion",
    up: "Online",
    partly_up: "Teilweise online",
    down: "Offline",
    shards_up: |up, all| {
        let shards = plural(all, "Shard", "Shards");
        let verb = plural(if all == 1 { 1 } else { up }, "ist", "sind");
        format!("{up} von {all} {shards} {verb} online")
    },
    ago: |span| format!("vor {}", german_dative(span)),
    span: german,
    up_for: |span| format!("Läuft seit {}", german_dative(span)),
    thousands: '.',
    decimal: ",",
    percent: "\u{202f}%",
    connection_lost: "Verbindung unterbrochen. Zuletzt aktualisiert {ago}.",
    just_now: "gerade eben",
    back_home: "Zur Startseite",
    try_again: "Erneut versuchen",
    try_again_in: |seconds| match seconds {
        Some(0) => "Du kannst es jetzt noch einmal versuchen.".to_owned(),
        Some(seconds) => format!("Versuch es in {seconds} {} noch einmal.", plural(seconds, "Sekunde", "Sekunden")),
        None => "Versuch es in einer Minute noch einmal.".to_owned(),
    },
    not_found: ErrorWords {
        title: "Diese Seite gibt es nicht",
        text: "Vielleicht ist die Adresse falsch geschrieben, oder die Seite ist umgezogen.",
    },
    rate_limited: ErrorWords { title: "Zu viele Anfragen", text: "Aus deinem Netzwerk kamen zu viele Anfragen." },
    overloaded: ErrorWords { title: "Gerade viel los", text: "Bei uns ist gerade sehr viel los." },
    unavailable: ErrorWords {
        title: "Vorübergehend nicht verfügbar",
        text: "Wir können diese Seite gerade nicht laden.",
    },
    failed: ErrorWords {
        title: "Etwas ist schiefgegangen",
        text: "Das liegt an uns. Versuch es noch einmal. Wenn das nicht hilft, schick dem Team des Bots die ID unten.",
    },
    request_id: "Anfrage-ID",
};

/// How many of the largest unit that fits, and that unit.
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
    format!("{count} {unit}{}", plural(count, "", "s"))
}

fn german(span: Duration) -> String {
    let (count, unit) = parts(span);
    let (one, many) = [("Sekunde", "Sekunden"), ("Minute", "Minuten"), ("Stunde", "Stunden"), ("Tag", "Tage")][unit];
    format!("{count} {}", plural(count, one, many))
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

    #[test]
    fn what_is_one_is_said_so() {
        for (up, all, english, german) in [
            (1, 1, "1 of 1 shard is up", "1 von 1 Shard ist online"),
            (0, 1, "0 of 1 shard is up", "0 von 1 Shard ist online"),
            (1, 3, "1 of 3 shards is up", "1 von 3 Shards ist online"),
            (3, 3, "3 of 3 shards are up", "3 von 3 Shards sind online"),
        ] {
            assert_eq!(((EN.shards_up)(up, all), (DE.shards_up)(up, all)), (english.to_owned(), german.to_owned()));
        }
        for (seconds, english, german) in [
            (Some(0), "You can try again now.", "Du kannst es jetzt noch einmal versuchen."),
            (Some(1), "Try again in 1 second.", "Versuch es in 1 Sekunde noch einmal."),
            (Some(12), "Try again in 12 seconds.", "Versuch es in 12 Sekunden noch einmal."),
            (None, "Try again in a minute.", "Versuch es in einer Minute noch einmal."),
        ] {
            assert_eq!(
                ((EN.try_again_in)(seconds), (DE.try_again_in)(seconds)),
                (english.to_owned(), german.to_owned())
            );
        }
        let days = Duration::from_hours(72);
        assert_eq!(
            ((EN.up_for)(days), (DE.up_for)(days)),
            ("Up for 3 days".to_owned(), "Läuft seit 3 Tagen".to_owned())
        );
    }
}
