//! Options that are valid but usually a mistake.

use super::{Config, ListenAddress, value};

impl Config {
    /// The risks of this configuration, each with what to do about it. `serve` warns about them, and `check` lists them.
    pub fn risks(&self) -> Vec<String> {
        let listen = &self.http.listen;
        let trusted = &self.http.trusted_proxies;
        let is_plain = self.tls.is_none() && trusted.is_empty();
        let is_public = self.site.url.as_ref().is_some_and(|url| url.starts_with("https://"));

        let mut risks = Vec::new();
        risks.extend(trusted.iter().filter(|network| network.is_everywhere()).map(|network| {
            format!(
                "http.trusted_proxies contains {network}, so any client can claim any address and has no rate limit: list \
                 only the addresses of your proxies"
            )
        }));
        if is_plain && !listen.is_local() {
            risks.push(format!(
                "http.listen ({listen}) takes plain HTTP from other machines, so sessions can be read on the way: set tls.cert \
                 and tls.key, or put a proxy in front and list its address in http.trusted_proxies"
            ));
        }
        if is_plain && listen.is_local() && is_public {
            risks.push(
                "site.url is https, so a proxy is in front of http.listen, but http.trusted_proxies doesn't list it: all \
                 visitors share one rate limit. Set http.trusted_proxies to [\"127.0.0.1\", \"::1\"]"
                    .to_owned(),
            );
        }
        risks.extend(self.admin.listen.map(ListenAddress::Tcp).filter(|listen| !listen.is_local()).map(|listen| {
            format!(
                "admin.listen ({listen}) is open to other machines and has no password: set it to an address on loopback, or \
                 let only your monitoring through the firewall"
            )
        }));
        // It's already a valid URL, so this only fails for http on another machine.
        let remote_http = self.idp.redirect_uri.iter().filter(|address| value::page_url(address).is_err());
        risks.extend(remote_http.map(|address| {
            format!("idp.redirect_uri: {address} is http, so anyone on the network can take over a sign-in: use https")
        }));
        risks
    }
}

#[cfg(test)]
mod tests {
    use super::super::Layer;
    use super::*;

    #[test]
    fn each_risk_is_named_by_its_option() {
        let tls = "tls.cert = \"a\"\ntls.key = \"b\"";
        let redirect = |address: &str| {
            let origin = value::origin_of(address).unwrap();
            format!("http.allowed_origins = \"{origin}\"\nidp.redirect_uri = \"{address}\"")
        };
        let table: &[(&str, &[&str])] = &[
            ("", &[]),
            ("http.trusted_proxies = \"10.0.0.0/8\"", &[]),
            ("http.trusted_proxies = [\"::/0\", \"0.0.0.0/0\"]", &["contains ::/0", "contains 0.0.0.0/0"]),
            ("http.listen = \"[::ffff:127.0.0.1]:80\"", &[]),
            ("http.listen = \"0.0.0.0:80\"", &["http.listen (0.0.0.0:80) takes plain HTTP"]),
            (&format!("http.listen = \"0.0.0.0:80\"\n{tls}"), &[]),
            ("http.listen = \"0.0.0.0:80\"\nhttp.trusted_proxies = \"10.0.0.1\"", &[]),
            ("site.url = \"http://127.0.0.1:8080\"", &[]),
            ("site.url = \"https://bot.example\"", &["all visitors share one rate limit"]),
            ("site.url = \"https://bot.example\"\nhttp.listen = \"unix:/s\"", &["all visitors share one rate limit"]),
            ("site.url = \"https://bot.example\"\nhttp.trusted_proxies = \"127.0.0.1\"", &[]),
            (&format!("site.url = \"https://bot.example\"\n{tls}"), &[]),
            ("admin.listen = \"off\"", &[]),
            ("admin.listen = \"[::1]:1\"", &[]),
            ("admin.listen = \"10.0.0.1:1\"", &["admin.listen (10.0.0.1:1) is open to other machines"]),
            (&redirect("https://a.example/callback"), &[]),
            (&redirect("http://localhost:3000/callback"), &[]),
            (&redirect("http://a.example/callback"), &["idp.redirect_uri: http://a.example/callback is http"]),
        ];
        for (text, expected) in table {
            let nothing = std::iter::empty::<(String, String)>();
            let risks = Config::load_over(&[Layer::new("test", *text)], None, nothing).unwrap().risks();
            assert_eq!(risks.len(), expected.len(), "{text}: {risks:?}");
            for (risk, part) in risks.iter().zip(*expected) {
                assert!(risk.contains(part), "{text}: {risk}");
            }
        }
    }
}
