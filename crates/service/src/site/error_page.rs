//! Errors as pages.

use api::error::ErrorCode;
use maud::html;

use super::layout::{PageFrame, Section};
use super::words::shared::ErrorWords;
use super::{Language, Site};

pub fn page(site: &Site, language: Language, code: ErrorCode, request_id: &str) -> String {
    let shared = &language.words().shared;
    let ErrorWords { title, text } = match code {
        ErrorCode::NotFound => &shared.not_found,
        ErrorCode::RateLimited => &shared.rate_limited,
        ErrorCode::Overloaded => &shared.overloaded,
        ErrorCode::StoreUnavailable | ErrorCode::Timeout | ErrorCode::RequestTimeout => &shared.unavailable,
        _ => &shared.failed,
    };
    let frame = PageFrame { site, language, section: Section::Other, title, description: "", scripts: &[], live: "" };
    frame.page(&html! {
        div class="wide error" {
            p class="status-code" { (code.status().as_u16()) }
            h1 { (title) }
            p { (text) }
            p { a class="button primary" href=(site.path("/site/")) { (shared.back_home) } }
            p class="quiet" { (shared.request_id) ": " code { (request_id) } }
        }
    })
}
