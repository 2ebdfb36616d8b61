//! Several stores on one database.
