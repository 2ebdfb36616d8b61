//! What is stored about one person, and how it is forgotten.

use domain::forgotten::UserHash;
use domain::{Snowflake, Time};

use super::{ChangedTopics, Database, Lock, Read, Result, ToValue, Value, forgotten, sessions};
use crate::Topic;
use crate::backup::value::CellValue;
use crate::person_places::{PLACES, counts};
use crate::upkeep::{Erased, PersonTraces};

/// What mentions a user outside their account.
pub(crate) async fn traces<D: Database>(db: &D, user: Snowflake) -> Result<PersonTraces, D> {
    let (counts, values) = counts(user, D::WORDS.to_json);
    let sql = format!(
        "{counts}, EXISTS (SELECT 1 FROM revocations WHERE user_id = ?1 AND grant_sealed IS NOT NULL),
            (SELECT since FROM forgotten_users WHERE user_hash = ?3)"
    );
    let row = db.query_one(&sql, &parameters(&values)).await?;
    let counts = (0..PLACES.len()).map(|index| row.get(index)).collect::<Read<Vec<u64>>>()?;
    let (has_grant_to_revoke, forgotten) = (row.get(PLACES.len())?, row.get(PLACES.len() + 1)?);
    Ok(PersonTraces { has_grant_to_revoke, forgotten, ..PersonTraces::counted(&counts) })
}

/// Forgets a user. A grant to be revoked at the provider mentions them until that is done.
pub(crate) async fn forget<D: Database>(
    db: &D,
    topics: &mut ChangedTopics,
    user: Snowflake,
    now: Time,
) -> Result<Erased, D> {
    db.lock(Lock::Feed).await?;
    let mut erased = Erased::default();
    erased.add("sessions", sessions::end_all_and_drop(db, topics, user, now).await? as u64);
    for place in PLACES {
        if let Some((sql, values)) = place.forget(user, D::WORDS.to_json) {
            erased.add(place.table, db.execute(&sql, &parameters(&values)).await? as u64);
        }
    }
    forgotten::add(db, UserHash::of(user), now).await?;
    topics.push(Topic::Everything);
    Ok(erased)
}

fn parameters(values: &[CellValue]) -> Vec<Value<'_>> {
    values.iter().map(CellValue::value).collect()
}
