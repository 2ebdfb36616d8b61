//! The options in use, and where each came from.

use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::{Layers, RawValue, SECRETS};
use crate::config::value::store_url;

/// An option in use.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveValue {
    /// Its name, like `http.listen`.
    pub option: String,
    /// Its value as given; secrets are hidden.
    pub value: Value,
    /// Where it came from: `default`, `FILE:LINE`, or a variable.
    pub source: String,
}

impl Layers {
    /// Every option, by name. An undocumented one is only there if it is set.
    pub(in crate::config) fn effective(&self) -> Vec<EffectiveValue> {
        let listed = self.given.iter().filter(|(key, _)| self.is_documented(key) || self.is_set(key));
        let last = listed.filter_map(|(key, given)| Some((key, given.last()?)));
        let shown = last.map(|(key, given)| EffectiveValue {
            option: key.clone(),
            value: if SECRETS.contains(&key.as_str()) { hidden(&given.value) } else { shown(&given.value) },
            source: match given.location.text.as_str() {
                "" => "default".to_owned(),
                place => place.to_owned(),
            },
        });
        shown.collect()
    }
}

fn shown(value: &RawValue) -> Value {
    match value {
        RawValue::Text(text) | RawValue::Plain(text) => json!(text),
        RawValue::Number(Some(number), _) => json!(number),
        RawValue::Number(None, shown) | RawValue::Other(shown) => json!(shown),
        RawValue::List(items) => items.iter().map(|item| shown(&item.value)).collect(),
    }
}

/// For a secret, only whether there is one; for the store's URL, everything but the password.
fn hidden(value: &RawValue) -> Value {
    match value {
        RawValue::List(items) if items.is_empty() => json!([]),
        RawValue::Text(text) | RawValue::Plain(text) if text.is_empty() => json!(""),
        // Only a URL passes this, and one that isn't a database's has no password.
        RawValue::Text(text) | RawValue::Plain(text) => match store_url(text) {
            Ok(url) => json!(without_password(url.expose_secret())),
            Err(_) => json!(HIDDEN),
        },
        _ => json!(HIDDEN),
    }
}

const HIDDEN: &str = "(hidden)";

pub(super) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (address, query) = rest.split_once('?').map_or((rest, None), |(address, query)| (address, Some(query)));
    let address = match address.rsplit_once('@') {
        None => address.to_owned(),
        Some((user, host)) => match user.split_once(':') {
            None => format!("{user}@{host}"),
            Some((user, _)) => format!("{user}:{HIDDEN}@{host}"),
        },
    };
    let pair = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if name.to_lowercase().contains("pass") => format!("{name}={HIDDEN}"),
        _ => pair.to_owned(),
    };
    let query = query.map(|query| query.split('&').map(pair).collect::<Vec<_>>().join("&"));
    query.map_or_else(|| format!("{scheme}://{address}"), |query| format!("{scheme}://{address}?{query}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_of_a_url_is_shown() {
        for (url, shown) in [
            ("sqlite:/data/a.db", "sqlite:/data/a.db"),
            (
                "postgres://me:hush@one:5433,two/data?sslmode=require",
                "postgres://me:(hidden)@one:5433,two/data?sslmode=require",
            ),
            ("postgres://me@one/data", "postgres://me@one/data"),
            ("postgres://me:hu:sh@one/data", "postgres://me:(hidden)@one/data"),
            ("postgres://me:hu@sh@one/data", "postgres://me:(hidden)@one/data"),
            ("postgres://me:hu/sh@one/data", "postgres://me:(hidden)@one/data"),
            ("postgres://one/data?user=me&password=hush", "postgres://one/data?user=me&password=(hidden)"),
        ] {
            assert_eq!(hidden(&RawValue::Plain(url.to_owned())), json!(shown));
        }
        assert_eq!(hidden(&RawValue::Text("one:hush".to_owned())), json!("(hidden)"));
        assert_eq!(hidden(&RawValue::Text(String::new())), json!(""));
        assert_eq!(hidden(&RawValue::Other("hush".to_owned())), json!("(hidden)"));
    }
}
