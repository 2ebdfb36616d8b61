//! What a failed statement means: whose fault it is, and what is to be done about it.

use std::fmt;

use tokio_postgres::error::SqlState;

use crate::store::StoreError;

/// What a statement gives.
pub(super) type Sql<T> = Result<T, SqlError>;

/// Why a statement failed.
#[derive(Debug)]
pub(super) struct SqlError(pub(super) tokio_postgres::Error);

impl From<tokio_postgres::Error> for SqlError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self(error)
    }
}

impl fmt::Display for SqlError {
    /// Names tables and columns, never values: those are in the details, which stay out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(error) = self.0.as_db_error() {
            return write!(f, "{} ({})", error.message(), error.code().code());
        }
        self.0.fmt(f)?;
        std::error::Error::source(&self.0).map_or(Ok(()), |why| write!(f, ": {why}"))
    }
}

/// What is to be done about a failed statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Try again: the transaction lost against another.
    Again,
    /// Come back later: the database has too much to do.
    Later,
    /// Come back later, on another connection: this one leads nowhere.
    Elsewhere,
    /// Nothing: trying again will not mend it.
    Never,
}

impl SqlError {
    pub(super) fn remedy(&self) -> Remedy {
        let Some(code) = self.0.code() else {
            // Not the database's word: the connection broke, or what we read is not what we expected.
            let source = std::error::Error::source(&self.0);
            let broken = self.0.is_closed() || source.is_some_and(<dyn std::error::Error>::is::<std::io::Error>);
            return if broken { Remedy::Elsewhere } else { Remedy::Never };
        };
        match code.code().get(..2).unwrap_or_default() {
            _ if [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code) => Remedy::Again,
            // A primary that became a standby, one that is stopping or starting, a broken line.
            _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Remedy::Elsewhere,
            _ if *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => Remedy::Elsewhere,
            _ if *code == SqlState::QUERY_CANCELED => Remedy::Later,
            "57" | "08" => Remedy::Elsewhere,
            // No room, or a lock that did not come in time.
            "53" | "55" | "58" => Remedy::Later,
            _ => Remedy::Never,
        }
    }

    /// Whether the database has no room: for another connection, say. It is there all the same.
    pub(super) fn is_for_want_of_room(&self) -> bool {
        self.0.code().is_some_and(|code| code.code().starts_with("53"))
    }

    /// Whether a row was there already.
    pub(super) fn is_duplicate(&self) -> bool {
        self.0.code() == Some(&SqlState::UNIQUE_VIOLATION)
    }

    pub(super) fn into_store_error(self) -> StoreError {
        match self.remedy() {
            Remedy::Never => StoreError::Failed(self.to_string()),
            Remedy::Again | Remedy::Later => StoreError::Busy(self.to_string()),
            Remedy::Elsewhere => StoreError::Unavailable(self.to_string()),
        }
    }
}
