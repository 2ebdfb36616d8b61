//! Parses the provider's JSON into domain values. It is untrusted: what cannot be parsed is refused, never guessed.

use std::collections::HashSet;
use std::time::Duration;

use domain::picture::is_hash;
use domain::{ListedGuild, Snowflake, Time, User, text};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;

use super::Grant;
use crate::picture::avatar;

/// If the provider does not say how long a grant lasts: short, because refreshing a grant too early only costs one call.
const UNKNOWN_LIFE: f64 = 3600.0;
const LONGEST_LIFE: f64 = 365.0 * 24.0 * 3600.0;
const LONGEST_TOKEN: usize = 4096;
/// In characters: the provider's own limit for a guild's name.
const LONGEST_NAME: usize = 100;

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    refresh_token: String,
    token_type: Option<String>,
    expires_in: Option<f64>,
    #[serde(default)]
    scope: String,
}

#[derive(Deserialize)]
struct UserResponse {
    id: Snowflake,
    username: String,
    global_name: Option<String>,
    avatar: Option<String>,
}

pub(super) fn grant(body: &[u8], now: Time) -> Result<Grant, &'static str> {
    let response: TokenResponse = serde_json::from_slice(body).map_err(|_| "not a grant")?;
    let bearer = response.token_type.is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
    // Both are sent again in headers and forms.
    let usable =
        |token: &str| (1..=LONGEST_TOKEN).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic());
    if !bearer || !usable(&response.access_token) || !usable(&response.refresh_token) {
        return Err("a grant with unusable tokens");
    }
    let life = response.expires_in.unwrap_or(UNKNOWN_LIFE).clamp(0.0, LONGEST_LIFE);
    Ok(Grant {
        access_token: SecretString::from(response.access_token),
        refresh_token: SecretString::from(response.refresh_token),
        expires: now.after(Duration::from_secs_f64(life)),
        scopes: response.scope.split_whitespace().map(str::to_owned).collect(),
    })
}

pub(super) fn user(body: &[u8]) -> Result<User, &'static str> {
    let response: UserResponse = serde_json::from_slice(body).map_err(|_| "not a user")?;
    if response.username.is_empty() {
        return Err("a user without a name");
    }
    let username = text::storable(&response.username).into_owned();
    let name = response.global_name.filter(|name| !name.trim().is_empty());
    Ok(User {
        name: name.map_or_else(|| username.clone(), |name| text::storable(&name).into_owned()),
        username,
        id: response.id,
        avatar: avatar(response.id, response.avatar.as_deref()),
    })
}

/// Every guild that can be parsed, and how many cannot.
pub(super) fn guilds(body: &[u8]) -> Result<(Vec<ListedGuild>, usize), &'static str> {
    let entries: Vec<Value> = serde_json::from_slice(body).map_err(|_| "not a list of guilds")?;
    let total = entries.len();
    let readable: Vec<ListedGuild> = entries.iter().filter_map(guild).collect();
    let skipped = total - readable.len();
    let mut seen = HashSet::new();
    Ok((readable.into_iter().filter(|guild| seen.insert(guild.id)).collect(), skipped))
}

fn guild(entry: &Value) -> Option<ListedGuild> {
    let id = entry["id"].as_str()?.parse().ok()?;
    // The list is about membership; permission bits that cannot be parsed grant nothing.
    let permissions = entry["permissions"].as_str().and_then(low_bits).or(entry["permissions"].as_u64()).unwrap_or(0);
    let name: String = entry["name"].as_str().unwrap_or_default().chars().take(LONGEST_NAME).collect();
    let icon = entry["icon"].as_str().filter(|hash| is_hash(hash)).map(str::to_owned);
    Some(ListedGuild { id, permissions, name: text::storable(&name).into_owned(), icon })
}

/// The low 64 bits of a decimal number of any length: the provider may grow past 64 bits, but those we read are far below.
fn low_bits(decimal: &str) -> Option<u64> {
    if decimal.is_empty() {
        return None;
    }
    decimal.bytes().try_fold(0_u64, |bits, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(bits.wrapping_mul(10).wrapping_add(digit))
    })
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    const NOW: Time = Time::from_seconds(1_700_000_000);

    #[test]
    fn a_grant_is_read_or_refused() {
        let good = br#"{"access_token":"a","token_type":"Bearer","expires_in":604800,"refresh_token":"r","scope":" identify  guilds "}"#;
        let read = grant(good, NOW).unwrap();
        assert_eq!(read.expires, NOW.after(Duration::from_hours(7 * 24)));
        assert_eq!(read.scopes, ["identify", "guilds"]);
        assert_eq!((read.access_token.expose_secret(), read.refresh_token.expose_secret()), ("a", "r"));
        assert!(!format!("{read:?}").contains("\"a\""));
        for bad in [
            r#"{"access_token":"a"}"#,
            r#"{"refresh_token":"r"}"#,
            r#"{"access_token":"","refresh_token":"r"}"#,
            r#"{"access_token":"a\r\nX: y","refresh_token":"r"}"#,
            r#"{"access_token":"a","refresh_token":"r","token_type":"mac"}"#,
            r#"{"access_token":1,"refresh_token":"r"}"#,
            "[]",
            "<html>",
            "",
        ] {
            assert!(grant(bad.as_bytes(), NOW).is_err(), "{bad}");
        }
    }

    #[test]
    fn odd_lifetimes_are_tamed() {
        for (expires_in, seconds) in [
            ("", 3600),
            (",\"expires_in\":null", 3600),
            (",\"expires_in\":-5", 0),
            (",\"expires_in\":1e300", 31_536_000),
        ] {
            let body = format!(r#"{{"access_token":"a","refresh_token":"r"{expires_in}}}"#);
            assert_eq!(grant(body.as_bytes(), NOW).unwrap().expires.since(NOW).as_secs(), seconds, "{expires_in}");
        }
    }

    #[test]
    fn a_user_is_named_by_display_name_then_username() {
        for (global, name) in [(r#""Ada""#, "Ada"), ("null", "ada_l"), (r#""  ""#, "ada_l")] {
            let body =
                format!(r#"{{"id":"80351110224678912","username":"ada_l","global_name":{global},"avatar":null}}"#);
            assert_eq!(user(body.as_bytes()).unwrap().name, name);
        }
        assert_eq!(user(br#"{"id":"80351110224678912","username":"ada_l"}"#).unwrap().name, "ada_l");
        let odd = user(br#"{"id":"1","username":"a\u0000b","global_name":"\u0000"}"#).unwrap();
        assert_eq!((odd.username.as_str(), odd.name.as_str()), ("a\u{fffd}b", "\u{fffd}"), "every store can hold it");
        for bad in
            [r#"{"id":80351110224678912,"username":"x"}"#, r#"{"username":"x"}"#, r#"{"id":"1","username":""}"#, "null"]
        {
            assert!(user(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn one_broken_guild_does_not_break_the_list() {
        let body = br#"[
            {"id":"9007199254740993","permissions":"2147483647","owner":true,"name":"a"},
            {"id":"zero","permissions":"8"}, null, 7, {"name":"no id"},
            {"id":"2","permissions":"18446744073709551624"},
            {"id":"3","permissions":"-1"}, {"id":"4"}, {"id":"5","permissions":32},
            {"id":"2","permissions":"0"}
        ]"#;
        let (read, skipped) = guilds(body).unwrap();
        let bits: Vec<_> = read.iter().map(|guild| (guild.id.get(), guild.permissions)).collect();
        assert_eq!(bits, [(9_007_199_254_740_993, 2_147_483_647), (2, 8), (3, 0), (4, 0), (5, 32)]);
        assert_eq!(skipped, 4);
        assert!(guilds(b"{}").is_err());
        assert_eq!(guilds(b"[]"), Ok((vec![], 0)));
    }
}
