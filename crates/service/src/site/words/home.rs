//! Words of the home page.

use super::super::numbers::plural;

pub(in crate::site) struct HomeWords {
    pub(in crate::site) invite: &'static str,
    pub(in crate::site) open_dashboard: &'static str,
    pub(in crate::site) up: &'static str,
    pub(in crate::site) partly_up: &'static str,
    pub(in crate::site) down: &'static str,
    pub(in crate::site) unknown: &'static str,
    pub(in crate::site) last_seen: fn(&str) -> String,
    pub(in crate::site) see_status: &'static str,
    pub(in crate::site) does: &'static str,
    pub(in crate::site) does_more: &'static str,
    pub(in crate::site) numbers: &'static str,
    /// The label for this many.
    pub(in crate::site) servers: fn(u64) -> &'static str,
    pub(in crate::site) members: fn(u64) -> &'static str,
    pub(in crate::site) rating: &'static str,
    /// How many ratings, and that number as text.
    pub(in crate::site) ratings: fn(u64, &str) -> String,
    pub(in crate::site) reviews: &'static str,
    pub(in crate::site) stars: fn(u8) -> String,
    pub(in crate::site) team: &'static str,
    pub(in crate::site) nothing_yet: &'static str,
}

pub(super) const EN: HomeWords = HomeWords {
    invite: "Add to your server",
    open_dashboard: "Open the dashboard",
    up: "The bot is up",
    partly_up: "The bot is up for some servers",
    down: "The bot is down",
    unknown: "The bot hasn't reported yet",
    last_seen: |ago| format!("Last seen {ago}"),
    see_status: "Details and history",
    does: "What it does",
    does_more: "All features",
    numbers: "In numbers",
    servers: |count| plural(count, "server", "servers"),
    members: |count| plural(count, "member", "members"),
    rating: "out of 5 stars",
    ratings: |count, number| format!("{number} {}", plural(count, "rating", "ratings")),
    reviews: "What people say",
    stars: |stars| format!("{stars} out of 5 stars"),
    team: "The team",
    nothing_yet: "Numbers, reviews and the team will appear here once the bot reports.",
};

pub(super) const DE: HomeWords = HomeWords {
    invite: "Zu deinem Server hinzufügen",
    open_dashboard: "Zum Dashboard",
    up: "Der Bot ist online",
    partly_up: "Der Bot ist auf einem Teil der Server online",
    down: "Der Bot ist offline",
    unknown: "Der Bot hat sich noch nicht gemeldet",
    last_seen: |ago| format!("Zuletzt gesehen {ago}"),
    see_status: "Details und Verlauf",
    does: "Was er kann",
    does_more: "Alle Funktionen",
    numbers: "In Zahlen",
    servers: |_| "Server",
    members: |count| plural(count, "Mitglied", "Mitglieder"),
    rating: "von 5 Sternen",
    ratings: |count, number| format!("{number} {}", plural(count, "Bewertung", "Bewertungen")),
    reviews: "Das sagen andere",
    stars: |stars| format!("{stars} von 5 Sternen"),
    team: "Das Team",
    nothing_yet: "Sobald sich der Bot meldet, stehen hier Zahlen, Bewertungen und das Team.",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_something_is_singular() {
        let said = |words: &HomeWords, count: u64| {
            let ratings = (words.ratings)(count, &count.to_string());
            [(words.servers)(count), (words.members)(count)].join(" ") + " " + &ratings
        };
        assert_eq!([said(&EN, 1), said(&EN, 2)], ["server member 1 rating", "servers members 2 ratings"]);
        assert_eq!([said(&DE, 1), said(&DE, 2)], ["Server Mitglied 1 Bewertung", "Server Mitglieder 2 Bewertungen"]);
    }
}
