//! The route table.

use axum::routing::get;
use utoipa_axum::routes;

use super::zone::{BOT, DASHBOARD, DASHBOARD_LIVE, LIVE, OPERATIONS, PUBLIC, RouteTable, Routes, SITE};
use super::{auth, badges, feed, feedback, guilds, live, me, openapi, pages, readiness, sessions, stats, status, team};

/// A zone (`zone.rs`) decides CORS, rate limit, body, deadline and permits of its routes.
pub(super) fn route_table(with_site: bool) -> RouteTable {
    let api = api_routes();
    if with_site { site_routes(api) } else { api }.unknown(PUBLIC)
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

/// Pages for people.
fn site_routes(api: Routes) -> Routes {
    api.page(SITE, "/site", get(pages::to_home))
        .page(SITE, "/site/", get(pages::home))
        .page(SITE, "/site/status", get(pages::status))
        // Feed readers on other sites read it, too.
        .page(PUBLIC, "/site/incidents.atom", get(pages::incidents))
        .page(SITE, "/site/dashboard", get(pages::dashboard))
        .page(SITE, "/site/roles.css", get(pages::role_colours))
        .page(SITE, "/site/icon", get(pages::icon))
        .page(SITE, "/site/assets/{file}", get(pages::asset))
        .page(SITE, "/docs", get(pages::reference))
        .page(SITE, "/docs/feed", get(pages::feed_reference))
        // Other sites show them.
        .page(PUBLIC, "/badge/{file}", get(badges::show))
        .unknown_below("/site", SITE)
        .unknown_below("/docs", SITE)
}
