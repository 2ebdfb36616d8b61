//! What each permission key means to the signed-in user.

use domain::Permission;

pub(super) fn english(key: Permission) -> &'static str {
    match key {
        Permission::ErlcStaff => "Game server staff",
        Permission::ServicePlusGuild => "This server has premium",
        Permission::QualityAssurance => "You're on the bot's QA team",
        Permission::ErlcAdmin => "Game server administrator",
        Permission::Docwriter => "You write the bot's documentation",
        Permission::Founder => "You're a founder of the bot",
        Permission::ErlcManager => "Game server manager",
        Permission::ManageServer => "Manage this server",
        Permission::Executive => "You're an executive on the bot's team",
        Permission::BotDeveloper => "You develop the bot",
        Permission::WebDeveloper => "You develop the bot's website",
        Permission::Setup => "The bot is set up here",
        Permission::SessionStarter => "Start game sessions",
        Permission::Mod => "Moderate",
        Permission::Support => "You provide support for the bot",
        Permission::Management => "You manage the bot's team",
        Permission::Admin => "Administer",
        Permission::ServiceStaff => "You're on the bot's team",
        Permission::ErlcLinked => "The game server is linked",
        Permission::ServicePlusMember => "You have premium",
    }
}

pub(super) fn german(key: Permission) -> &'static str {
    match key {
        Permission::ErlcStaff => "Team des Spielservers",
        Permission::ServicePlusGuild => "Dieser Server hat Premium",
        Permission::QualityAssurance => "Du gehörst zum QA-Team des Bots",
        Permission::ErlcAdmin => "Administration des Spielservers",
        Permission::Docwriter => "Du schreibst die Dokumentation des Bots",
        Permission::Founder => "Du hast den Bot mit ins Leben gerufen",
        Permission::ErlcManager => "Leitung des Spielservers",
        Permission::ManageServer => "Diesen Server verwalten",
        Permission::Executive => "Du gehörst zur Führung des Bot-Teams",
        Permission::BotDeveloper => "Du entwickelst den Bot",
        Permission::WebDeveloper => "Du entwickelst die Website des Bots",
        Permission::Setup => "Der Bot ist hier eingerichtet",
        Permission::SessionStarter => "Spielsitzungen starten",
        Permission::Mod => "Moderieren",
        Permission::Support => "Du leistest Support für den Bot",
        Permission::Management => "Du leitest das Bot-Team",
        Permission::Admin => "Administrieren",
        Permission::ServiceStaff => "Du gehörst zum Bot-Team",
        Permission::ErlcLinked => "Der Spielserver ist verknüpft",
        Permission::ServicePlusMember => "Du hast Premium",
    }
}
