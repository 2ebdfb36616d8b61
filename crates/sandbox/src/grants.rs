//! The sandbox's codes and tokens: who got which, and whether they are still valid.
//!
//! A token says itself whose it is, and is signed. With a key that is kept, it outlives the sandbox, so that a restart of `dev`
//! signs nobody out. What was revoked or used up is only known until then.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::{Time, token};
use runtime::random;
use serde::{Deserialize, Serialize};

const CODE_LIFE: Duration = Duration::from_secs(100);
/// How long an access token is valid: a week.
pub(super) const ACCESS_LIFE: Duration = Duration::from_hours(7 * 24);
const ACCESS: &str = "sandboxaccess_";
const REFRESH: &str = "sandboxrefresh_";
/// How many codes and used tokens are remembered: a sandbox that runs for weeks must not grow.
const REMEMBERED: usize = 200_000;

/// What was requested with a code.
#[derive(Clone, Debug, Default)]
pub(super) struct Terms {
    pub(super) scope: String,
    pub(super) redirect_uri: Option<String>,
    pub(super) challenge: Option<Challenge>,
}

/// PKCE: what the verifier must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    Plain(String),
    S256(String),
}

impl Challenge {
    fn is_met_by(&self, verifier: Option<&str>) -> bool {
        let Some(verifier) = verifier else { return false };
        match self {
            Self::Plain(challenge) => challenge == verifier,
            Self::S256(challenge) => *challenge == URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes())),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodeRefusal {
    Code,
    RedirectUri,
    Verifier,
}

#[derive(Debug)]
pub(super) struct TokenPair {
    pub(super) access: String,
    pub(super) refresh: String,
    pub(super) scope: String,
}

#[derive(Debug)]
pub(super) struct IssuedTokens {
    key: hmac::Key,
    codes: Bounded<Code>,
    /// The numbers of the refresh tokens that are used up.
    used: Bounded<()>,
    /// The number of the newest token. Numbers are times in milliseconds, so that they grow across restarts.
    last: u64,
    ends: HashMap<String, Ends>,
}

#[derive(Debug)]
struct Code {
    person: String,
    terms: Terms,
    expires: Time,
}

/// What a token says.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    person: String,
    scope: String,
    number: u64,
    /// In seconds since 1970; never if there is none, as for a refresh token.
    expires: Option<u64>,
}

/// The newest tokens of a person that have ended, so that all of their tokens can end at once.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    all: u64,
    access: u64,
}

impl IssuedTokens {
    /// Signs with this key; the same one reads the tokens later.
    pub(super) fn new(key: &[u8], now: Time) -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, key),
            codes: Bounded::default(),
            used: Bounded::default(),
            last: now.millis(),
            ends: HashMap::new(),
        }
    }

    pub(super) fn issue_code(&mut self, person: &str, terms: Terms, now: Time) -> String {
        let code = secret("sandboxcode_");
        self.codes.insert(code.clone(), Code { person: person.to_owned(), terms, expires: now.after(CODE_LIFE) });
        code
    }

    /// Uses up the code, and returns its person and scope.
    pub(super) fn use_code(
        &mut self,
        code: &str,
        redirect_uri: Option<&str>,
        verifier: Option<&str>,
        now: Time,
    ) -> Result<(String, String), CodeRefusal> {
        let code = self.codes.map.remove(code).filter(|code| code.expires > now).ok_or(CodeRefusal::Code)?;
        if code.terms.redirect_uri.as_deref().is_some_and(|uri| Some(uri) != redirect_uri) {
            return Err(CodeRefusal::RedirectUri);
        }
        if code.terms.challenge.is_some_and(|challenge| !challenge.is_met_by(verifier)) {
            return Err(CodeRefusal::Verifier);
        }
        Ok((code.person, code.terms.scope))
    }

    pub(super) fn grant(&mut self, person: &str, scope: &str, now: Time) -> TokenPair {
        let access = self.issue(ACCESS, person, scope, Some(now.after(ACCESS_LIFE)), now);
        let refresh = self.issue(REFRESH, person, scope, None, now);
        TokenPair { access, refresh, scope: scope.to_owned() }
    }

    fn issue(&mut self, kind: &str, person: &str, scope: &str, expires: Option<Time>, now: Time) -> String {
        self.last = now.millis().max(self.last + 1);
        let token = Token {
            person: person.to_owned(),
            scope: scope.to_owned(),
            number: self.last,
            expires: expires.map(Time::seconds),
        };
        let text = URL_SAFE_NO_PAD.encode(serde_json::to_string(&token).unwrap_or_default());
        format!("{kind}{text}.{}", URL_SAFE_NO_PAD.encode(hmac::sign(&self.key, format!("{kind}{text}").as_bytes())))
    }

    /// What a token says, if it is one of ours.
    fn read(&self, kind: &str, token: &str) -> Option<Token> {
        let (text, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        hmac::verify(&self.key, text.as_bytes(), &signature).ok()?;
        let said = URL_SAFE_NO_PAD.decode(text.strip_prefix(kind)?).ok()?;
        serde_json::from_slice(&said).ok()
    }

    /// Uses up the refresh token for a new pair.
    pub(super) fn refresh(&mut self, refresh: &str, now: Time) -> Option<TokenPair> {
        let token = self.read(REFRESH, refresh)?;
        let number = token.number.to_string();
        if token.number <= self.ends(&token.person).all || self.used.map.contains_key(&number) {
            return None;
        }
        self.used.insert(number, ());
        Some(self.grant(&token.person, &token.scope, now))
    }

    /// The person behind an access token, if it is valid and has that scope.
    pub(super) fn person(&self, access: &str, scope: &str, now: Time) -> Option<String> {
        let token = self.read(ACCESS, access)?;
        let ends = self.ends(&token.person);
        let good = token.number > ends.all.max(ends.access) && token.expires? > now.seconds();
        let scoped = token.scope.split(' ').any(|granted| granted == scope);
        (good && scoped).then_some(token.person)
    }

    /// Ends every token of the person that this one belongs to.
    pub(super) fn revoke(&mut self, token: &str) {
        let found = self.read(ACCESS, token).or_else(|| self.read(REFRESH, token));
        // One that has ended has nothing left to end.
        if let Some(token) = found.filter(|token| token.number > self.ends(&token.person).all) {
            // The clock may have been set back since.
            self.last = self.last.max(token.number);
            self.revoke_all(&token.person);
        }
    }

    pub(super) fn revoke_all(&mut self, person: &str) {
        self.ends.entry(person.to_owned()).or_default().all = self.last;
    }

    pub(super) fn expire_access(&mut self, person: &str) {
        self.ends.entry(person.to_owned()).or_default().access = self.last;
    }

    fn ends(&self, person: &str) -> Ends {
        self.ends.get(person).copied().unwrap_or_default()
    }
}

/// A map that drops its oldest entries.
#[derive(Debug)]
struct Bounded<V> {
    map: HashMap<String, V>,
    order: VecDeque<String>,
}

impl<V> Default for Bounded<V> {
    fn default() -> Self {
        Self { map: HashMap::new(), order: VecDeque::new() }
    }
}

impl<V> Bounded<V> {
    fn insert(&mut self, key: String, value: V) {
        if self.order.len() >= REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.map.remove(&oldest);
        }
        self.order.push_back(key.clone());
        self.map.insert(key, value);
    }
}

fn secret(prefix: &str) -> String {
    format!("{prefix}{}", token::random_text(30, random::secret_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_seconds(1_700_000_000);

    #[test]
    fn a_code_works_once_in_time_and_on_its_terms() {
        let mut grants = IssuedTokens::new(b"key", NOW);
        let uri = "https://a.example/cb";
        let s256 = Challenge::S256("E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM".to_owned());
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let cases = [
            (None, None, None, None, Ok(())),
            (None, None, Some(uri), Some("ignored"), Ok(())),
            (Some(uri), None, Some(uri), None, Ok(())),
            (Some(uri), None, Some("https://a.example/"), None, Err(CodeRefusal::RedirectUri)),
            (Some(uri), None, None, None, Err(CodeRefusal::RedirectUri)),
            (None, Some(s256.clone()), None, Some(verifier), Ok(())),
            (None, Some(s256.clone()), None, Some("other"), Err(CodeRefusal::Verifier)),
            (None, Some(s256), None, None, Err(CodeRefusal::Verifier)),
            (None, Some(Challenge::Plain("p".to_owned())), None, Some("p"), Ok(())),
            (None, Some(Challenge::Plain("p".to_owned())), None, Some("q"), Err(CodeRefusal::Verifier)),
        ];
        for (asked, challenge, sent, verifier, expected) in cases {
            let terms = Terms { scope: "identify".to_owned(), redirect_uri: asked.map(str::to_owned), challenge };
            let code = grants.issue_code("ada", terms.clone(), NOW);
            let used = grants.use_code(&code, sent, verifier, NOW).map(|_| ());
            assert_eq!(used, expected, "{terms:?} {sent:?} {verifier:?}");
            assert_eq!(grants.use_code(&code, sent, verifier, NOW), Err(CodeRefusal::Code), "a code works once");
        }
        let code = grants.issue_code("ada", Terms::default(), NOW);
        assert_eq!(grants.use_code(&code, None, None, NOW.after(CODE_LIFE)), Err(CodeRefusal::Code));
    }

    #[test]
    fn tokens_end_when_they_should() {
        let mut grants = IssuedTokens::new(b"key", NOW);
        let good =
            |grants: &IssuedTokens, pair: &TokenPair, now| grants.person(&pair.access, "identify", now).is_some();
        let first = grants.grant("ada", "identify guilds", NOW);
        let other = grants.grant("bob", "identify", NOW);
        assert!(good(&grants, &first, NOW));
        assert_eq!(grants.person(&other.access, "guilds", NOW), None, "not granted");
        assert!(!good(&grants, &first, NOW.after(ACCESS_LIFE)));

        let second = grants.refresh(&first.refresh, NOW).unwrap();
        assert!(grants.refresh(&first.refresh, NOW).is_none(), "a refresh token works once");
        grants.expire_access("ada");
        assert!(!good(&grants, &second, NOW));
        let third = grants.refresh(&second.refresh, NOW).unwrap();
        assert!(good(&grants, &third, NOW));

        grants.revoke(&third.refresh);
        assert!(!good(&grants, &third, NOW));
        assert!(grants.refresh(&third.refresh, NOW).is_none());
        assert!(good(&grants, &other, NOW), "another person's stay good");
        let fourth = grants.grant("ada", "identify", NOW);
        grants.revoke(&first.access);
        assert!(good(&grants, &fourth, NOW), "a token that is over ends nothing more");
    }

    #[test]
    fn tokens_outlive_the_sandbox_with_the_key_and_cannot_be_made_without_it() {
        let mut grants = IssuedTokens::new(b"key", NOW);
        let pair = grants.grant("ada", "identify", NOW);
        let later = NOW.after(CODE_LIFE);
        let mut again = IssuedTokens::new(b"key", later);
        assert_eq!(again.person(&pair.access, "identify", NOW).as_deref(), Some("ada"));
        assert_eq!(again.person(&pair.refresh, "identify", NOW), None, "the other kind");
        let next = again.refresh(&pair.refresh, NOW).unwrap();
        assert_ne!(next.access, pair.access);
        again.revoke(&pair.access);
        assert_eq!(again.person(&next.access, "identify", NOW), None, "also what came later");
        let mut again = IssuedTokens::new(b"key", later);
        again.revoke_all("ada");
        assert_eq!(again.person(&pair.access, "identify", NOW), None);
        let again = IssuedTokens::new(b"key", NOW);
        let other = IssuedTokens::new(b"other", NOW);
        let forged = pair.access.replace("sandboxaccess_e", "sandboxaccess_f");
        for (grants, token) in
            [(&other, pair.access.as_str()), (&again, &forged), (&again, "sandboxaccess_x.y"), (&again, "")]
        {
            assert_eq!(grants.person(token, "identify", NOW), None, "{token}");
        }
    }
}
