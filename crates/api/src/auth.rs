//! `/auth`.

use serde::Serialize;
use utoipa::ToSchema;

use super::user::UserData;

/// How to send a user to the identity provider.
#[derive(Serialize, ToSchema)]
#[schema(as = SignInOptions)]
pub struct SignInOptions<'a> {
    /// The provider's page on which the user consents. Add `response_type=code`, the three values below, a `state` and a PKCE
    /// challenge to its query.
    #[schema(format = Uri)]
    pub authorize_url: &'a str,
    /// The id of the application at the provider.
    pub client_id: &'a str,
    /// The scopes to ask for, separated by blanks.
    pub scope: &'a str,
    /// Where the provider sends the user back to: the address that is configured for the origin that asks, else the first one.
    #[schema(format = Uri)]
    pub redirect_uri: &'a str,
}

/// A new session.
#[derive(Serialize, ToSchema)]
pub struct NewSession {
    /// The session token, shown this once. Send it in the header `Token`.
    #[schema(pattern = "^bcs_[0-9A-Za-z]{36}$")]
    pub token: String,
    /// Who signed in.
    pub user: UserData,
}
