//! The client for a Discord-like provider: five calls, each guarded, with a timeout and a size limit for the response.

use std::time::Duration;

use domain::{ListedGuild, Time, User};
use reqwest::{Client, Method, RequestBuilder, Url, redirect};
use runtime::client_key::ClientKey;
use runtime::clock::Clock;
use runtime::host;
use secrecy::{ExposeSecret, SecretString};
use telemetry::log_throttle::Throttle;
use telemetry::traces::WorkSpan;

use super::failure_budget::Caller;
use super::guard::{CallOutcome, Guard, ProviderMetrics, ProviderState};
use super::verdict::{self, FailedCall, ProviderResponse};
use super::{Endpoint, Grant, IdpError, IdpErrorKind, wire};

/// The provider asks every client for an address in its `User-Agent`.
const CLIENT_URL: &str = "https://example.invalid/bot-companion";
/// Below the provider's own idle limit: a connection that it closes during a request costs a second one.
const IDLE: Duration = Duration::from_secs(30);
const MOST_BYTES: usize = 1024 * 1024;
const LONGEST_CODE: usize = 512;

#[derive(Clone, Debug)]
pub struct ProviderOptions {
    /// `idp.base_url`, without a trailing slash.
    pub base_url: String,
    /// `idp.client_id`
    pub client_id: String,
    /// `idp.client_secret`
    pub client_secret: SecretString,
    /// For a connection to the provider.
    pub connect_timeout: Duration,
    /// `idp.sign_in_timeout`: for every call except the list. The caller limits exchange and user together.
    pub sign_in_timeout: Duration,
    /// For reading a user's list.
    pub list_timeout: Duration,
    /// `idp.failure_budget`
    pub failure_budget: u32,
    /// Our own version, for the `User-Agent`.
    pub version: String,
    /// The time, for the guard and for the expiry of grants.
    pub clock: Clock,
}

#[derive(Debug)]
pub struct Provider {
    /// For reads. Reuses connections, so a request may meet one that the provider is closing.
    pooled: Client,
    /// Opens a connection for each request: for what works only once, and for a read whose connection broke.
    unpooled: Client,
    options: ProviderOptions,
    guard: Guard,
    /// Limits the reports about refusals.
    refusals: Throttle,
}

impl Provider {
    /// Builds the client without making a call. An error says which option cannot be used.
    pub fn new(mut options: ProviderOptions) -> Result<Self, IdpError> {
        let unusable = |detail: String| IdpError { kind: IdpErrorKind::Misconfigured, code_spent: false, detail };
        options.base_url.truncate(options.base_url.trim_end_matches('/').len());
        let base = Url::parse(&options.base_url).map_err(|error| unusable(format!("`idp.base_url`: {error}")))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(unusable("`idp.base_url` must begin with https:// or http://".to_owned()));
        }
        let client = |most_idle: usize| {
            let mut builder = Client::builder()
                .user_agent(format!("DiscordBot ({CLIENT_URL}, {})", options.version))
                .connect_timeout(options.connect_timeout)
                .pool_idle_timeout(IDLE)
                .pool_max_idle_per_host(most_idle)
                .redirect(redirect::Policy::none());
            // HTTPS_PROXY and NO_PROXY apply, as operators expect. But a proxy cannot reach this machine's loopback, and the
            // sandbox must work whatever the environment says.
            if is_loopback(&base) {
                builder = builder.no_proxy();
            }
            // Reading the system's certificates takes a while.
            if base.scheme() == "http" {
                builder = builder.tls_certs_only([]);
            }
            builder.build().map_err(|error| unusable(format!("the HTTP client cannot start: {}", cause(&error))))
        };
        let (pooled, unpooled) = (client(usize::MAX)?, client(0)?);
        let guard = Guard::new(options.clock.clone(), options.failure_budget);
        Ok(Self { pooled, unpooled, options, guard, refusals: Throttle::default() })
    }

    /// Whether this can be one of the provider's codes. Others are not sent, because an edge server in front of the provider
    /// may refuse odd characters in a way that counts against us.
    pub fn may_be_code(text: &[u8]) -> bool {
        text.len() <= LONGEST_CODE && is_unreserved(text)
    }

    /// Whether this can be a PKCE verifier, which has the same characters (RFC 7636, section 4.1).
    pub fn may_be_verifier(text: &[u8]) -> bool {
        text.len() <= LONGEST_CODE && is_unreserved(text)
    }

    /// Exchanges a code that came from this network for a grant; `None` if the network is exempt from limits. `redirect_uri` is
    /// the one that the code was requested with.
    pub async fn exchange(
        &self,
        network: Option<ClientKey>,
        code: &SecretString,
        verifier: Option<&SecretString>,
        redirect_uri: &str,
    ) -> Result<Grant, IdpError> {
        let mut form =
            vec![("grant_type", "authorization_code"), ("code", code.expose_secret()), ("redirect_uri", redirect_uri)];
        form.extend(verifier.map(|verifier| ("code_verifier", verifier.expose_secret())));
        self.grant(Caller::SignIn(network), &form).await
    }

    /// Exchanges a refresh token for the next grant. It works once, so two refreshes of one user must never run at the same
    /// time.
    pub async fn refresh(&self, refresh: &SecretString) -> Result<Grant, IdpError> {
        let form = [("grant_type", "refresh_token"), ("refresh_token", refresh.expose_secret())];
        self.grant(Caller::User, &form).await
    }

    /// Ends every grant of the token's user.
    pub async fn revoke(&self, token: &SecretString) -> Result<(), IdpError> {
        let request = self.post("/oauth2/token/revoke", &[("token", token.expose_secret())]);
        self.call(Endpoint::Revoke, Caller::User, request, |_| Ok(())).await
    }

    /// Who the access token of a sign-in from this network belongs to.
    pub async fn user(&self, network: Option<ClientKey>, access: &SecretString) -> Result<User, IdpError> {
        self.call(Endpoint::User, Caller::SignIn(network), self.get("/users/@me", access), wire::user).await
    }

    /// The guilds of the access token's user. Guilds that cannot be parsed are skipped.
    pub async fn guilds(&self, access: &SecretString) -> Result<Vec<ListedGuild>, IdpError> {
        let request = self.get("/users/@me/guilds", access);
        let (guilds, skipped) = self.call(Endpoint::Guilds, Caller::User, request, wire::guilds).await?;
        if skipped > 0 {
            tracing::warn!(
                skipped,
                "the identity provider's list contains guilds that cannot be parsed; skipping them"
            );
        }
        Ok(guilds)
    }

    /// Checks whether the provider can be reached and accepts our credentials, using a made-up code. It never returns `Ok`:
    /// [`IdpErrorKind::Rejected`] means that only the code was refused. Also returns the provider's time. None of it counts in
    /// the guard, which is for a running service.
    pub async fn probe(&self, redirect_uri: &str) -> (Option<Time>, Result<(), IdpError>) {
        let form =
            [("grant_type", "authorization_code"), ("code", "bot-companion-check"), ("redirect_uri", redirect_uri)];
        let request = self.post("/oauth2/token", &form).timeout(self.options.sign_in_timeout);
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => return (None, Err(interrupted(Endpoint::Token, &error).0)),
        };
        let date = response.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
        let date = date.and_then(|date| date.duration_since(std::time::UNIX_EPOCH).ok());
        let read = read(Endpoint::Token, response).await;
        let judged = read.and_then(|response| verdict::judge(Endpoint::Token, response));
        (date.map(|date| Time::from_seconds(date.as_secs())), judged.map(drop).map_err(|(error, _)| error))
    }

    /// Forgets every failure: no circuit is open, no limit lasts, no refusal counts.
    pub fn forget_failures(&self) {
        self.guard.reset();
    }

    pub fn metrics(&self) -> &ProviderMetrics {
        self.guard.metrics()
    }

    pub fn state(&self) -> ProviderState {
        self.guard.state()
    }

    async fn grant(&self, caller: Caller, form: &[(&str, &str)]) -> Result<Grant, IdpError> {
        let request = self.post("/oauth2/token", form);
        // The time before the call: a grant may count as a moment older than it is, never as newer.
        let now = self.options.clock.now();
        self.call(Endpoint::Token, caller, request, |body| wire::grant(body, now)).await
    }

    fn get(&self, path: &str, access: &SecretString) -> RequestBuilder {
        self.pooled.get(format!("{}{path}", self.options.base_url)).bearer_auth(access.expose_secret())
    }

    fn post(&self, path: &str, form: &[(&str, &str)]) -> RequestBuilder {
        let ProviderOptions { base_url, client_id, client_secret, .. } = &self.options;
        // reqwest marks both kinds of credentials as sensitive, so that no trace of the headers shows them.
        self.unpooled
            .post(format!("{base_url}{path}"))
            .basic_auth(client_id, Some(client_secret.expose_secret()))
            .form(form)
    }

    async fn call<T>(
        &self,
        endpoint: Endpoint,
        caller: Caller,
        request: RequestBuilder,
        read: impl FnOnce(&[u8]) -> Result<T, &'static str>,
    ) -> Result<T, IdpError> {
        let limit = match endpoint {
            Endpoint::Guilds => self.options.list_timeout,
            Endpoint::Token | Endpoint::User | Endpoint::Revoke => self.options.sign_in_timeout,
        };
        let permit = self.guard.enter(endpoint, caller, limit)?;
        let mut span = WorkSpan::begin(format!("provider {}", endpoint.name()));
        let result = self
            .send(endpoint, request.timeout(limit))
            .await
            .and_then(|response| verdict::judge(endpoint, response))
            .and_then(|body| read(&body).map_err(|what| verdict::unreadable(endpoint, what)));
        match result {
            Ok(value) => {
                permit.settle(CallOutcome::Healthy);
                // Only a success proves that they're right: a provider may reject the code before it checks our credentials.
                if endpoint.is_ours() && self.guard.note_credentials(false) {
                    tracing::info!("the identity provider accepts this service's credentials again");
                }
                Ok(value)
            }
            Err((error, outcome)) => {
                span.fail();
                permit.settle(outcome);
                if error.kind == IdpErrorKind::Misconfigured {
                    self.guard.note_credentials(true);
                }
                // Strangers can cause this as often as they like.
                if matches!(error.kind, IdpErrorKind::Misconfigured | IdpErrorKind::RedirectRefused)
                    && let Some(count) = self.refusals.count(self.options.clock.ticks())
                {
                    tracing::error!(
                        detail = error.detail,
                        count,
                        "the identity provider rejects this service: check idp.client_id and idp.client_secret, and that \
                         every idp.redirect_uri is registered there exactly as written"
                    );
                }
                Err(error)
            }
        }
    }

    /// Sends a read again if its connection broke before a response, because the provider may have been closing it.
    async fn send(&self, endpoint: Endpoint, request: RequestBuilder) -> Result<ProviderResponse, FailedCall> {
        let began = self.options.clock.ticks();
        let (client, request) = request.build_split();
        let request = request.map_err(|error| interrupted(endpoint, &error))?;
        let again = if request.method() == Method::GET { request.try_clone() } else { None };
        let mut sent = client.execute(request).await;
        if let (Err(error), Some(mut again)) = (&sent, again)
            && !error.is_connect()
            && !error.is_timeout()
        {
            let elapsed = self.options.clock.ticks().saturating_sub(began);
            if let Some(limit) = again.timeout_mut() {
                *limit = limit.saturating_sub(elapsed);
            }
            sent = self.unpooled.execute(again).await;
        }
        read(endpoint, sent.map_err(|error| interrupted(endpoint, &error))?).await
    }
}

async fn read(endpoint: Endpoint, mut response: reqwest::Response) -> Result<ProviderResponse, FailedCall> {
    let interrupted = |error: &reqwest::Error| interrupted(endpoint, error);
    let status = response.status();
    let header = response.headers().get(http::header::RETRY_AFTER);
    let retry_after = header.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| interrupted(&error))? {
        if body.len() + chunk.len() > MOST_BYTES {
            return Err(verdict::unreadable(endpoint, "more than 1 MiB"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(ProviderResponse { status, retry_after, body })
}

/// What an interrupted call means. Before the connection is established, no code can have been used up.
fn interrupted(endpoint: Endpoint, error: &reqwest::Error) -> FailedCall {
    let unsent = error.is_connect() || error.is_builder();
    let kind = if error.is_timeout() { IdpErrorKind::Timeout } else { IdpErrorKind::Unavailable };
    let what = match (error.is_connect(), error.is_timeout()) {
        (true, true) => "did not accept a connection in time".to_owned(),
        (true, false) => format!("cannot be reached: {}", cause(error)),
        (false, true) => "did not answer in time".to_owned(),
        (false, false) => format!("broke off: {}", cause(error)),
    };
    let detail = format!("the {} endpoint {what}", endpoint.name());
    (IdpError { kind, code_spent: !unsent, detail }, CallOutcome::Failed)
}

/// The innermost error, a few words from the system or TLS; the outer ones only repeat the address.
fn cause(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(inner) = innermost.source() {
        innermost = inner;
    }
    if innermost.is::<reqwest::Error>() {
        return "the request could not be made".to_owned();
    }
    innermost.to_string().escape_debug().take(200).collect()
}

fn is_unreserved(text: &[u8]) -> bool {
    text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(byte))
}

fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(|host| host::is_loopback(host.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(base_url: &str) -> ProviderOptions {
        ProviderOptions {
            base_url: base_url.to_owned(),
            client_id: "41771983423143937".to_owned(),
            client_secret: "client-secret".into(),
            connect_timeout: Duration::from_secs(3),
            sign_in_timeout: Duration::from_secs(12),
            list_timeout: Duration::from_secs(8),
            failure_budget: 1000,
            version: "0.0.0".to_owned(),
            clock: Clock::manual(Time::from_seconds(1_700_000_000)),
        }
    }

    #[test]
    fn settings_that_cannot_be_used_are_refused_at_once() {
        for base_url in ["", "discord", "ftp://a.example", "http://"] {
            assert!(Provider::new(options(base_url)).is_err(), "{base_url:?}");
        }
        let provider = Provider::new(options("http://a.example/api//")).unwrap();
        assert_eq!(provider.options.base_url, "http://a.example/api");
        assert!(!format!("{provider:?}").contains("client-secret"));
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for (url, expected) in [
            ("http://127.0.0.1:80", true),
            ("http://[::1]:80", true),
            ("http://localhost", true),
            ("https://discord.example", false),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}
