//! A sign-in at a replica that must have been tried before the test continues.

use super::{TestApp, eventually, on_postgres};

/// Begins a sign-in at this replica, and waits until it has tried to claim its code.
pub async fn claiming<T>(replica: &TestApp, begin: impl FnOnce() -> T) -> T {
    if on_postgres() {
        // It is stopped before the claims and then let through: the next one that locks the table comes after it.
        let (folder, lock) = (&replica.folder, "LOCK TABLE code_claims IN ACCESS EXCLUSIVE MODE");
        let held = folder.hold(lock).await;
        let begun = begin();
        eventually("it is before the claims", async || folder.waiting("SELECT settled").await == 1).await;
        drop(held);
        drop(folder.hold(lock).await);
        return begun;
    }
    let begun = begin();
    let everything = replica.app.config.limits.concurrent_requests;
    eventually("the replica is at it", async || replica.app.request_permits.available_permits() < everything).await;
    for _ in 0..3 {
        // Writes take turns, so once these are done, the replica has tried to claim the code.
        replica.app.sources.store.note_seen(vec![]).await.unwrap();
    }
    begun
}
