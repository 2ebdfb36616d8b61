//! `/auth`.

use serde::Serialize;
use utoipa::ToSchema;

use super::user::UserData;

/// A new session (2.2).
#[derive(Serialize, ToSchema)]
#[schema(as = Session)]
pub struct NewSession {
    /// The session token, shown this once. Send it in the header `Token`.
    #[schema(pattern = "^bcs_[0-9A-Za-z]{36}$")]
    pub token: String,
    /// Who signed in.
    pub user: UserData,
}
