//! The database's clock. What is deleted because its time is over is compared with it in the same transaction, so that of several
//! replicas one with a wrong clock deletes nothing.

use domain::trusted_time::STEP;
use domain::{Time, saturating};

use super::{Database, Result, values};

/// By how many milliseconds this time is ahead of the database's, if that is more than a minute: then one of the clocks is wrong,
/// and nothing is deleted by it. A clock that is behind only deletes too little. SQLite has no clock of its own.
pub(crate) async fn ahead_by<D: Database>(db: &D, now: Time) -> Result<Option<i64>, D> {
    let sql = format!("SELECT ?1 - {}", D::WORDS.clock);
    let millis: Option<i64> = db.query_one(&sql, &values![now]).await?.get(0)?;
    Ok(millis.filter(|millis| *millis > saturating::to_i64(STEP.as_millis())))
}
