//! The language of a page: the visitor's choice (`?lang=de`, remembered in a cookie), or what the browser prefers.

use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use crate::app::App;
use crate::site::Language;

/// The site's only cookie. It's only set when a visitor chooses a language.
const COOKIE: &str = "site_language";
/// A year.
const REMEMBERED_SECONDS: u32 = 31_536_000;
/// How much of `Cookie` is searched: other services on the origin may set many.
const LONGEST_COOKIES: usize = 8 * 1024;

pub(super) fn language(asked: &HeaderMap) -> Language {
    let text = |name| asked.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default();
    remembered(text(header::COOKIE)).unwrap_or_else(|| Language::preferred(text(header::ACCEPT_LANGUAGE)))
}

/// Lets `?lang=` choose the language of a page, then redirects to the page's own address.
pub(super) fn switchable(path: &'static str, methods: MethodRouter<Arc<App>>) -> MethodRouter<Arc<App>> {
    methods.layer(middleware::from_fn(move |request: Request, next: Next| async move {
        match request.uri().query().and_then(chosen) {
            Some(language) => remember(language, path),
            None => next.run(request).await,
        }
    }))
}

fn chosen(query: &str) -> Option<Language> {
    query.split('&').find_map(|field| field.strip_prefix("lang=")).and_then(Language::tagged)
}

fn remembered(cookies: &str) -> Option<Language> {
    let mut cookies = cookies.get(..cookies.len().min(LONGEST_COOKIES))?.split(';');
    let value = cookies.find_map(|cookie| cookie.trim().strip_prefix(COOKIE)?.strip_prefix('='))?;
    Language::tagged(value)
}

fn remember(language: Language, path: &str) -> Response {
    let tag = language.tag();
    let cookie = format!("{COOKIE}={tag}; Path=/; Max-Age={REMEMBERED_SECONDS}; SameSite=Lax; HttpOnly");
    // Relative, because of `http.base_path`.
    let to = match path.rsplit_once('/') {
        Some((_, "")) | None => ".",
        Some((_, page)) => page,
    };
    let headers = [
        (header::LOCATION, to.to_owned()),
        (header::SET_COOKIE, cookie),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    (StatusCode::SEE_OTHER, headers).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_found_among_other_things_and_nothing_else_is_one() {
        for (query, language) in [
            ("lang=de", Some(Language::German)),
            ("server=1&lang=en", Some(Language::English)),
            ("lang=fr", None),
            ("lang=", None),
            ("slang=de", None),
            ("", None),
        ] {
            assert_eq!(chosen(query), language, "{query}");
        }
        let mut asked = HeaderMap::from_iter([(header::ACCEPT_LANGUAGE, HeaderValue::from_static("de"))]);
        for (cookies, expected) in [
            ("site_language=en", Language::English),
            ("a=b; site_language=en", Language::English),
            ("site_language=xx", Language::German),
            ("my_site_language=en", Language::German),
            ("site_language", Language::German),
        ] {
            asked.insert(header::COOKIE, HeaderValue::from_static(cookies));
            assert_eq!(language(&asked), expected, "{cookies}");
        }
    }
}
