//! What a failed statement, or a failed piece of work, means: whose fault it is, and what to do about it.

use std::{fmt, io};

use tokio_postgres::error::SqlState;

use super::advice;
use crate::StoreError;
use crate::sql::Unreadable;

pub(crate) type Sql<T> = Result<T, SqlError>;

#[derive(Debug)]
pub(crate) enum SqlError {
    Driver(tokio_postgres::Error),
    Unreadable(Unreadable),
}

impl From<tokio_postgres::Error> for SqlError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Driver(error)
    }
}

impl From<Unreadable> for SqlError {
    fn from(error: Unreadable) -> Self {
        Self::Unreadable(error)
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver(error) => f.write_str(&text_of(error)),
            Self::Unreadable(error) => error.fmt(f),
        }
    }
}

/// Names tables and columns, never values: those are in the details, which are left out.
pub(super) fn text_of(error: &tokio_postgres::Error) -> String {
    let source = std::error::Error::source(error);
    let text = match (error.as_db_error(), source) {
        (Some(said), _) => format!("{} ({})", said.message(), said.code().code()),
        (None, Some(why)) => format!("{error}: {why}"),
        (None, None) => error.to_string(),
    };
    let kind = source.and_then(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind);
    match advice::of(error.code().map(SqlState::code), kind, &text) {
        Some(advice) => format!("{text}; {advice}"),
        None => text,
    }
}

/// What to do about a failed statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Retry: the transaction lost to another one.
    Again,
    /// Come back later: the database has too much to do.
    Later,
    /// Come back later on another connection: this one leads nowhere.
    Elsewhere,
    /// Nothing: retrying will not fix it.
    Never,
    /// An operator has to act: rows or an index are damaged.
    Restore,
}

/// Refused, no answer, no such host, no such socket: the server may be about to start.
fn io_may_pass(error: &io::Error) -> bool {
    match error.kind() {
        // An untrusted certificate.
        io::ErrorKind::InvalidData => false,
        // The operating system says so: a socket that we may not use. The driver says the same about a server that accepts no
        // writes, which is the case for a standby until it is promoted.
        io::ErrorKind::PermissionDenied => error.raw_os_error().is_none(),
        _ => true,
    }
}

impl SqlError {
    fn driver(&self) -> Option<&tokio_postgres::Error> {
        match self {
            Self::Driver(error) => Some(error),
            Self::Unreadable(_) => None,
        }
    }

    /// What the database said.
    pub(super) fn code(&self) -> Option<&SqlState> {
        self.driver().and_then(tokio_postgres::Error::code)
    }

    pub(super) fn into_driver_error(self) -> Option<tokio_postgres::Error> {
        match self {
            Self::Driver(error) => Some(error),
            Self::Unreadable(_) => None,
        }
    }

    pub(super) fn remedy(&self) -> Remedy {
        let Self::Driver(error) = self else { return Remedy::Never };
        let Some(code) = error.code() else {
            // The database said nothing: the connection broke, or what we read is not what we expected.
            let source = std::error::Error::source(error);
            let broken = error.is_closed() || source.is_some_and(<dyn std::error::Error>::is::<std::io::Error>);
            return if broken { Remedy::Elsewhere } else { Remedy::Never };
        };
        match code.code().get(..2).unwrap_or_default() {
            _ if [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code) => Remedy::Again,
            // A primary that became a standby, one that is stopping or starting, or a broken connection.
            _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Remedy::Elsewhere,
            _ if *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => Remedy::Elsewhere,
            _ if *code == SqlState::QUERY_CANCELED => Remedy::Later,
            _ if [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED].contains(code) => Remedy::Restore,
            "57" | "08" => Remedy::Elsewhere,
            // No room, or a lock that did not come in time.
            "53" | "55" | "58" => Remedy::Later,
            _ => Remedy::Never,
        }
    }

    /// For a failed connection: whether another try may succeed without any change.
    pub(super) fn may_pass(&self) -> bool {
        if matches!(self.remedy(), Remedy::Never | Remedy::Restore) {
            // A wrong password, no such database, no TLS.
            return false;
        }
        let source = self.driver().and_then(std::error::Error::source).and_then(|source| source.downcast_ref());
        source.is_none_or(io_may_pass)
    }

    /// Whether the database has no room, for another connection for example, and so is there.
    pub(super) fn is_for_want_of_room(&self) -> bool {
        self.code().is_some_and(|code| code.code().starts_with("53"))
    }

    pub(super) fn is_duplicate(&self) -> bool {
        self.code() == Some(&SqlState::UNIQUE_VIOLATION)
    }
}

pub(super) enum WorkError {
    Unreachable(String),
    Busy(String),
    /// The connection led nowhere, and nothing was committed on it.
    NotDone(SqlError),
    Sql(SqlError),
}

impl From<SqlError> for WorkError {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

impl From<tokio_postgres::Error> for WorkError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error.into())
    }
}

impl From<SqlError> for StoreError {
    fn from(error: SqlError) -> Self {
        let why = error.to_string();
        match error.remedy() {
            Remedy::Never => Self::Failed(why),
            Remedy::Restore => Self::Damaged(why),
            Remedy::Again | Remedy::Later => Self::Busy(why),
            Remedy::Elsewhere => Self::Unavailable(why),
        }
    }
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        SqlError::from(error).into()
    }
}

impl From<WorkError> for StoreError {
    fn from(error: WorkError) -> Self {
        match error {
            WorkError::Unreachable(why) => Self::Unavailable(why),
            WorkError::Busy(why) => Self::Busy(why),
            WorkError::NotDone(error) | WorkError::Sql(error) => error.into(),
        }
    }
}
