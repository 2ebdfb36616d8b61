//! The values that `[site]` accepts.

use super::value::{Advice, full_url, line, page_url, refuse_http};
use super::{SiteLink, SitePart};

const LONGEST_NAME: usize = 100;

/// The public address of the service, without a trailing slash.
pub(crate) fn site_url(text: &str) -> Result<String, Advice> {
    if text.contains(char::is_whitespace) {
        return Err("write the address without spaces".into());
    }
    let address = full_url(text, "write the service's public address, like \"https://bot.example\"")?;
    refuse_http(&address, "over http, anyone on the network could read what users do")?;
    if address.query().is_some() {
        return Err("write the address without a query".into());
    }
    Ok(address.as_str().trim_end_matches('/').to_owned())
}

/// A name that fits a heading.
pub(crate) fn site_name(text: &str) -> Result<String, Advice> {
    let name = line(text)?;
    if (1..=LONGEST_NAME).contains(&name.trim().chars().count()) {
        Ok(name.trim().to_owned())
    } else {
        Err(format!("write a name of 1 to {LONGEST_NAME} characters"))
    }
}

/// The address where people add the bot to a server.
pub(super) fn site_invite_url(text: &str) -> Result<String, Advice> {
    page_url(&text.replace("{client_id}", "1"))?;
    Ok(text.to_owned())
}

/// A colour like `#4250c9`.
pub(super) fn site_accent(text: &str) -> Result<String, Advice> {
    let is_colour = |digits: &str| digits.len() == 6 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    match text.strip_prefix('#') {
        Some(digits) if is_colour(digits) => Ok(text.to_ascii_lowercase()),
        _ => Err("write a colour as \"#\" and six hexadecimal digits: \"#4250c9\"".into()),
    }
}

/// A part to hide.
pub(super) fn site_part(text: &str) -> Result<SitePart, Advice> {
    let found = SitePart::ALL.into_iter().find(|(name, _)| *name == text).map(|(_, part)| part);
    found.ok_or_else(|| format!("write one of {}", SitePart::ALL.map(|(name, _)| format!("\"{name}\"")).join(", ")))
}

/// The address where people manage a server.
pub(super) fn site_manage_url(text: &str) -> Result<String, Advice> {
    if !text.contains("{guild}") {
        return Err("write an address that contains \"{guild}\" for the server's ID".into());
    }
    page_url(&text.replace("{guild}", "1"))?;
    Ok(text.to_owned())
}

/// A label, `|` and an address.
pub(super) fn site_link(text: &str) -> Result<SiteLink, Advice> {
    let advice = "write a label, \"|\" and an address: \"Support | https://chat.example/invite\"";
    let (label, url) = text.split_once('|').ok_or(advice)?;
    let label = site_name(label).map_err(|_| advice)?;
    Ok(SiteLink { label, url: page_url(url.trim())? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_https_or_on_this_machine() {
        assert_eq!(site_url("https://bot.example/").as_deref(), Ok("https://bot.example"));
        assert_eq!(site_url("http://127.0.0.1:8080/api").as_deref(), Ok("http://127.0.0.1:8080/api"));
        for wrong in ["bot.example", "http://bot.example", "https://bot.example/?a", "javascript:alert(1)"] {
            assert!(site_url(wrong).is_err(), "{wrong}");
        }
        assert!(site_url("bot.example:8443/x").unwrap_err().contains("the scheme is missing"));
        assert!(site_url("http://bot.example").unwrap_err().starts_with("use https: "));
        assert!(site_invite_url("https://provider.example/add?client_id={client_id}").is_ok());
        assert!(site_invite_url("javascript:alert(1)").is_err());
    }

    #[test]
    fn a_colour_a_part_and_a_management_page_are_checked() {
        assert_eq!(site_accent("#4250C9").as_deref(), Ok("#4250c9"));
        for wrong in ["red", "#fff", "4250c9", "#4250c", "#4250c99", "#+1+1+1", "#4250c9;}", "#42é0c"] {
            assert!(site_accent(wrong).is_err(), "{wrong}");
        }
        assert_eq!(site_part("team"), Ok(SitePart::Team));
        assert!(site_part("Team").unwrap_err().contains("\"numbers\", \"reviews\""));
        assert!(site_manage_url("https://bot.example/servers/{guild}").is_ok());
        for wrong in ["https://bot.example/servers", "javascript:alert({guild})", "/servers/{guild}"] {
            assert!(site_manage_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_link_is_a_label_and_an_address() {
        let link = SiteLink { label: "Help".to_owned(), url: "https://chat.example/a?b=c|d".to_owned() };
        assert_eq!(site_link("Help | https://chat.example/a?b=c|d"), Ok(link));
        for wrong in
            ["", "Help", "https://chat.example", "| https://chat.example", "Help | javascript:alert(1)", "Help |"]
        {
            assert!(site_link(wrong).is_err(), "{wrong}");
        }
    }
}
