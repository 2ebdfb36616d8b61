//! The route table.

use axum::routing::get;
use utoipa_axum::routes;

use super::zone::{ASSETS, BOT, DASHBOARD, DASHBOARD_LIVE, LIVE, OPERATIONS, PUBLIC, RouteTable, Routes, SITE};
use super::{
    auth, badges, feed, feedback, guilds, language, live, me, openapi, pages, readiness, sessions, stats, status, team,
};
use crate::config::{SiteConfig, SitePart};
use crate::site::{PageName, Site, features, reference};

/// A zone (`zone.rs`) decides CORS, rate limit, body, deadline and permits of its routes.
pub(super) fn route_table(site: Option<&SiteConfig>) -> RouteTable {
    let api = api_routes();
    if let Some(site) = site { site_routes(api, site) } else { api }.unknown(PUBLIC)
}

fn api_routes() -> Routes {
    Routes::default()
        // The website, without credentials.
        .zone(PUBLIC, routes!(status::show))
        .zone(PUBLIC, routes!(team::list))
        .zone(PUBLIC, routes!(feedback::list))
        .zone(PUBLIC, routes!(stats::show))
        .zone(LIVE, routes!(live::public))
        // The dashboard: sign in, then everything with the `Token` header.
        .zone(DASHBOARD, routes!(auth::options, auth::sign_in, auth::sign_out))
        .zone(DASHBOARD, routes!(me::show))
        .zone(DASHBOARD_LIVE, routes!(live::of_user))
        .zone(DASHBOARD, routes!(guilds::list))
        .zone(DASHBOARD, routes!(guilds::invitable))
        .zone(DASHBOARD, routes!(guilds::show))
        .zone(DASHBOARD, routes!(sessions::list, sessions::end_all))
        .zone(DASHBOARD, routes!(sessions::end_one))
        // The bot, with its key.
        .zone(BOT, routes!(feed::heartbeat))
        .zone(BOT, routes!(feed::guilds))
        .zone(BOT, routes!(feed::subscriptions))
        .zone(BOT, routes!(feed::events))
        .zone(BOT, routes!(feed::state))
        // Load balancers.
        .zone(OPERATIONS, routes!(readiness::show))
        // Anyone who writes a client.
        .zone(PUBLIC, routes!(openapi::show))
        // Unknown paths.
        .unknown_below("/bot", BOT)
}

/// Pages for people, except for hidden ones.
fn site_routes(api: Routes, site: &SiteConfig) -> Routes {
    let mut routes = api
        .page(SITE, "/site", get(pages::to_home))
        .page(SITE, "/site/", language::switchable("/site/", get(pages::home)))
        .page(SITE, "/site/roles.css", get(pages::role_colours))
        .page(SITE, "/site/icon", pages::picture(Site::icon))
        .page(SITE, "/site/preview", pages::picture(Site::preview))
        .page(ASSETS, "/site/assets/{file}", get(pages::asset))
        // Browsers and crawlers always look here.
        .page(SITE, "/favicon.ico", pages::picture(|site| Some(site.favicon())))
        .page(SITE, "/robots.txt", get(pages::robots))
        // Other sites show them.
        .page(PUBLIC, "/badge/{file}", get(badges::show));
    if site.features.is_some() {
        let page = language::switchable("/site/features", pages::fixed(PageName::Features, features::page));
        routes = routes.page(SITE, "/site/features", page);
    }
    let is_shown = |part| !site.hide.contains(&part);
    if is_shown(SitePart::Status) {
        let page = language::switchable("/site/status", get(pages::status));
        routes = routes.page(SITE, "/site/status", page);
        // Feed readers and programs on other sites read them too.
        routes = routes.page(PUBLIC, "/site/incidents.atom", get(pages::incidents)).page(
            PUBLIC,
            "/site/incidents.json",
            get(pages::incidents_as_json),
        );
    }
    if is_shown(SitePart::Dashboard) {
        let page = language::switchable("/site/dashboard", get(pages::dashboard));
        routes = routes.page(SITE, "/site/dashboard", page);
    }
    if is_shown(SitePart::Docs) {
        let api =
            pages::fixed(PageName::Reference, |site, language| reference::page(site, language, &openapi::describe()));
        let feed =
            pages::fixed(PageName::Feed, |site, language| reference::feed::page(site, language, &openapi::describe()));
        routes = routes.page(SITE, "/docs", language::switchable("/docs", api));
        routes = routes.page(SITE, "/docs/feed", language::switchable("/docs/feed", feed));
    }
    routes.unknown_below("/site", SITE).unknown_below("/docs", SITE)
}
