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
    let drawing = match sign {
        "unknown" => return html! { span class="swatch hatched" aria-hidden="true" {} },
        "tile-up" | "tile-down" | "tile-unknown" => {
            return html! { span class={ "dot " (sign.trim_start_matches("tile-")) } aria-hidden="true" {} };
        }
        "line" => html! { path class="line" d="M0 11L5 6L9 9L14 4" {} },
        "low" => html! { rect class="partial" x="0" y="10" width="14" height="6" {} },
        "tall" => html! { rect class="down" x="0" y="2" width="14" height="14" {} },
        "up" => html! { rect class="up" x="1" y="0" width="12" height="16" {} },
        "partial" => html! { rect class="partial" x="3" y="0" width="8" height="16" {} },
        _ => html! { rect class="down" x="5" y="0" width="4" height="16" {} },
    };
    html! { svg class="swatch" viewBox="0 0 14 16" width="14" height="16" aria-hidden="true" { (drawing) } }
}
