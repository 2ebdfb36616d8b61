//! Words of the reference's pages. The texts of the API itself are English in every language. Backticks mark code.

use domain::Permission;

pub(in crate::site) struct ReferenceWords {
    /// One sentence for previews.
    pub(in crate::site) description: &'static str,
    pub(in crate::site) contents: &'static str,
    /// The title of `/docs/feed`.
    pub(in crate::site) feed: &'static str,
    pub(in crate::site) feed_description: &'static str,
    pub(in crate::site) open_feed: &'static str,
    pub(in crate::site) open_document: &'static str,

    pub(in crate::site) credentials: &'static str,
    pub(in crate::site) public: &'static str,
    pub(in crate::site) public_means: &'static str,
    pub(in crate::site) with_token: &'static str,
    pub(in crate::site) with_token_means: &'static str,
    pub(in crate::site) with_key: &'static str,
    pub(in crate::site) with_key_means: &'static str,

    pub(in crate::site) parameters: &'static str,
    pub(in crate::site) name: &'static str,
    pub(in crate::site) kind: &'static str,
    pub(in crate::site) meaning: &'static str,
    pub(in crate::site) required: &'static str,
    pub(in crate::site) optional: &'static str,
    pub(in crate::site) deprecated: &'static str,
    pub(in crate::site) in_header: &'static str,
    pub(in crate::site) in_path: &'static str,
    /// After a number.
    pub(in crate::site) characters: &'static str,
    /// After a number.
    pub(in crate::site) entries: &'static str,
    pub(in crate::site) body: &'static str,
    pub(in crate::site) what_a_line_says: &'static str,
    pub(in crate::site) command: &'static str,
    /// When a permission key is true.
    pub(in crate::site) permission: fn(Permission) -> &'static str,

    pub(in crate::site) answer: &'static str,
    pub(in crate::site) data_has: &'static str,
    pub(in crate::site) each_has: &'static str,
    pub(in crate::site) event_has: &'static str,
    /// Before the name of another operation.
    pub(in crate::site) data_as_in: &'static str,
    /// Before the name of another operation.
    pub(in crate::site) each_as_in: &'static str,
    pub(in crate::site) data_is_empty: &'static str,
    pub(in crate::site) example: &'static str,
    /// Before the name of a header.
    pub(in crate::site) header: &'static str,
    pub(in crate::site) headers: &'static str,
    pub(in crate::site) errors: &'static str,
    /// Before a list of errors.
    pub(in crate::site) as_everywhere: &'static str,
    pub(in crate::site) everywhere: &'static str,
    pub(in crate::site) everywhere_means: &'static str,

    pub(in crate::site) copy: &'static str,
    pub(in crate::site) copied: &'static str,
    pub(in crate::site) press_copy: &'static str,
    pub(in crate::site) filter: &'static str,
    pub(in crate::site) no_match: &'static str,
    pub(in crate::site) try_it: &'static str,
    pub(in crate::site) send: &'static str,
    pub(in crate::site) close: &'static str,
    pub(in crate::site) token_hint: &'static str,
    pub(in crate::site) use_session: &'static str,
    /// `{name}` is who is signed in.
    pub(in crate::site) using_session: &'static str,
    pub(in crate::site) no_session: &'static str,
    pub(in crate::site) waiting: &'static str,
    pub(in crate::site) no_answer: &'static str,
    pub(in crate::site) first_event: &'static str,
    /// `{count}` is how many characters are left out.
    pub(in crate::site) cut: &'static str,
}

pub(super) const EN: ReferenceWords = ReferenceWords {
    description: "Every API route, with examples.",
    contents: "Contents",
    feed: "The feed",
    feed_description: "How a bot reports its servers, premium, reviews, team and health.",
    open_feed: "The feed: how a bot reports",
    open_document: "OpenAPI document",

    credentials: "Authentication",
    public: "public",
    public_means: "Anyone can call it, without credentials.",
    with_token: "Token",
    with_token_means: "For signed-in users: send the session token from `POST /auth` in the `Token` header.",
    with_key: "bot key",
    with_key_means: "For bots: send the bot's key as `Authorization: Bearer bck_…`. The operator creates one with `bot-companion key create`.",

    parameters: "Parameters",
    name: "Name",
    kind: "Type",
    meaning: "Description",
    required: "required",
    optional: "optional",
    deprecated: "deprecated",
    in_header: "header",
    in_path: "path",
    characters: "characters",
    entries: "entries",
    body: "Body",
    what_a_line_says: "What a line can contain",
    command: "Example request",
    permission: |key| match key {
        Permission::ManageServer => {
            "Owns the server, or has Discord's Administrator or Manage Server permission there. Implies `ERLC_MANAGER`, `ADMIN` and `SESSION_STARTER`."
        }
        Permission::ErlcManager => {
            "Manages the game server: `MANAGE_SERVER`, or a role the server has chosen for it. Implies `ERLC_ADMIN`."
        }
        Permission::ErlcAdmin => {
            "Administers the game server: `ERLC_MANAGER`, or a role the server has chosen for it. Implies `ERLC_STAFF`."
        }
        Permission::ErlcStaff => "Is on the game server's staff: `ERLC_ADMIN`, or a role the server has chosen for it.",
        Permission::Admin => {
            "Administers the bot in this server: `MANAGE_SERVER`, or a role the server has chosen for it. Implies `MOD`."
        }
        Permission::Mod => "Moderates this server: `ADMIN`, or a role the server has chosen for it.",
        Permission::SessionStarter => {
            "Can start game sessions: `MANAGE_SERVER`, or a role the server has chosen for it."
        }
        Permission::Setup => "The bot is set up in this server. The same for everyone.",
        Permission::ErlcLinked => "The game server is linked. The same for everyone.",
        Permission::ServicePlusGuild => {
            "The server has premium: an active subscription covers it. The same for everyone."
        }
        Permission::ServicePlusMember => "The user has an active premium subscription of their own.",
        Permission::Founder => "The user is a founder of the bot. The team roster decides, for every server.",
        Permission::Executive => "The user is an executive on the bot's team. Implies `MANAGEMENT`.",
        Permission::Management => "The user manages the bot's team.",
        Permission::ServiceStaff => "The user is on the bot's team.",
        Permission::Support => "The user provides support for the bot.",
        Permission::QualityAssurance => "The user tests the bot for its team.",
        Permission::Docwriter => "The user writes the bot's documentation.",
        Permission::WebDeveloper => "The user develops the bot's website.",
        Permission::BotDeveloper => "The user develops the bot.",
    },

    answer: "Response",
    data_has: "`data` has these fields:",
    each_has: "`data` is a list; each entry has these fields:",
    event_has: "The data of each event has these fields:",
    data_as_in: "`data` has the fields of",
    each_as_in: "`data` is a list; each entry has the fields of",
    data_is_empty: "`data` is empty: `{}`.",
    example: "Example",
    header: "Header",
    headers: "Headers",
    errors: "Errors",
    as_everywhere: "Common errors:",
    everywhere: "Common to all routes",
    everywhere_means: "Almost every route can return these errors, and every response has these headers.",

    copy: "Copy",
    copied: "Copied",
    press_copy: "Press Ctrl+C",
    filter: "Filter routes",
    no_match: "No route matches.",
    try_it: "Try it",
    send: "Send",
    close: "Close",
    token_hint: "It stays in this page's memory and is gone when you leave.",
    use_session: "Use my dashboard session",
    using_session: "This page now uses {name}'s session.",
    no_session: "Nobody is signed in to the dashboard in this browser.",
    waiting: "Waiting for the response …",
    no_answer: "No response. Check your connection, and whether the service is running.",
    first_event: "This is the first event. The stream has been closed.",
    cut: "… and {count} more characters",
};

pub(super) const DE: ReferenceWords = ReferenceWords {
    description: "Alle Routen der API, mit Beispielen.",
    contents: "Inhalt",
    feed: "Der Feed",
    feed_description: "Wie ein Bot seine Server, Premium, Bewertungen, sein Team und seinen Zustand meldet.",
    open_feed: "Der Feed: So meldet ein Bot seine Daten",
    open_document: "OpenAPI-Dokument",

    credentials: "Authentifizierung",
    public: "öffentlich",
    public_means: "Für alle, ohne Zugangsdaten.",
    with_token: "Token",
    with_token_means: "Für angemeldete Personen: Sende das Sitzungs-Token aus `POST /auth` im Header `Token`.",
    with_key: "Bot-Schlüssel",
    with_key_means: "Für Bots: Sende den Schlüssel des Bots als `Authorization: Bearer bck_…`. Der Betreiber erzeugt ihn mit `bot-companion key create`.",

    parameters: "Parameter",
    name: "Name",
    kind: "Typ",
    meaning: "Beschreibung",
    required: "erforderlich",
    optional: "optional",
    deprecated: "veraltet",
    in_header: "Header",
    in_path: "Pfad",
    characters: "Zeichen",
    entries: "Einträge",
    body: "Body",
    what_a_line_says: "Was eine Zeile enthalten darf",
    command: "Beispielanfrage",
    permission: |key| match key {
        Permission::ManageServer => {
            "Besitzt den Server oder hat dort bei Discord das Recht „Administrator“ oder „Server verwalten“. Schließt `ERLC_MANAGER`, `ADMIN` und `SESSION_STARTER` ein."
        }
        Permission::ErlcManager => {
            "Leitet den Spielserver: `MANAGE_SERVER` oder eine Rolle, die der Server dafür festlegt. Schließt `ERLC_ADMIN` ein."
        }
        Permission::ErlcAdmin => {
            "Administriert den Spielserver: `ERLC_MANAGER` oder eine Rolle, die der Server dafür festlegt. Schließt `ERLC_STAFF` ein."
        }
        Permission::ErlcStaff => {
            "Gehört zum Team des Spielservers: `ERLC_ADMIN` oder eine Rolle, die der Server dafür festlegt."
        }
        Permission::Admin => {
            "Verwaltet den Bot auf diesem Server: `MANAGE_SERVER` oder eine Rolle, die der Server dafür festlegt. Schließt `MOD` ein."
        }
        Permission::Mod => "Moderiert diesen Server: `ADMIN` oder eine Rolle, die der Server dafür festlegt.",
        Permission::SessionStarter => {
            "Kann Spielsitzungen starten: `MANAGE_SERVER` oder eine Rolle, die der Server dafür festlegt."
        }
        Permission::Setup => "Der Bot ist auf diesem Server eingerichtet. Für alle gleich.",
        Permission::ErlcLinked => "Der Spielserver ist verknüpft. Für alle gleich.",
        Permission::ServicePlusGuild => "Der Server hat Premium: Ein aktives Abo gilt für ihn. Für alle gleich.",
        Permission::ServicePlusMember => "Die Person hat selbst ein aktives Premium-Abo.",
        Permission::Founder => {
            "Die Person hat den Bot mit ins Leben gerufen. Das legt die Teamliste fest, für alle Server."
        }
        Permission::Executive => "Die Person gehört zur Führung des Bot-Teams. Schließt `MANAGEMENT` ein.",
        Permission::Management => "Die Person leitet das Bot-Team.",
        Permission::ServiceStaff => "Die Person gehört zum Bot-Team.",
        Permission::Support => "Die Person leistet Support für den Bot.",
        Permission::QualityAssurance => "Die Person testet den Bot für sein Team.",
        Permission::Docwriter => "Die Person schreibt die Dokumentation des Bots.",
        Permission::WebDeveloper => "Die Person entwickelt die Website des Bots.",
        Permission::BotDeveloper => "Die Person entwickelt den Bot.",
    },

    answer: "Antwort",
    data_has: "`data` hat diese Felder:",
    each_has: "`data` ist eine Liste; jeder Eintrag hat diese Felder:",
    event_has: "Die Daten jedes Ereignisses haben diese Felder:",
    data_as_in: "`data` hat dieselben Felder wie",
    each_as_in: "`data` ist eine Liste; jeder Eintrag hat dieselben Felder wie",
    data_is_empty: "`data` ist leer: `{}`.",
    example: "Beispiel",
    header: "Header",
    headers: "Header",
    errors: "Fehler",
    as_everywhere: "Allgemeine Fehler:",
    everywhere: "Für alle Routen gleich",
    everywhere_means: "Fast jede Route kann diese Fehler zurückgeben, und jede Antwort hat diese Header.",

    copy: "Kopieren",
    copied: "Kopiert",
    press_copy: "Drück Strg+C",
    filter: "Routen filtern",
    no_match: "Keine passende Route.",
    try_it: "Ausprobieren",
    send: "Senden",
    close: "Schließen",
    token_hint: "Es bleibt nur im Speicher dieser Seite und ist weg, sobald du sie verlässt.",
    use_session: "Meine Dashboard-Sitzung verwenden",
    using_session: "Diese Seite verwendet jetzt die Sitzung von {name}.",
    no_session: "In diesem Browser ist niemand beim Dashboard angemeldet.",
    waiting: "Warte auf Antwort …",
    no_answer: "Keine Antwort. Prüfe deine Verbindung und ob der Dienst läuft.",
    first_event: "Das ist das erste Ereignis. Der Stream wurde geschlossen.",
    cut: "… und {count} weitere Zeichen",
};
