//! The conditions for the service to run. This is the only list of them: `serve` goes through it before it opens anything,
//! `check` through the part about the configuration, and `check --live` through all of it.
//!
//! What `serve` finds out by doing it (binding a port, opening the store), `check --live` finds out by looking
//! (`live_check.rs`).

use std::net::{IpAddr, SocketAddr};

use runtime::clock::Clock;

use super::cautions;
use super::check_line::CheckLine;
use super::database;
use crate::app;
use crate::config::{Config, SitePart, keyfile, origin_of};
use crate::server::LoadedCertificate;
use crate::site::{self, dashboard};

/// The configuration, and the files it names.
pub(super) fn of_configuration(config: &Config) -> Vec<CheckLine> {
    let cautions = cautions::of(config).into_iter().map(|caution| CheckLine::warning("safety", caution));
    let checks = [listeners(config), certificate(config), site_files(config), preview(config), dashboard(config)];
    cautions.chain(checks.into_iter().flatten()).collect()
}

/// The state of this machine, as the service's user sees it.
pub(super) fn of_machine(config: &Config, may_start_empty: bool) -> Vec<CheckLine> {
    let database = if may_start_empty { None } else { database(config) };
    [database, place(config), key_file(config), provider(config)].into_iter().flatten().collect()
}

/// Whether the database is the one that its key belongs to.
fn database(config: &Config) -> Option<CheckLine> {
    database::refuse_lost(config).err().map(|lost| CheckLine::wrong("database", lost.to_string()))
}

/// Two listeners cannot share an address.
fn listeners(config: &Config) -> Option<CheckLine> {
    let (http, admin) = (config.http.listen.tcp()?, config.admin.listen?);
    if !overlap(http, admin) {
        return None;
    }
    let text = format!(
        "http.listen ({http}) and admin.listen ({admin}) conflict: give admin.listen another port, or set it \
         to \"off\""
    );
    // A default address that cannot be used is given up.
    Some(if config.admin.is_set { CheckLine::wrong("listeners", text) } else { CheckLine::warning("listeners", text) })
}

/// Whether the system refuses to listen on both. An unspecified address means all addresses, and that of IPv6 also means all of
/// IPv4.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |all: IpAddr, ip: IpAddr| all.is_unspecified() && (all.is_ipv6() || ip.is_ipv4());
    let port = one.port();
    let a = one.ip();
    let b = other.ip();
    port != 0 && port == other.port() && (a == b || covers(a, b) || covers(b, a))
}

fn certificate(config: &Config) -> Option<CheckLine> {
    let failed = LoadedCertificate::load(config.tls.as_ref()?).err()?;
    Some(CheckLine::wrong("certificate", failed.to_string()))
}

/// The site's pictures and texts.
fn site_files(config: &Config) -> Option<CheckLine> {
    let failed = site::check_files(&config.site).err()?;
    Some(CheckLine::wrong(if failed.is_picture() { "picture" } else { "site" }, failed.to_string()))
}

/// Chat apps only show pictures with absolute addresses.
fn preview(config: &Config) -> Option<CheckLine> {
    let is_useless = config.site.preview.is_some() && config.site.url.is_none();
    is_useless.then(|| {
        CheckLine::warning("preview", "nobody sees site.preview without site.url: set the site's public address")
    })
}

/// Whether people can sign in on the site's dashboard.
fn dashboard(config: &Config) -> Option<CheckLine> {
    let path = format!("{}{}", config.http.base_path, dashboard::PATH);
    let redirects = &config.idp.redirect_uri;
    let is_shown = config.site.enabled && !config.site.hide.contains(&SitePart::Dashboard);
    if !is_shown || redirects.iter().any(|uri| dashboard::leads_to(uri, &path)) {
        return None;
    }
    let Some(url) = &config.site.url else {
        let text = format!("the site's own dashboard is not used: no address in idp.redirect_uri leads to {path}");
        return Some(CheckLine::fine("dashboard", text));
    };
    let address = format!("{url}{}", dashboard::PATH);
    let origin = origin_of(url);
    let remedy = if redirects.contains(&address) {
        "it is in idp.redirect_uri, but the site isn't there: set http.base_path to the path of site.url"
    } else if redirects.iter().any(|uri| origin_of(uri) == origin) {
        "idp.redirect_uri already has an address on that origin, and only one per origin is allowed; replace it unless you have a \
         dashboard of your own"
    } else {
        "add it to idp.redirect_uri and its origin to http.allowed_origins, and register it at the provider"
    };
    Some(CheckLine::warning("dashboard", format!("nobody can sign in at {address}: {remedy}")))
}

/// The folder, the files and the disk of an SQLite store.
fn place(config: &Config) -> Option<CheckLine> {
    match store::look_at_place(&config.store.url) {
        Ok(caution) => caution.map(|text| CheckLine::warning("files", text)),
        Err(error) => Some(CheckLine::failed("files", error.to_string())),
    }
}

/// The key file next to the database. If it is missing, startup creates it.
fn key_file(config: &Config) -> Option<CheckLine> {
    let failed = keyfile::load(&config.key_file()?).err()?;
    Some(CheckLine::wrong("key file", failed.to_string()))
}

fn provider(config: &Config) -> Option<CheckLine> {
    let failed = app::provider(config, &Clock::system()).err()?;
    Some(CheckLine::wrong("provider", failed.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Layer;

    fn config(text: &str) -> Config {
        Config::load_over(&[Layer::new("test", text)], None, std::iter::empty::<(String, String)>()).unwrap()
    }

    #[test]
    fn listeners_overlap_as_the_system_sees_it() {
        for (one, other, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("[::]:80", "127.0.0.1:80", true),
            ("[::]:80", "0.0.0.0:80", true),
            ("0.0.0.0:80", "[::1]:80", false),
        ] {
            let (a, b) = (one.parse().unwrap(), other.parse().unwrap());
            assert_eq!((overlap(a, b), overlap(b, a)), (expected, expected), "{one} {other}");
        }
    }

    #[test]
    fn a_default_admin_address_that_is_taken_stops_nothing() {
        let line = listeners(&config("http.listen = \"127.0.0.1:9464\"")).unwrap();
        assert!(line.is_warning(), "{line:?}");
        let line = listeners(&config("http.listen = \"127.0.0.1:1\"\nadmin.listen = \"127.0.0.1:1\"")).unwrap();
        assert!(line.has_failed(), "{line:?}");
        assert_eq!(listeners(&config("http.listen = \"127.0.0.1:9464\"\nadmin.listen = \"off\"")), None);
    }

    #[test]
    fn the_dashboard_needs_a_redirect_address() {
        let of = |text: &str| dashboard(&config(text));
        let page = "http.allowed_origins = [\"https://bot.example\"]\nhttp.base_path = \"/api\"\nsite.url = \"https://bot.example/api\"";
        let redirect = |path: &str| format!("{page}\nidp.redirect_uri = \"https://bot.example{path}\"");
        assert_eq!(of(&redirect("/api/site/dashboard")), None);
        assert_eq!(of(&format!("{page}\nsite.enabled = false")), None);
        for (text, is_warning) in [(page.to_owned(), true), (redirect("/callback"), true), (String::new(), false)] {
            let line = of(&text).unwrap();
            assert!(line.is_warning() == is_warning && !line.has_failed(), "{text}: {line:?}");
            assert_eq!(line.text.contains("nobody can sign in at "), is_warning, "{line:?}");
        }
        let line = of(page).unwrap();
        assert!(line.text.contains("https://bot.example/api/site/dashboard: add it to idp.redirect_uri"), "{line:?}");
    }
}
