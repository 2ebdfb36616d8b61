//! The content security policies of all pages: what a browser may load there, and from where.

/// An answer that is no page: a picture, a feed.
pub const NOTHING: &str = "default-src 'none'";

/// A page of the sandbox: nothing from anywhere else, and nothing that runs.
pub const SANDBOX_PAGE: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A page of the sandbox with forms.
pub const SANDBOX_FORM: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// A page of the site: scripts, styles and calls are ours alone, pictures also come from this origin; nothing is inline, and nobody
/// frames a page.
pub fn site(pictures: &str) -> String {
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' {pictures}; connect-src 'self'; form-action \
         'self'; base-uri 'none'; frame-ancestors 'none'"
    )
}
