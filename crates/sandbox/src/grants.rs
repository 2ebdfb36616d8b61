//! The sandbox's codes and tokens: who got which, and whether they are still valid.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::{Time, token};
use runtime::random;

const CODE_LIFE: Duration = Duration::from_secs(100);
/// How long an access token is valid: a week.
pub(super) const ACCESS_LIFE: Duration = Duration::from_hours(7 * 24);
/// How many codes and tokens of each kind are remembered: a sandbox that runs for weeks must not grow.
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

#[derive(Debug, Default)]
pub(super) struct IssuedTokens {
    codes: Bounded<Code>,
    access: Bounded<Token>,
    refresh: Bounded<Token>,
    eras: HashMap<String, Era>,
}

#[derive(Debug)]
struct Code {
    person: String,
    terms: Terms,
    expires: Time,
}

#[derive(Debug)]
struct Token {
    person: String,
    scope: String,
    era: Era,
    expires: Time,
}

/// Tokens are only valid in the era they were created in, so starting another one ends all of a person's tokens immediately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Era {
    grant: u64,
    access: u64,
}

impl IssuedTokens {
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
        let pair =
            TokenPair { access: secret("sandboxaccess_"), refresh: secret("sandboxrefresh_"), scope: scope.to_owned() };
        let era = self.era(person);
        let token = |expires| Token { person: person.to_owned(), scope: pair.scope.clone(), era, expires };
        self.access.insert(pair.access.clone(), token(now.after(ACCESS_LIFE)));
        self.refresh.insert(pair.refresh.clone(), token(Time::from_millis(u64::MAX)));
        pair
    }

    /// Uses up the refresh token for a new pair.
    pub(super) fn refresh(&mut self, refresh: &str, now: Time) -> Option<TokenPair> {
        let token = self.refresh.map.remove(refresh)?;
        let good = token.era.grant == self.era(&token.person).grant;
        good.then(|| self.grant(&token.person, &token.scope, now))
    }

    /// The person behind an access token, if it is valid and has that scope.
    pub(super) fn person(&self, access: &str, scope: &str, now: Time) -> Option<String> {
        let token = self.access.map.get(access)?;
        let good = token.era == self.era(&token.person) && token.expires > now;
        let scoped = token.scope.split(' ').any(|granted| granted == scope);
        (good && scoped).then(|| token.person.clone())
    }

    /// Ends every token of the person that this one belongs to.
    pub(super) fn revoke(&mut self, token: &str) {
        let found = self.access.map.get(token).or_else(|| self.refresh.map.get(token));
        // A token of a past era has nothing left to end.
        let person =
            found.filter(|token| token.era.grant == self.era(&token.person).grant).map(|token| token.person.clone());
        if let Some(person) = person {
            self.revoke_all(&person);
        }
    }

    pub(super) fn revoke_all(&mut self, person: &str) {
        self.eras.entry(person.to_owned()).or_default().grant += 1;
    }

    pub(super) fn expire_access(&mut self, person: &str) {
        self.eras.entry(person.to_owned()).or_default().access += 1;
    }

    fn era(&self, person: &str) -> Era {
        self.eras.get(person).copied().unwrap_or_default()
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
        let mut grants = IssuedTokens::default();
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
        let mut grants = IssuedTokens::default();
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
}
