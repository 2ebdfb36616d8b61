//! Words of the status page and of the feed of incidents.

use std::time::Duration;

use super::super::calendar::CalendarTime;

pub(in crate::site) struct StatusWords {
    /// One sentence for previews.
    pub(in crate::site) description: &'static str,
    pub(in crate::site) as_of: fn(&str) -> String,
    /// "15 Nov 2026"
    pub(in crate::site) date: fn(&CalendarTime) -> String,
    /// "15 Nov"
    pub(in crate::site) day: fn(&CalendarTime) -> String,
    /// "12 s"
    pub(in crate::site) short_span: fn(Duration) -> String,

    pub(in crate::site) announcements: &'static str,
    pub(in crate::site) posted: fn(&str) -> String,

    /// All shards report; without a break for this long.
    pub(in crate::site) all_report: fn(u32, Option<&str>) -> String,
    /// How many of how many shards are silent, since when, and how long ago that is.
    pub(in crate::site) some_silent: fn(u32, u32, &str, &str) -> String,
    /// Nothing was heard since when, and how long ago that is.
    pub(in crate::site) nothing_heard: fn(&str, &str) -> String,
    pub(in crate::site) never_reported: &'static str,
    pub(in crate::site) just_started: &'static str,
    pub(in crate::site) todo_up: &'static str,
    pub(in crate::site) todo_partial: &'static str,
    pub(in crate::site) todo_down: &'static str,
    pub(in crate::site) todo_unknown: &'static str,

    pub(in crate::site) facts: &'static str,
    pub(in crate::site) uptime: &'static str,
    pub(in crate::site) memory: &'static str,
    pub(in crate::site) version: &'static str,
    pub(in crate::site) shards_reporting: &'static str,
    /// "7 of 8"
    pub(in crate::site) of: fn(&str, &str) -> String,
    pub(in crate::site) average_latency: &'static str,

    pub(in crate::site) lookup: &'static str,
    pub(in crate::site) lookup_text: &'static str,
    pub(in crate::site) server_id: &'static str,
    pub(in crate::site) look_up: &'static str,
    /// The server with this id is on this shard.
    pub(in crate::site) found: fn(&str, u32) -> String,
    pub(in crate::site) shard_is_up: &'static str,
    pub(in crate::site) shard_is_down: &'static str,
    pub(in crate::site) shard_is_unknown: &'static str,
    pub(in crate::site) count_unknown: &'static str,
    pub(in crate::site) not_an_id: &'static str,
    pub(in crate::site) how_to_copy: &'static str,

    pub(in crate::site) shards: &'static str,
    pub(in crate::site) no_shards: &'static str,
    pub(in crate::site) attention: &'static str,
    pub(in crate::site) shard: fn(u32) -> String,
    /// "Shards 16–31"
    pub(in crate::site) shard_range: fn(&str, &str) -> String,
    pub(in crate::site) last_report: fn(&str) -> String,
    pub(in crate::site) no_report: &'static str,
    pub(in crate::site) and_more: fn(&str) -> String,
    pub(in crate::site) legend: &'static str,
    pub(in crate::site) legend_text: &'static str,
    pub(in crate::site) open_group: &'static str,
    pub(in crate::site) groups_only: &'static str,
    pub(in crate::site) all_up: &'static str,
    /// How many of how many are up.
    pub(in crate::site) some_up: fn(usize, usize) -> String,
    /// The state of one shard, in a word.
    pub(in crate::site) up: &'static str,
    pub(in crate::site) down: &'static str,
    pub(in crate::site) unknown: &'static str,

    pub(in crate::site) latency: &'static str,
    pub(in crate::site) latency_title: &'static str,
    /// Average, lowest and highest.
    pub(in crate::site) latency_summary: fn(&str, &str, &str) -> String,
    pub(in crate::site) no_latency: &'static str,
    pub(in crate::site) availability: &'static str,
    /// Percent of the known time, and of how many days something is known.
    pub(in crate::site) availability_summary: fn(&str, usize) -> String,
    pub(in crate::site) no_availability: &'static str,
    /// From one day to another.
    pub(in crate::site) days: fn(&str, &str) -> String,
    /// This percentage of what is known.
    pub(in crate::site) percent_up: fn(&str) -> String,
    pub(in crate::site) nothing_known: &'static str,
    pub(in crate::site) was_unknown: &'static str,
    pub(in crate::site) as_table: &'static str,
    pub(in crate::site) hour: &'static str,
    pub(in crate::site) average: &'static str,
    pub(in crate::site) worst: &'static str,
    pub(in crate::site) known: &'static str,
    pub(in crate::site) day_column: &'static str,
    pub(in crate::site) minutes: fn(u32) -> String,

    pub(in crate::site) incidents: &'static str,
    pub(in crate::site) no_incidents: &'static str,
    pub(in crate::site) older: &'static str,
    pub(in crate::site) subscribe: &'static str,
    pub(in crate::site) ongoing: &'static str,
    pub(in crate::site) over: &'static str,
    pub(in crate::site) announcement: &'static str,
    pub(in crate::site) affected_all: &'static str,
    pub(in crate::site) affected: fn(u32, u32) -> String,
    /// From when, to when, and how long that was.
    pub(in crate::site) lasted: fn(&str, &str, &str) -> String,
    /// Since when, and how long that is by now, if that is to be said.
    pub(in crate::site) lasts: fn(&str, Option<&str>) -> String,

    pub(in crate::site) feed_title: fn(&str) -> String,
    pub(in crate::site) feed_subtitle: &'static str,
}

pub(super) const EN: StatusWords = StatusWords {
    description: "Is the bot up, and how has it been?",
    as_of: |time| format!("As of {time} UTC"),
    date: |at| format!("{} {} {}", at.day, ENGLISH_MONTHS[at.month], at.year),
    day: |at| format!("{} {}", at.day, ENGLISH_MONTHS[at.month]),
    short_span: |span| short_span(span, "d"),

    announcements: "Announcements",
    posted: |when| format!("Posted {when}"),

    all_report: |count, span| {
        let shards = if count == 1 { "Its shard reports".to_owned() } else { format!("All {count} shards report") };
        span.map_or_else(|| format!("{shards}."), |span| format!("{shards}, without a break for {span}."))
    },
    some_silent: |silent, all, when, ago| match silent {
        _ if silent >= all => format!("No shard has reported since {when} ({ago}). It does not answer in any server."),
        1 => format!("1 of {all} shards has been silent since {when} ({ago}). Servers on the others are not affected."),
        _ => format!(
            "{silent} of {all} shards have been silent since {when} ({ago}). Servers on the others are not affected."
        ),
    },
    nothing_heard: |when, ago| {
        format!("Nothing has been heard of it since {when} ({ago}). It does not answer in any server.")
    },
    never_reported: "No process of the bot has reported to this service so far.",
    just_started: "This service has just started, and waits for the bot's next report. It knows more within two minutes.",
    todo_up: "It does not answer in your server? Look up its shard below, and check that the bot may read and write in that channel.",
    todo_partial: "Look up below whether your server is affected. If it is, there is nothing for you to change: its shard comes back, and \
                   this page says when.",
    todo_down: "There is nothing for you to change in your server. Wait until the bot is back; this page and the feed of incidents say when.",
    todo_unknown: "Load this page again in a few minutes.",

    facts: "At a glance",
    uptime: "uptime",
    memory: "memory",
    version: "version of this service",
    shards_reporting: "shards up",
    of: |part, all| format!("{part} of {all}"),
    average_latency: "average latency",

    lookup: "Which shard is my server on?",
    lookup_text: "The bot's work is shared among shards. The id of a server decides which one it is on.",
    server_id: "Server id",
    look_up: "Look up",
    found: |server, shard| format!("A server with the id {server} is on shard {shard}."),
    shard_is_up: "This shard is up.",
    shard_is_down: "This shard is down. There is nothing for you to change in your server; wait until the shard is back.",
    shard_is_unknown: "How this shard does is not known at the moment. Load this page again in a few minutes.",
    count_unknown: "How many shards there are is not known yet. Load this page again in a few minutes.",
    not_an_id: "That is no id of a server: an id is a number of 17 to 19 digits.",
    how_to_copy: "To copy one, turn on “Developer Mode” in the settings of the chat under “Advanced”, then right-click the server's name \
                  (on a phone, tap and hold) and choose “Copy Server ID”.",

    shards: "Shards",
    no_shards: "As soon as the bot reports, its shards appear here.",
    attention: "Not up",
    shard: |id| format!("Shard {id}"),
    shard_range: |first, last| format!("Shards {first}–{last}"),
    last_report: |ago| format!("last report {ago}"),
    no_report: "no report so far",
    and_more: |count| format!("and {count} more"),
    legend: "Legend",
    legend_text: "Each tile: the shard's number, how it does, its latency, and the age of its last report.",
    open_group: "Open a group to see its shards.",
    groups_only: "There are too many shards to show each. Look up a server above to see its shard.",
    all_up: "all up",
    some_up: |up, all| format!("{up} of {all} up"),
    up: "up",
    down: "down",
    unknown: "unknown",

    latency: "Latency, last 24 hours",
    latency_title: "Average latency of the shards over the last 24 hours",
    latency_summary: |average, lowest, highest| {
        format!("{average} on average; between {lowest} and {highest} over a quarter of an hour.")
    },
    no_latency: "There is nothing to show yet: the first minutes appear here as soon as the bot has run for a while.",
    availability: "Availability, last 90 days",
    availability_summary: |percent, days| {
        let days = if days == 1 { "1 day".to_owned() } else { format!("{days} days") };
        format!("Every shard was up for {percent} of the time of which something is known, on {days}.")
    },
    no_availability: "There is nothing to show yet: the first day appears here as soon as the bot has run for a while.",
    days: |first, last| format!("{first} to {last}"),
    percent_up: |percent| format!("{percent} up"),
    nothing_known: "nothing is known",
    was_unknown: "Unknown: nobody measured",
    as_table: "As a table",
    hour: "Hour (UTC)",
    average: "Average",
    worst: "State",
    known: "Known",
    day_column: "Day (UTC)",
    minutes: |count| format!("{count} min"),

    incidents: "Incidents",
    no_incidents: "There has been no incident in the last 90 days, as far as anything is known.",
    older: "Older ones",
    subscribe: "Subscribe to the feed (Atom)",
    ongoing: "Ongoing",
    over: "Over",
    announcement: "Announcement",
    affected_all: "All shards were down",
    affected: |shards, all| match (shards, all) {
        (_, 1) => "The only shard was down".to_owned(),
        (1, _) => format!("1 of {all} shards was down"),
        _ => format!("{shards} of {all} shards were down"),
    },
    lasted: |from, to, span| format!("{from} to {to}, {span}"),
    lasts: |from, span| format!("Since {from}{}", span.map_or_else(String::new, |span| format!(", for {span} so far"))),

    feed_title: |name| format!("{name}: incidents"),
    feed_subtitle: "When the bot was down or partly down, and what its team announced.",
};

pub(super) const DE: StatusWords = StatusWords {
    description: "Läuft der Bot, und wie lief er bisher?",
    as_of: |time| format!("Stand: {time} UTC"),
    date: |at| format!("{}. {} {}", at.day, GERMAN_MONTHS[at.month], at.year),
    day: |at| format!("{}. {}", at.day, GERMAN_MONTHS[at.month]),
    short_span: |span| short_span(span, "T"),

    announcements: "Mitteilungen",
    posted: |when| format!("Vom {when}"),

    all_report: |count, span| {
        let shards =
            if count == 1 { "Sein Shard meldet sich".to_owned() } else { format!("Alle {count} Shards melden sich") };
        span.map_or_else(|| format!("{shards}."), |span| format!("{shards}, ohne Unterbrechung seit {span}."))
    },
    some_silent: |silent, all, when, ago| match silent {
        _ if silent >= all => {
            format!("Seit {when} ({ago}) hat sich kein Shard gemeldet. Er antwortet auf keinem Server.")
        }
        1 => format!("1 von {all} Shards schweigt seit {when} ({ago}). Server auf den anderen sind nicht betroffen."),
        _ => format!(
            "{silent} von {all} Shards schweigen seit {when} ({ago}). Server auf den anderen sind nicht betroffen."
        ),
    },
    nothing_heard: |when, ago| {
        format!("Seit {when} ({ago}) war nichts von ihm zu hören. Er antwortet auf keinem Server.")
    },
    never_reported: "Bisher hat sich noch kein Prozess des Bots bei diesem Dienst gemeldet.",
    just_started: "Dieser Dienst ist gerade erst gestartet und wartet auf die nächste Meldung des Bots. In zwei Minuten weiß er mehr.",
    todo_up: "Auf deinem Server antwortet er nicht? Sieh unten nach dem Shard, und prüfe, ob der Bot in dem Kanal lesen und schreiben darf.",
    todo_partial: "Sieh unten nach, ob dein Server betroffen ist. Wenn ja, musst du nichts ändern: Der Shard kommt wieder, und diese Seite \
                   sagt, wann.",
    todo_down: "Auf deinem Server musst du nichts ändern. Warte, bis der Bot wieder läuft; diese Seite und der Feed der Störungen sagen, wann.",
    todo_unknown: "Lade die Seite in ein paar Minuten neu.",

    facts: "Auf einen Blick",
    uptime: "Laufzeit",
    memory: "Speicher",
    version: "Version dieses Dienstes",
    shards_reporting: "Shards laufen",
    of: |part, all| format!("{part} von {all}"),
    average_latency: "Latenz im Mittel",

    lookup: "Auf welchem Shard ist mein Server?",
    lookup_text: "Die Arbeit des Bots ist auf Shards verteilt. Auf welchem ein Server ist, ergibt sich aus seiner ID.",
    server_id: "Server-ID",
    look_up: "Nachsehen",
    found: |server, shard| format!("Ein Server mit der ID {server} ist auf Shard {shard}."),
    shard_is_up: "Dieser Shard läuft.",
    shard_is_down: "Dieser Shard läuft nicht. Auf deinem Server musst du nichts ändern; warte, bis der Shard wieder läuft.",
    shard_is_unknown: "Wie es um diesen Shard steht, ist gerade nicht bekannt. Lade die Seite in ein paar Minuten neu.",
    count_unknown: "Wie viele Shards es gibt, ist noch nicht bekannt. Lade die Seite in ein paar Minuten neu.",
    not_an_id: "Das ist keine Server-ID: Eine ID ist eine Zahl mit 17 bis 19 Ziffern.",
    how_to_copy: "So kopierst du sie: Schalte in den Einstellungen des Chats unter „Erweitert“ den „Entwicklermodus“ ein, klicke dann mit der \
                  rechten Maustaste auf den Namen des Servers (am Telefon: lange tippen) und wähle „Server-ID kopieren“.",

    shards: "Shards",
    no_shards: "Sobald sich der Bot meldet, stehen hier seine Shards.",
    attention: "Laufen nicht",
    shard: |id| format!("Shard {id}"),
    shard_range: |first, last| format!("Shards {first}–{last}"),
    last_report: |ago| format!("letzte Meldung {ago}"),
    no_report: "noch keine Meldung",
    and_more: |count| format!("und {count} weitere"),
    legend: "Zeichen",
    legend_text: "Auf jeder Kachel: die Nummer des Shards, wie es um ihn steht, seine Latenz und wie alt seine letzte Meldung ist.",
    open_group: "Öffne eine Gruppe, um ihre Shards zu sehen.",
    groups_only: "Es sind zu viele Shards, um jeden zu zeigen. Sieh oben nach einem Server, dann steht da sein Shard.",
    all_up: "alle laufen",
    some_up: |up, all| format!("{up} von {all} laufen"),
    up: "läuft",
    down: "steht",
    unknown: "unbekannt",

    latency: "Latenz der letzten 24 Stunden",
    latency_title: "Mittlere Latenz der Shards in den letzten 24 Stunden",
    latency_summary: |average, lowest, highest| {
        format!("{average} im Mittel; je Viertelstunde zwischen {lowest} und {highest}.")
    },
    no_latency: "Noch gibt es nichts zu zeigen: Die ersten Minuten stehen hier, sobald der Bot eine Weile läuft.",
    availability: "Verfügbarkeit der letzten 90 Tage",
    availability_summary: |percent, days| {
        let days = if days == 1 { "an 1 Tag".to_owned() } else { format!("an {days} Tagen") };
        format!("In {percent} der Zeit, von der etwas bekannt ist ({days}), liefen alle Shards.")
    },
    no_availability: "Noch gibt es nichts zu zeigen: Der erste Tag steht hier, sobald der Bot eine Weile läuft.",
    days: |first, last| format!("{first} bis {last}"),
    percent_up: |percent| format!("{percent} gelaufen"),
    nothing_known: "nichts bekannt",
    was_unknown: "Unbekannt: nicht gemessen",
    as_table: "Als Tabelle",
    hour: "Stunde (UTC)",
    average: "Im Mittel",
    worst: "Zustand",
    known: "Bekannt",
    day_column: "Tag (UTC)",
    minutes: |count| format!("{count} min"),

    incidents: "Störungen",
    no_incidents: "In den letzten 90 Tagen gab es keine Störung, soweit etwas bekannt ist.",
    older: "Ältere",
    subscribe: "Feed abonnieren (Atom)",
    ongoing: "Dauert an",
    over: "Vorbei",
    announcement: "Mitteilung",
    affected_all: "Alle Shards standen",
    affected: |shards, all| match (shards, all) {
        (_, 1) => "Der einzige Shard stand".to_owned(),
        (1, _) => format!("1 von {all} Shards stand"),
        _ => format!("{shards} von {all} Shards standen"),
    },
    lasted: |from, to, span| format!("{from} bis {to}, {span}"),
    lasts: |from, span| format!("Seit {from}{}", span.map_or_else(String::new, |span| format!(", bisher {span}"))),

    feed_title: |name| format!("{name}: Störungen"),
    feed_subtitle: "Wann der Bot ganz oder zum Teil nicht lief, und was das Team mitgeteilt hat.",
};

const ENGLISH_MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const GERMAN_MONTHS: [&str; 12] =
    ["Jan.", "Feb.", "März", "Apr.", "Mai", "Juni", "Juli", "Aug.", "Sep.", "Okt.", "Nov.", "Dez."];

/// A span in few letters, for tiles.
fn short_span(span: Duration, days: &str) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} {days}", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_says_an_age_in_few_letters() {
        for (seconds, english, german) in [
            (0, "0 s", "0 s"),
            (119, "119 s", "119 s"),
            (120, "2 min", "2 min"),
            (7_199, "119 min", "119 min"),
            (7_200, "2 h", "2 h"),
            (172_800, "2 d", "2 T"),
        ] {
            let span = Duration::from_secs(seconds);
            assert_eq!(((EN.short_span)(span), (DE.short_span)(span)), (english.to_owned(), german.to_owned()));
        }
    }
}
