//! `/auth`.

use serde::Serialize;
use utoipa::ToSchema;

use super::user::UserData;

/// How to send a user to the identity provider.
#[derive(Serialize, ToSchema)]
#[schema(as = SignInOptions)]
pub struct SignInOptions<'a> {
    /// The provider's consent page. Add `response_type=code`, the three values below, a `state` and a PKCE challenge to its
    /// query.
    #[schema(format = Uri)]
    pub authorize_url: &'a str,
    /// The application's client ID at the provider.
    pub client_id: &'a str,
    /// The scopes to ask for, separated by spaces.
    pub scope: &'a str,
    /// Where the provider sends the user back to: the address configured for the caller's origin, or the first one.
    #[schema(format = Uri)]
    pub redirect_uri: &'a str,
}

/// A new session.
#[derive(Serialize, ToSchema)]
pub struct NewSession {
    /// The session token. It is shown only once. Send it in the `Token` header.
    #[schema(pattern = "^bcs_[0-9A-Za-z]{36}$")]
    pub token: String,
    /// Who signed in.
    pub user: UserData,
}
