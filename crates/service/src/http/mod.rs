//! The HTTP side: the route table by zone, the middleware, and per resource a file of handlers, which extract, make a call or two
//! and respond.

mod access;
mod auth;
mod badges;
mod bounds;
mod context;
mod cors;
pub(crate) mod date;
mod encoding;
mod error;
mod etag;
mod extract;
mod fast_path;
mod feed;
mod feedback;
mod framing;
mod guilds;
mod live;
mod me;
mod measure;
mod openapi;
mod pages;
mod pipeline;
mod readiness;
mod respond;
mod sessions;
mod stats;
mod status;
mod team;
mod zone;

use axum::routing::get;
use utoipa_axum::routes;

pub use context::Peer;
pub(crate) use extract::bot_key;
#[cfg(test)]
pub(crate) use openapi::describe;
pub use openapi::document;
pub use pipeline::{Body, HttpService};

use zone::{BOT, DASHBOARD, DASHBOARD_LIVE, LIVE, OPERATIONS, PUBLIC, RouteTable, Routes, SITE};

/// The whole route table. A zone (`zone.rs`) decides CORS, rate limit, body, deadline and permits of its routes.
fn routes(with_site: bool) -> RouteTable {
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
        // The dashboard: sign in, then everything with the header `Token`.
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
        // Everybody who writes a client.
        .zone(PUBLIC, routes!(openapi::show))
        // Paths that lead nowhere.
        .unknown_below("/bot", BOT)
}

/// What people look at.
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
