//! The legend of charts and tiles.

use maud::{Markup, html};

/// A sign and its meaning. Signs differ in shape, not only in colour.
pub(super) fn legend(label: &str, entries: &[(&str, &str)]) -> Markup {
    html! {
        ul class="legend" aria-label=(label) {
            @for (sign, meaning) in entries {
                li { (sign_of(sign)) (meaning) }
            }
        }
    }
}

/// The worse it was, the thinner the bar and the taller the block. A line is a line, and unknown is hatched (by the style sheet).
fn sign_of(sign: &str) -> Markup {
    let (x, width) = match sign {
        "up" => (1, 12),
        "partial" => (3, 8),
        _ => (5, 4),
    };
    html! {
        @match sign {
            "unknown" => { span class="swatch hatched" aria-hidden="true" {} }
            "line" => {
                svg class="swatch" viewBox="0 0 14 16" width="14" height="16" aria-hidden="true" {
                    path class="line" d="M0 11L5 6L9 9L14 4" {}
                }
            }
            "low" | "tall" => {
                svg class="swatch" viewBox="0 0 14 16" width="14" height="16" aria-hidden="true" {
                    @if *sign == *"low" {
                        rect class="partial" x="0" y="10" width="14" height="6" {}
                    } @else {
                        rect class="down" x="0" y="2" width="14" height="14" {}
                    }
                }
            }
            "tile-up" | "tile-down" | "tile-unknown" => {
                span class={ "dot " (sign.trim_start_matches("tile-")) } aria-hidden="true" {}
            }
            _ => {
                svg class="swatch" viewBox="0 0 14 16" width="14" height="16" aria-hidden="true" {
                    rect class=(sign) x=(x) y="0" width=(width) height="16" {}
                }
            }
        }
    }
}
