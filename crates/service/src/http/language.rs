//! The language of a page: the visitor's choice (`?lang=de`, remembered in a cookie), or what the browser prefers.

use std::sync::Arc;

use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use http::{HeaderMap, StatusCode, header};

use crate::app::App;
use crate::site::Language;

/// The site's only cookie. It's only set when a visitor chooses a language.
const COOKIE: &str = "site_language";
/// A year.
const REMEMBERED_SECONDS: u32 = 31_536_000;
/// How much of `Cookie` is searched: other services on the origin may set many.
const LONGEST_COOKIES: usize = 8 * 1024;

pub(super) fn language(asked: &HeaderMap) -> Language {
    remembered(asked).unwrap_or_else(|| {
        let preferred = asked.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        Language::preferred(preferred.unwrap_or_default())
    })
}

/// Lets `?lang=` choose the language of a page, then redirects to the page's own address.
pub(super) fn switchable(path: &'static str, methods: MethodRouter<Arc<App>>) -> MethodRouter<Arc<App>> {
    // Other methods are still refused.
    methods.route_layer(middleware::from_fn(move |request: Request, next: Next| async move {
        match request.uri().query().and_then(chosen) {
            Some(language) => remember(language, path),
            None => next.run(request).await,
        }
    }))
}

fn chosen(query: &str) -> Option<Language> {
    query.split('&').find_map(|field| field.strip_prefix("lang=")).and_then(Language::tagged)
}

/// Over HTTP/2, browsers may send each cookie in a field of its own.
fn remembered(asked: &HeaderMap) -> Option<Language> {
    let mut left = LONGEST_COOKIES;
    let searched = asked.get_all(header::COOKIE).into_iter().map_while(|field| {
        let searched = field.as_bytes().get(..left.min(field.len()))?;
        left -= searched.len();
        Some(searched)
    });
    let mut cookies = searched.flat_map(|field| field.split(|byte| *byte == b';'));
    let value = cookies.find_map(|cookie| cookie.trim_ascii().strip_prefix(COOKIE.as_bytes())?.strip_prefix(b"="))?;
    Language::tagged(std::str::from_utf8(value).ok()?)
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
    use http::HeaderValue;

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
            ("a=ü; site_language=en", Language::English),
        ] {
            asked.insert(header::COOKIE, HeaderValue::from_bytes(cookies.as_bytes()).unwrap());
            assert_eq!(language(&asked), expected, "{cookies}");
        }
        asked.insert(header::COOKIE, HeaderValue::from_static(""));
        asked.append(header::COOKIE, HeaderValue::from_static("a=b"));
        asked.append(header::COOKIE, HeaderValue::from_static("site_language=en"));
        assert_eq!(language(&asked), Language::English, "several fields");
        asked.insert(header::COOKIE, HeaderValue::try_from("a".repeat(LONGEST_COOKIES)).unwrap());
        asked.append(header::COOKIE, HeaderValue::from_static("site_language=en"));
        assert_eq!(language(&asked), Language::German, "too long to be searched");
    }
}
