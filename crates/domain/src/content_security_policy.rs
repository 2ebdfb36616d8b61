//! The content security policies of all pages: what a browser may load there, and from where.

/// A response that isn't a page: an image, a feed.
pub const NOTHING: &str = "default-src 'none'";

/// A page of the sandbox: nothing from elsewhere, and no scripts.
pub const SANDBOX_PAGE: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A page of the sandbox with forms.
pub const SANDBOX_FORM: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// A page of the site: scripts, styles and calls only from us, images also from this origin; nothing inline, and no framing.
pub fn site(pictures: &str) -> String {
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' {pictures}; connect-src 'self'; form-action \
         'self'; base-uri 'none'; frame-ancestors 'none'"
    )
}
