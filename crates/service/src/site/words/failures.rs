//! What went wrong on the dashboard, and what to do.

use serde::Serialize;

/// What went wrong, by the client's error code. `{wait}` says when to try again.
#[derive(Serialize)]
pub(super) struct DashboardFailureWords {
    access_denied: &'static str,
    state_mismatch: &'static str,
    idp_error: &'static str,
    idp_code_rejected: &'static str,
    idp_unavailable: &'static str,
    idp_rate_limited: &'static str,
    idp_misconfigured: &'static str,
    user_blocked: &'static str,
    scope_missing: &'static str,
    rate_limited: &'static str,
    overloaded: &'static str,
    network: &'static str,
    unsupported: &'static str,
    redirect_uri_unknown: &'static str,
    other: &'static str,
}

pub(super) const EN: DashboardFailureWords = DashboardFailureWords {
    access_denied: "You cancelled the sign-in. You can sign in any time.",
    state_mismatch: "This sign-in didn't start on this page, so you aren't signed in. Sign in again.",
    idp_error: "Discord couldn't sign you in. Try again.",
    idp_code_rejected: "This sign-in has expired. Sign in again.",
    idp_unavailable: "Discord isn't responding right now. {wait}",
    idp_rate_limited: "Discord is busy right now. {wait}",
    idp_misconfigured: "This site isn't set up correctly with Discord, so nobody can sign in. Trying again won't help. Please tell the bot's team.",
    user_blocked: "You're not allowed to sign in here. If you think that's a mistake, contact the bot's team.",
    scope_missing: "Discord didn't share your name and your servers with us. Sign in again and allow both.",
    rate_limited: "Too many attempts. {wait}",
    overloaded: "We're very busy right now. {wait}",
    network: "We can't reach the service. Check your connection and try again.",
    unsupported: "You can't sign in here. Open this page over https, and allow this site to store data in your browser.",
    redirect_uri_unknown: "Sign-in isn't set up for this address. Let the bot's team know.",
    other: "That didn't work. Try again. If it keeps happening, let the bot's team know.",
};

pub(super) const DE: DashboardFailureWords = DashboardFailureWords {
    access_denied: "Du hast die Anmeldung abgebrochen. Du kannst dich jederzeit anmelden.",
    state_mismatch: "Diese Anmeldung hat nicht auf dieser Seite begonnen, deshalb bist du nicht angemeldet. Melde dich noch einmal an.",
    idp_error: "Discord konnte dich nicht anmelden. Versuch es noch einmal.",
    idp_code_rejected: "Diese Anmeldung ist abgelaufen. Melde dich noch einmal an.",
    idp_unavailable: "Discord antwortet gerade nicht. {wait}",
    idp_rate_limited: "Bei Discord ist gerade viel los. {wait}",
    idp_misconfigured: "Diese Website ist bei Discord nicht richtig eingerichtet, deshalb kann sich niemand anmelden. Es noch einmal zu versuchen hilft nicht. Bitte sag dem Team des Bots Bescheid.",
    user_blocked: "Du darfst dich hier nicht anmelden. Wenn du das für einen Irrtum hältst, wende dich an das Team des Bots.",
    scope_missing: "Discord hat uns deinen Namen und deine Server nicht mitgeteilt. Melde dich noch einmal an und erlaube beides.",
    rate_limited: "Zu viele Versuche. {wait}",
    overloaded: "Bei uns ist gerade sehr viel los. {wait}",
    network: "Der Dienst ist nicht erreichbar. Prüfe deine Verbindung und versuch es noch einmal.",
    unsupported: "Hier kannst du dich nicht anmelden. Öffne die Seite über https und erlaube ihr, Daten im Browser zu speichern.",
    redirect_uri_unknown: "Für diese Adresse ist die Anmeldung nicht eingerichtet. Sag dem Team des Bots Bescheid.",
    other: "Das hat nicht geklappt. Versuch es noch einmal. Wenn es wieder passiert, sag dem Team des Bots Bescheid.",
};
