//! Fuzz tests of the provider's responses.

use std::time::Duration;

use bolero::check;
use domain::Time;
use domain::picture::is_hash;
use http::StatusCode;
use secrecy::ExposeSecret;
use test_support::inputs::{ITERATIONS, near};

use super::verdict::{ProviderResponse, judge};
use super::{Endpoint, IdpErrorKind, wire};

const NOW: Time = Time::from_seconds(1_800_000_000);
const YEAR: Duration = Duration::from_hours(365 * 24);

#[test]
fn fuzz_grants() {
    const SAMPLES: &[&[u8]] = &[
        br#"{"access_token":"a","token_type":"Bearer","expires_in":604800,"refresh_token":"r","scope":"identify guilds"}"#,
        br#"{"access_token":"a.b-c","refresh_token":"r","expires_in":1e300}"#,
    ];
    check!().with_iterations(ITERATIONS).with_generator(near(SAMPLES)).for_each(|input| {
        let Ok(grant) = wire::grant(input, NOW) else { return };
        for token in [&grant.access_token, &grant.refresh_token] {
            let token = token.expose_secret();
            assert!((1..=4096).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic()));
        }
        assert!(grant.expires >= NOW && grant.expires <= NOW.after(YEAR));
    });
}

#[test]
fn fuzz_users() {
    const SAMPLES: &[&[u8]] = &[
        br#"{"id":"80351110224678912","username":"ada_l","global_name":"Ada","avatar":"a_0f"}"#,
        br#"{"id":"7","username":"a\u0000b","global_name":null}"#,
    ];
    check!().with_iterations(ITERATIONS).with_generator(near(SAMPLES)).for_each(|input| {
        let Ok(user) = wire::user(input) else { return };
        assert!(!user.username.is_empty() && !user.name.is_empty());
        assert!(!user.username.contains('\0') && !user.name.contains('\0'), "PostgreSQL cannot store it");
        let avatar = user.avatar.stored();
        assert!(avatar.starts_with("https://cdn.discordapp.com/") && avatar.is_ascii() && !avatar.contains(".."));
    });
}

#[test]
fn fuzz_guild_lists() {
    const SAMPLES: &[&[u8]] = &[
        br#"[{"id":"9007199254740993","permissions":"2147483647","owner":true,"name":"a","icon":"a_0f"},{"id":"5","permissions":32},{"id":"5"}]"#,
        br#"[{"id":"2","permissions":"18446744073709551624","name":"\u0000"},null,7]"#,
        b"[]",
    ];
    check!().with_iterations(ITERATIONS).with_generator(near(SAMPLES)).for_each(|input| {
        let Ok((guilds, _)) = wire::guilds(input) else { return };
        for (index, guild) in guilds.iter().enumerate() {
            assert!(guild.name.chars().count() <= 100 && !guild.name.contains('\0'));
            assert!(guild.icon.as_deref().is_none_or(is_hash));
            assert!(guilds[..index].iter().all(|other| other.id != guild.id), "a guild twice");
        }
    });
}

#[test]
fn fuzz_refusals() {
    const SAMPLES: &[&[u8]] = &[
        br#"{"error":"invalid_grant","error_description":"Invalid \"code\" in request."}"#,
        br#"{"retry_after":1.5,"global":true}"#,
        br#"{"code":50035,"errors":{"client_id":{"_errors":[]}}}"#,
        br#"{"redirect_uri":["Not a well formed URL."]}"#,
        b"<html>",
    ];
    check!().with_iterations(ITERATIONS).with_generator((near(SAMPLES), 201..600_u16, -2..4_000_i32)).for_each(
        |(body, status, retry_after)| {
            for endpoint in [Endpoint::Token, Endpoint::User, Endpoint::Guilds, Endpoint::Revoke] {
                let response = ProviderResponse {
                    status: StatusCode::from_u16(*status).unwrap(),
                    retry_after: Some(f64::from(*retry_after)),
                    body: body.clone(),
                };
                let (error, _) = judge(endpoint, response).unwrap_err();
                assert!(error.detail.len() < 120, "the log must not carry what the provider wrote: {}", error.detail);
                if let IdpErrorKind::RateLimited(span) = error.kind {
                    assert!((Duration::from_millis(100)..=Duration::from_hours(1)).contains(&span), "{span:?}");
                }
            }
        },
    );
}
