//! The demo bot's announcements and updates. They are stored in English; pages show them in the visitor's language.

use domain::history::History;

use super::Words;

/// The title of the announcement that says that the history is made up. A history with this announcement contains no real data.
pub(crate) const NOTICE: &str = "Demonstration data";

/// The English text, and the German one.
pub(super) const DE: &[(&str, &str)] = &[
    (NOTICE, "Demodaten"),
    (
        "The 90 days of history, the incidents and the maintenance are made up to show what this page can do. They disappear with your \
         bot's first report.",
        "Der Verlauf, die Störungen und die Wartung sind erfunden und zeigen, was diese Seite kann. Sie verschwinden mit der ersten \
         Meldung deines Bots.",
    ),
    ("Database upgrade", "Datenbank-Upgrade"),
    (
        "Commands may take a little longer for an hour. You don't need to do anything.",
        "Befehle können eine Stunde lang etwas länger dauern. Du musst nichts tun.",
    ),
    ("Move to a larger database", "Umzug auf eine größere Datenbank"),
    ("Settings couldn't be changed during the move.", "Während des Umzugs ließen sich keine Einstellungen ändern."),
    ("The bot isn't responding. We're looking into it.", "Der Bot reagiert nicht. Wir sehen es uns an."),
    (
        "A full disk stopped the bot. We're making room.",
        "Eine volle Festplatte hat den Bot angehalten. Wir schaffen Platz.",
    ),
    (
        "The bot is back, and we now get a warning before a disk is full.",
        "Der Bot läuft wieder, und künftig werden wir gewarnt, bevor eine Festplatte voll ist.",
    ),
    ("Half of the servers get no response.", "Die Hälfte der Server bekommt keine Antwort."),
    ("Shard 1 has reconnected. We're keeping an eye on it.", "Shard 1 ist wieder verbunden. Wir behalten ihn im Auge."),
];

impl Words {
    /// A text of this history in this language, if it is the demo bot's. What an operator wrote is never changed.
    pub(in crate::site) fn stored<'a>(&self, history: &History, text: &'a str) -> &'a str {
        if !history.announcements.iter().any(|announcement| announcement.title == NOTICE) {
            return text;
        }
        self.demo.iter().find(|(stored, _)| *stored == text).map_or(text, |(_, shown)| shown)
    }
}
