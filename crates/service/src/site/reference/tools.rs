//! What the script adds to the pages: ready-made parts with their words, in a `<template>`. Without the script they are not there.

use maud::{Markup, html};

use crate::site::layout::PageFrame;

pub(super) fn template(frame: &PageFrame<'_>) -> Markup {
    let words = &frame.words().reference;
    html! {
        template id="tools" {
            button type="button" class="button small copy" data-done=(words.copied) data-failed=(words.press_copy) {
                (words.copy)
            }
            button type="button" class="button small try" { (words.try_it) }
            div class="filter" {
                label { span class="visually-hidden" { (words.filter) } input type="search" autocomplete="off" placeholder=(words.filter); }
                p class="quiet none" role="status" data-none=(words.no_match) {}
            }
            (trial(frame))
        }
    }
}

/// The form that calls an operation, and the place for its response.
fn trial(frame: &PageFrame<'_>) -> Markup {
    let words = &frame.words().reference;
    html! {
        form class="trial" data-waiting=(words.waiting) data-failed=(words.no_answer) data-first-event=(words.first_event)
            data-cut=(words.cut) data-no-session=(words.no_session) data-using=(words.using_session) {
            label class="parameter" { code {} input type="text" autocomplete="off" spellcheck="false" required; }
            label class="optional" {
                span { code {} " " span class="mark" { (words.optional) } }
                input type="text" autocomplete="off" spellcheck="false";
            }
            div class="token" {
                label { code { "Token" } input type="password" autocomplete="off" spellcheck="false" required; }
                p class="quiet" { (words.token_hint) }
                button type="button" class="button small session" { (words.use_session) }
                p class="quiet told" role="status" {}
            }
            p class="send" {
                button type="submit" class="button small primary" { (words.send) }
                button type="button" class="button small close" { (words.close) }
            }
            p class="result" role="status" {}
            dl class="headers" {}
            div class="code" { pre tabindex="0" { code {} } }
        }
    }
}
