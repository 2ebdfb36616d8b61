//! Error pages.

use api::error::ErrorCode;
use maud::{Markup, html};

use super::layout::{PageFrame, Section};
use super::words::shared::{ErrorWords, SharedWords};
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
    let can_retry = is_temporary || code.status().is_server_error();
    let scripts: &[&str] = if is_temporary { &["retry.js"] } else { &[] };
    let frame = PageFrame { scripts, ..PageFrame::new(site, language, Section::Other, title, "") };
    frame.page(&html! {
        div class="wide error" {
            p class="status-code" { (code.status().as_u16()) }
            h1 { (title) }
            p { (text) }
            @if is_temporary { (wait(shared, retry_seconds)) }
            p class="actions" {
                // An empty address is the current page.
                @if can_retry { a class="button primary" href="" { (shared.try_again) } }
                a class={ "button" @if !can_retry { " primary" } } href=(site.path("/site/")) { (shared.back_home) }
            }
            p class="quiet" { (shared.request_id) ": " code { (request_id) } }
        }
    })
}

/// When to try again. The script counts down with the sentences in the attributes.
fn wait(shared: &SharedWords, retry_seconds: Option<u64>) -> Markup {
    let sentence = |seconds| (shared.try_again_in)(Some(seconds));
    html! {
        p id="wait" data-seconds=[retry_seconds] data-now=(sentence(0)) data-one=(sentence(1))
            data-many=(sentence(2).replace('2', "{count}")) {
            ((shared.try_again_in)(retry_seconds))
        }
    }
}
