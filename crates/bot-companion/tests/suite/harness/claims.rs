//! Sign-ins at several replicas at once, of which each is to have tried before the test goes on.

use super::store::on_postgres;
use super::{TestApp, eventually};

/// Begins a sign-in at each of these replicas, and waits until each has tried to claim its code.
pub async fn claiming<T>(replicas: &[&TestApp], begin: impl FnOnce() -> T) -> T {
    let folder = &replicas[0].folder;
    if on_postgres() {
        // All are stopped before the claims, and then let through together: whoever comes to the table after them, comes last.
        let lock = "LOCK TABLE code_claims IN ACCESS EXCLUSIVE MODE";
        let held = folder.hold(lock).await;
        let begun = begin();
        let all = replicas.len();
        eventually("all are before the claims", async || folder.waiting("SELECT settled").await == all).await;
        drop(held);
        drop(folder.hold(lock).await);
        return begun;
    }
    let begun = begin();
    for replica in replicas {
        let everything = replica.app.config.limits.requests;
        eventually("the replica is at it", async || replica.app.in_work.available_permits() < everything).await;
        for _ in 0..3 {
            // Writes take turns: once these are through, the replica has tried to claim the code.
            replica.app.store.note_seen(vec![]).await.unwrap();
        }
    }
    begun
}
