//! What only the SQLite store can get wrong: its file, its writer and readers, the cost of its statements. The tests of the
//! trait are in `store::tests`.

mod erasure;
mod files;
mod flow;
mod statements;

use std::time::Duration;

use domain::Time;

use crate::Topic;
use crate::tests::*;

async fn sqlite() -> Fixture {
    Fixture::of_sqlite(Duration::from_mins(1)).await
}
