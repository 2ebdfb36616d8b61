//! The pages of the site: read the facts, let `site` make the page, respond.

use std::sync::Arc;

use api::error::ErrorCode;
use api::incidents::happenings;
use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use domain::history::recording::minute_of;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use telemetry::metrics::LimitName;

use super::context::RequestContext;
use super::error::ApiError;
use super::language::language;
use super::{encoding, etag};
use crate::app::App;
use crate::site::dashboard::SignIn;
use crate::site::status::StatusFacts;
use crate::site::{self, Facts, Language, PageName, Site};
use crate::views::tagged::TaggedBody;

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const ATOM: HeaderValue = HeaderValue::from_static("application/atom+xml; charset=utf-8");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const CSS: HeaderValue = HeaderValue::from_static("text/css; charset=utf-8");
/// A page shows what is now; a browser may keep it, and asks each time whether it still holds.
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
const FOR_A_MINUTE: HeaderValue = HeaderValue::from_static("public, max-age=60");
const FOR_AN_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");
/// The address changes with the content.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// The content security policy of a response that is not a page: an image, a feed.
pub(super) const NOTHING_LOADED: HeaderValue = HeaderValue::from_static("default-src 'none'");
/// The longest query of a page.
const LONGEST_QUERY: usize = 256;
const VARY: HeaderValue = HeaderValue::from_static("accept-encoding, accept-language, cookie");
const SECURITY: [(HeaderName, HeaderValue); 4] = [
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// `/site`: the home page has a slash at its end.
pub(super) async fn to_home(State(app): State<Arc<App>>) -> Response {
    let to = HeaderValue::try_from(app.site.home_path()).unwrap_or(HeaderValue::from_static("/site/"));
    (StatusCode::PERMANENT_REDIRECT, HeaderMap::from_iter([(header::LOCATION, to)])).into_response()
}

/// `/site/`
pub(super) async fn home(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, ApiError> {
    let language = language(&headers);
    let facts = app.views.site.get().await?;
    let history = app.views.history.get().await?;
    // Not the time when the request arrived: how long ago that is, its body decides, and with it the client.
    let now = app.sources.clock.now();
    let made_of = vec![Arc::clone(&facts) as Facts, Arc::clone(&history) as Facts];
    let page = app.site.rendered.get_or_render((PageName::Home, language), (made_of, now), || {
        site::home::page(&app.site, language, &facts, &history, now)
    });
    Ok(respond(&app, &page, &headers).await)
}

/// `/site/status`
pub(super) async fn status(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let language = language(&headers);
    let facts = app.views.site.get().await?;
    let history = app.views.history.get().await?;
    let server = query.as_deref().and_then(server_of);
    // As above.
    let now = app.sources.clock.now();
    let shown = StatusFacts { health: &facts.health, history: &history, now };
    if let Some(server) = server {
        let page = site::status::lookup_page(&app.site, language, &shown, &server);
        return Ok(respond(&app, &TaggedBody::new(page.into()), &headers).await);
    }
    let made_of = vec![Arc::clone(&facts) as Facts, Arc::clone(&history) as Facts];
    let page = app.site.rendered.get_or_render((PageName::Status, language), (made_of, now), || {
        site::status::page(&app.site, language, &shown)
    });
    Ok(respond(&app, &page, &headers).await)
}

/// The server that a visitor of the status page asks for, as typed. A query that is too long asks for none that there is.
fn server_of(query: &str) -> Option<String> {
    if query.len() > LONGEST_QUERY {
        return Some(String::new());
    }
    let mut fields = form_urlencoded::parse(query.as_bytes());
    fields.find(|(name, _)| name == "server").map(|(_, server)| server.into_owned())
}

/// `/site/incidents.atom`
pub(super) async fn incidents(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, ApiError> {
    let (language, history) = (language(&headers), app.views.history.get().await?);
    let (made_of, now) = (vec![Arc::clone(&history) as Facts], minute_of(app.sources.clock.now()));
    let feed = app.site.rendered.get_or_render((PageName::Incidents, language), (made_of, now), || {
        site::status::feed(&app.site, language, &history, now)
    });
    let mut response = etag::respond_as(&feed, ATOM, FOR_A_MINUTE, &headers).await.into_response();
    response.headers_mut().insert(header::VARY, VARY);
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, NOTHING_LOADED);
    Ok(response)
}

/// `/site/incidents.json`
pub(super) async fn incidents_as_json(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, ApiError> {
    let history = app.views.history.get().await?;
    let (made_of, now) = (vec![Arc::clone(&history) as Facts], minute_of(app.sources.clock.now()));
    let page = (PageName::IncidentsJson, Language::English);
    let feed = app.site.rendered.get_or_render(page, (made_of, now), || happenings(&history, now));
    Ok(etag::respond(&feed, FOR_A_MINUTE, &headers).await.into_response())
}

/// `/site/dashboard`
pub(super) async fn dashboard(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let language = language(&headers);
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let sign_in = site::dashboard::sign_in_at(&app.site, &app.config.idp, host);
    let name = if sign_in == SignIn::Ready { PageName::Dashboard } else { PageName::DashboardWithoutSignIn };
    let page = app.site.rendered.get_or_render((name, language), (Vec::new(), app.sources.clock.now()), || {
        site::dashboard::page(&app.site, language, &sign_in)
    });
    respond(&app, &page, &headers).await
}

/// A page that never changes.
pub(super) fn fixed(name: PageName, render: fn(&Site, Language) -> String) -> MethodRouter<Arc<App>> {
    get(async move |State(app): State<Arc<App>>, headers: HeaderMap| {
        let language = language(&headers);
        let render = || render(&app.site, language);
        let page = app.site.rendered.get_or_render_timeless((name, language), Vec::new(), render);
        respond(&app, &page, &headers).await
    })
}

/// `/site/roles.css`: the colours of the team's roles.
pub(super) async fn role_colours(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, ApiError> {
    let facts = app.views.site.get().await?;
    let made_of = vec![Arc::clone(&facts) as Facts];
    let page = (PageName::RoleColours, Language::English);
    let sheet = app.site.rendered.get_or_render_timeless(page, made_of, || app.site.role_colours(&facts.team));
    Ok(etag::respond_as(&sheet, CSS, NO_CACHE, &headers).await.into_response())
}

/// `/site/icon`: the picture that the operator has given. `/site/preview`: the one that chat apps show with a link.
/// `/favicon.ico`: the picture, whatever its type; browsers look at the content.
pub(super) fn picture(find: for<'a> fn(&'a Site) -> Option<(&'static str, &'a TaggedBody)>) -> MethodRouter<Arc<App>> {
    get(async move |State(app): State<Arc<App>>, headers: HeaderMap| {
        let (media_type, body) = find(&app.site).ok_or(ErrorCode::NotFound)?;
        let media_type = HeaderValue::from_static(media_type);
        Ok::<_, ApiError>(etag::respond_as(body, media_type, FOR_AN_HOUR, &headers).await)
    })
}

/// `/robots.txt`
pub(super) async fn robots(State(app): State<Arc<App>>) -> Response {
    ([(header::CONTENT_TYPE, TEXT), (header::CACHE_CONTROL, FOR_AN_HOUR)], app.site.robots()).into_response()
}

/// `/site/assets/…`
pub(super) async fn asset(
    State(app): State<Arc<App>>,
    Extension(context): Extension<RequestContext>,
    Path(file): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let own = app.site.look(&file).map(|body| ("text/css; charset=utf-8", body));
    let of_ours = || site::assets::find(&file).map(|asset| (asset.media_type, &asset.body));
    let Some((media_type, body)) = own.or_else(of_ours) else {
        let counted = app.rate_limits.request(context.client, context.ticks);
        return Err(
            counted.map_or_else(|wait| ApiError::limited(LimitName::Requests, wait), |()| ErrorCode::NotFound.into())
        );
    };
    let body = encoding::encode(body, &headers).await;
    let mut response = http::Response::new(axum::body::Body::empty());
    body.add_headers(response.headers_mut());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response.headers_mut().insert(header::CACHE_CONTROL, IMMUTABLE);
    *response.body_mut() = body.bytes.into();
    Ok(response)
}

/// Renders an error response as a page.
pub(super) fn show_error(
    response: &mut Response,
    app: &App,
    refusal: &ApiError,
    asked: &HeaderMap,
    context: &RequestContext,
) {
    let page = site::error_page::page(&app.site, language(asked), refusal.code, refusal.retry_seconds(), context.id());
    *response.body_mut() = page.into();
    add_page_headers(response.headers_mut(), app);
}

async fn respond(app: &App, page: &TaggedBody, asked: &HeaderMap) -> Response {
    let mut response = etag::respond_as(page, HTML, NO_CACHE, asked).await.into_response();
    add_page_headers(response.headers_mut(), app);
    response
}

fn add_page_headers(headers: &mut HeaderMap, app: &App) {
    headers.insert(header::CONTENT_TYPE, HTML);
    headers.insert(header::VARY, VARY);
    headers.extend(SECURITY);
    if let Ok(policy) = HeaderValue::from_str(app.site.policy()) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
}
