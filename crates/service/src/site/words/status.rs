//! Words of the status page and of the feed of incidents.

#[cfg(test)]
mod tests;

use std::time::Duration;

use domain::saturating;
use maud::{Markup, html};

use super::super::numbers::plural;

pub(in crate::site) struct StatusWords {
    /// One sentence for previews.
    pub(in crate::site) description: &'static str,
    pub(in crate::site) as_of: fn(&Markup) -> Markup,
    /// "15 Nov 2026"
    pub(in crate::site) date: fn(u64, u64, u64) -> String,
    /// "15 Nov"
    pub(in crate::site) day: fn(u64, u64) -> String,
    /// "12 s"
    pub(in crate::site) short_span: fn(Duration) -> String,

    pub(in crate::site) announcements: &'static str,
    pub(in crate::site) posted: fn(&Markup) -> Markup,

    /// All shards are online, and for how long, in the words of `up_for`.
    pub(in crate::site) all_online: fn(u32, Option<&str>) -> String,
    /// The number of offline shards, the number of all shards, when they went offline, and how long ago that was.
    pub(in crate::site) some_offline: fn(u32, u32, &Markup, &str) -> Markup,
    /// When the reports stopped, and how long ago that was.
    pub(in crate::site) no_reports: fn(&Markup, &str) -> Markup,
    pub(in crate::site) never_reported: &'static str,
    pub(in crate::site) status_unknown: &'static str,
    pub(in crate::site) just_started: &'static str,
    pub(in crate::site) todo_up: &'static str,
    pub(in crate::site) todo_partial: &'static str,
    pub(in crate::site) todo_down: &'static str,
    pub(in crate::site) todo_unknown: &'static str,

    pub(in crate::site) technical: &'static str,
    pub(in crate::site) facts: &'static str,
    pub(in crate::site) uptime: &'static str,
    pub(in crate::site) memory: &'static str,
    pub(in crate::site) version: &'static str,
    /// The label for "7 of 8"; the argument is the number of all shards.
    pub(in crate::site) shards_up: fn(u64) -> &'static str,
    /// "7 of 8"
    pub(in crate::site) of: fn(&str, &str) -> String,
    pub(in crate::site) average_latency: &'static str,

    pub(in crate::site) lookup: &'static str,
    pub(in crate::site) lookup_text: &'static str,
    pub(in crate::site) server_id: &'static str,
    pub(in crate::site) look_up: &'static str,
    /// The server with this ID is on this shard.
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
    /// The number of shards that are up, and the number of all shards.
    pub(in crate::site) some_up: fn(usize, usize) -> String,
    pub(in crate::site) up: &'static str,
    pub(in crate::site) down: &'static str,
    pub(in crate::site) unknown: &'static str,

    pub(in crate::site) latency: &'static str,
    pub(in crate::site) latency_title: &'static str,
    /// The average, the lowest and the highest.
    pub(in crate::site) latency_summary: fn(&str, &str, &str) -> String,
    pub(in crate::site) no_latency: &'static str,
    pub(in crate::site) availability: &'static str,
    /// The percentage, and how many days have data.
    pub(in crate::site) availability_summary: fn(&str, usize) -> String,
    pub(in crate::site) no_availability: &'static str,
    /// From this day to that.
    pub(in crate::site) days: fn(&str, &str) -> String,
    pub(in crate::site) percent_up: fn(&str) -> String,
    pub(in crate::site) no_data_for_days: &'static str,
    pub(in crate::site) no_data: &'static str,
    pub(in crate::site) as_table: &'static str,
    pub(in crate::site) hour: &'static str,
    pub(in crate::site) average: &'static str,
    pub(in crate::site) recorded: &'static str,
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
    /// The start, the end, and the time in between.
    pub(in crate::site) lasted: fn(&Markup, &Markup, &str) -> Markup,
    /// The start and, optionally, the time since then.
    pub(in crate::site) lasts: fn(&Markup, Option<&str>) -> Markup,

    pub(in crate::site) feed_title: fn(&str) -> String,
    pub(in crate::site) feed_subtitle: &'static str,
}

pub(super) const EN: StatusWords = StatusWords {
    description: "The bot's status, uptime and incidents.",
    as_of: |time| html! { "As of " (time) },
    date: |year, month, day| format!("{day} {} {year}", month_in(ENGLISH_MONTHS, month)),
    day: |month, day| format!("{day} {}", month_in(ENGLISH_MONTHS, month)),
    short_span: |span| short_span(span, "d"),

    announcements: "Announcements",
    posted: |when| html! { "Posted " (when) },

    all_online: |count, up_for| {
        let shards = match count {
            1 => "Its shard is online.".to_owned(),
            2 => "Both shards are online.".to_owned(),
            _ => format!("All {count} shards are online."),
        };
        up_for.map_or(shards.clone(), |up_for| format!("{shards} {up_for}."))
    },
    some_offline: |offline, all, when, ago| match offline {
        _ if offline >= all => {
            html! { "No shard has reported since " (when) " (" (ago) "). The bot isn't responding in any server." }
        }
        _ => {
            let have = plural(offline.into(), "has", "have");
            html! {
                (offline) " of " (all) " shards " (have) " been offline since " (when) " (" (ago)
                "). Servers on the other shards aren't affected."
            }
        }
    },
    no_reports: |when, ago| {
        html! { "No reports since " (when) " (" (ago) "). The bot isn't responding in any server." }
    },
    never_reported: "There's no data from the bot yet.",
    status_unknown: "Status unknown",
    just_started: "This service has just started and is waiting for the bot's next report, which takes up to two minutes.",
    todo_up: "Bot not responding in your server? Check that it can read and send messages in the channel you're using, and look up \
              your server under Technical details.",
    todo_partial: "Look up your server below to see if it's affected. If it is, you don't need to do anything: this page will show when \
                   its shard is back.",
    todo_down: "You don't need to do anything. This page and the incident feed will show when the bot is back.",
    todo_unknown: "Reload this page in a few minutes.",

    technical: "Technical details",
    facts: "At a glance",
    uptime: "uptime",
    memory: "memory",
    version: "service version",
    shards_up: |count| plural(count, "shard up", "shards up"),
    of: |part, all| format!("{part} of {all}"),
    average_latency: "average latency",

    lookup: "Which shard is my server on?",
    lookup_text: "The bot's work is split across shards. A server's ID decides which shard it's on.",
    server_id: "Server ID",
    look_up: "Look up",
    found: |server, shard| format!("Server {server} is on shard {shard}."),
    shard_is_up: "This shard is up.",
    shard_is_down: "This shard is down. You don't need to do anything: this page will show when it's back.",
    shard_is_unknown: "We don't know this shard's status right now. Reload this page in a few minutes.",
    count_unknown: "We don't know how many shards there are yet. Reload this page in a few minutes.",
    not_an_id: "That isn't a valid server ID. An ID is a number with 17 to 19 digits.",
    how_to_copy: "To copy an ID, turn on “Developer Mode” in Discord's settings under “Advanced”. Then right-click the server's name (on a \
                  phone, press and hold) and choose “Copy Server ID”.",

    shards: "Shards",
    no_shards: "The bot's shards will appear here once it reports.",
    attention: "Affected shards",
    shard: |id| format!("Shard {id}"),
    shard_range: |first, last| format!("Shards {first}–{last}"),
    last_report: |ago| format!("last report {ago}"),
    no_report: "no report yet",
    and_more: |count| format!("and {count} more"),
    legend: "Legend",
    legend_text: "Each tile: shard, status, latency, time since its last report.",
    open_group: "Open a group to see its shards.",
    groups_only: "There are too many shards to show each one. Look up a server above to see its shard.",
    all_up: "all up",
    some_up: |up, all| format!("{up} of {all} up"),
    up: "up",
    down: "down",
    unknown: "unknown",

    latency: "Latency, last 24 hours",
    latency_title: "Average shard latency over the last 24 hours",
    latency_summary: |average, lowest, highest| {
        format!("{average} on average, with 15-minute averages from {lowest} to {highest}.")
    },
    no_latency: "No data yet. Latency will appear here once the bot has been running for a few minutes.",
    availability: "Uptime, last 90 days",
    availability_summary: |percent, days| {
        let unit = plural(saturating::to_u64(days), "day", "days");
        format!("{percent} uptime over the recorded period ({days} {unit}).")
    },
    no_availability: "No data yet. Today will appear here once the bot has been running for a few minutes.",
    days: |first, last| format!("{first} to {last}"),
    percent_up: |percent| format!("{percent} uptime"),
    no_data_for_days: "no data",
    no_data: "No data",
    as_table: "Show as a table",
    hour: "Hour",
    average: "Average",
    recorded: "Recorded",
    day_column: "Day (UTC)",
    minutes: |count| format!("{count} min"),

    incidents: "Incidents",
    no_incidents: "No incidents recorded in the last 90 days.",
    older: "Older incidents",
    subscribe: "Subscribe to the incident feed (Atom)",
    ongoing: "Ongoing",
    over: "Ended",
    announcement: "Announcement",
    affected_all: "All shards were down",
    affected: |shards, all| match (shards, all) {
        (_, 1) => "The only shard was down".to_owned(),
        _ => format!("{shards} of {all} shards {} down", plural(shards.into(), "was", "were")),
    },
    lasted: |from, to, span| html! { (from) " to " (to) " (" (span) ")" },
    lasts: |from, span| html! { "Since " (from) @if let Some(span) = span { " (" (span) " so far)" } },

    feed_title: |name| format!("{name}: incidents"),
    feed_subtitle: "The bot's outages, and announcements from its team.",
};

pub(super) const DE: StatusWords = StatusWords {
    description: "Status, Verfügbarkeit und Störungen des Bots.",
    as_of: |time| html! { "Stand: " (time) },
    date: |year, month, day| format!("{day}. {} {year}", month_in(GERMAN_MONTHS, month)),
    day: |month, day| format!("{day}. {}", month_in(GERMAN_MONTHS, month)),
    short_span: |span| short_span(span, "T"),

    announcements: "Ankündigungen",
    posted: |when| html! { "Veröffentlicht am " (when) },

    all_online: |count, up_for| {
        let shards = match count {
            1 => "Sein Shard ist online.".to_owned(),
            2 => "Beide Shards sind online.".to_owned(),
            _ => format!("Alle {count} Shards sind online."),
        };
        up_for.map_or(shards.clone(), |up_for| format!("{shards} {up_for}."))
    },
    some_offline: |offline, all, when, ago| match offline {
        _ if offline >= all => {
            html! { "Seit " (when) " (" (ago) ") hat sich kein Shard gemeldet. Der Bot reagiert auf keinem Server." }
        }
        _ => {
            let are = plural(offline.into(), "ist", "sind");
            html! {
                (offline) " von " (all) " Shards " (are) " seit " (when) " (" (ago)
                ") offline. Server auf den anderen Shards sind nicht betroffen."
            }
        }
    },
    no_reports: |when, ago| {
        html! { "Seit " (when) " (" (ago) ") hat sich der Bot nicht gemeldet. Er reagiert auf keinem Server." }
    },
    never_reported: "Vom Bot liegen noch keine Daten vor.",
    status_unknown: "Status unbekannt",
    just_started: "Dieser Dienst ist gerade erst gestartet und wartet auf die nächste Meldung des Bots. Das dauert bis zu zwei Minuten.",
    todo_up: "Der Bot reagiert auf deinem Server nicht? Prüfe, ob er im Kanal Nachrichten lesen und senden darf, und such deinen \
              Server unter „Technische Details“.",
    todo_partial: "Prüfe unten, ob dein Server betroffen ist. Falls ja, musst du nichts tun: Diese Seite zeigt es an, sobald \
                   sein Shard wieder online ist.",
    todo_down: "Du musst nichts tun. Diese Seite und der Störungs-Feed zeigen es an, sobald der Bot wieder online ist.",
    todo_unknown: "Lade diese Seite in ein paar Minuten neu.",

    technical: "Technische Details",
    facts: "Auf einen Blick",
    uptime: "Laufzeit",
    memory: "Arbeitsspeicher",
    version: "Version des Dienstes",
    shards_up: |count| plural(count, "Shard online", "Shards online"),
    of: |part, all| format!("{part} von {all}"),
    average_latency: "mittlere Latenz",

    lookup: "Auf welchem Shard ist mein Server?",
    lookup_text: "Der Bot verteilt seine Arbeit auf Shards. Die Server-ID bestimmt, auf welchem Shard ein Server ist.",
    server_id: "Server-ID",
    look_up: "Nachsehen",
    found: |server, shard| format!("Server {server} ist auf Shard {shard}."),
    shard_is_up: "Dieser Shard ist online.",
    shard_is_down: "Dieser Shard ist offline. Du musst nichts tun: Diese Seite zeigt es an, sobald er wieder online ist.",
    shard_is_unknown: "Wir kennen den Status dieses Shards gerade nicht. Lade diese Seite in ein paar Minuten neu.",
    count_unknown: "Wir wissen noch nicht, wie viele Shards es gibt. Lade diese Seite in ein paar Minuten neu.",
    not_an_id: "Das ist keine gültige Server-ID. Eine ID ist eine Zahl mit 17 bis 19 Stellen.",
    how_to_copy: "So kopierst du eine ID: Schalte in den Einstellungen von Discord unter „Erweitert“ den „Entwicklermodus“ ein. Klicke dann \
                  mit der rechten Maustaste auf den Namen des Servers (am Handy: gedrückt halten) und wähle „Server-ID kopieren“.",

    shards: "Shards",
    no_shards: "Sobald sich der Bot meldet, stehen hier seine Shards.",
    attention: "Betroffene Shards",
    shard: |id| format!("Shard {id}"),
    shard_range: |first, last| format!("Shards {first}–{last}"),
    last_report: |ago| format!("letzte Meldung {ago}"),
    no_report: "noch keine Meldung",
    and_more: |count| format!("und {count} weitere"),
    legend: "Legende",
    legend_text: "Auf jeder Kachel: Shard, Status, Latenz, Zeit seit der letzten Meldung.",
    open_group: "Öffne eine Gruppe, um ihre Shards zu sehen.",
    groups_only: "Es sind zu viele Shards, um sie einzeln zu zeigen. Gib oben eine Server-ID ein, um den Shard des Servers zu sehen.",
    all_up: "alle online",
    some_up: |up, all| format!("{up} von {all} online"),
    up: "online",
    down: "offline",
    unknown: "unbekannt",

    latency: "Latenz der letzten 24 Stunden",
    latency_title: "Durchschnittliche Latenz der Shards in den letzten 24 Stunden",
    latency_summary: |average, lowest, highest| {
        format!("Im Durchschnitt {average}, pro Viertelstunde zwischen {lowest} und {highest}.")
    },
    no_latency: "Noch keine Daten. Die Latenz erscheint hier, sobald der Bot ein paar Minuten läuft.",
    availability: "Verfügbarkeit der letzten 90 Tage",
    availability_summary: |percent, days| {
        let unit = plural(saturating::to_u64(days), "Tag", "Tage");
        format!("{percent} Verfügbarkeit im erfassten Zeitraum ({days} {unit}).")
    },
    no_availability: "Noch keine Daten. Der heutige Tag erscheint hier, sobald der Bot ein paar Minuten läuft.",
    days: |first, last| format!("{first} bis {last}"),
    percent_up: |percent| format!("{percent} verfügbar"),
    no_data_for_days: "keine Daten",
    no_data: "Keine Daten",
    as_table: "Als Tabelle anzeigen",
    hour: "Stunde",
    average: "Durchschnitt",
    recorded: "Erfasst",
    day_column: "Tag (UTC)",
    minutes: |count| format!("{count} min"),

    incidents: "Störungen",
    no_incidents: "Keine Störungen in den letzten 90 Tagen erfasst.",
    older: "Ältere Störungen",
    subscribe: "Störungs-Feed abonnieren (Atom)",
    ongoing: "Dauert an",
    over: "Beendet",
    announcement: "Ankündigung",
    affected_all: "Alle Shards waren offline",
    affected: |shards, all| match (shards, all) {
        (_, 1) => "Der einzige Shard war offline".to_owned(),
        _ => format!("{shards} von {all} Shards {} offline", plural(shards.into(), "war", "waren")),
    },
    lasted: |from, to, span| html! { (from) " bis " (to) " (" (span) ")" },
    lasts: |from, span| html! { "Seit " (from) @if let Some(span) = span { " (bisher " (span) ")" } },

    feed_title: |name| format!("{name}: Störungen"),
    feed_subtitle: "Ausfälle des Bots und Ankündigungen seines Teams.",
};

const ENGLISH_MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const GERMAN_MONTHS: [&str; 12] =
    ["Jan.", "Feb.", "März", "Apr.", "Mai", "Juni", "Juli", "Aug.", "Sep.", "Okt.", "Nov.", "Dez."];

/// The month's name by its number, which counts from 1.
fn month_in(names: [&'static str; 12], month: u64) -> &'static str {
    names[saturating::to_usize(month) - 1]
}

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
