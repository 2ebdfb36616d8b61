//! Error pages.

use api::error::ErrorCode;
use maud::html;

use super::layout::{PageFrame, Section};
use super::words::shared::ErrorWords;
use super::{Language, Site};

pub fn page(site: &Site, language: Language, code: ErrorCode, retry_seconds: Option<u64>, request_id: &str) -> String {
    let shared = &language.words().shared;
    let (ErrorWords { title, text }, is_temporary) = match code {
        ErrorCode::NotFound => (&shared.not_found, false),
        ErrorCode::RateLimited => (&shared.rate_limited, true),
        ErrorCode::Overloaded => (&shared.overloaded, true),
        ErrorCode::StoreUnavailable | ErrorCode::Timeout | ErrorCode::RequestTimeout => (&shared.unavailable, true),
        _ => (&shared.failed, false),
    };
    let frame = PageFrame { site, language, section: Section::Other, title, description: "", scripts: &[], live: "" };
    frame.page(&html! {
        div class="wide error" {
            p class="status-code" { (code.status().as_u16()) }
            h1 { (title) }
            p { (text) @if is_temporary { " " ((shared.reload)(retry_seconds)) } }
            p { a class="button primary" href=(site.path("/site/")) { (shared.back_home) } }
            p class="quiet" { (shared.request_id) ": " code { (request_id) } }
        }
    })
}
