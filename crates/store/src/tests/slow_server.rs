//! A server that is slow, comes up late, refuses, or says nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use domain::Change;

use super::proxy::{Behaviour, FaultyProxy};
use super::*;
use crate::{Result, StoreError, StoreOptions};

/// Never reached, unless a test fails.
const LONG: Duration = Duration::from_mins(5);

async fn open(database: &Database, url: &str, wait: Duration, start_wait: Duration) -> Result<Replica> {
    Replica::of_server(&StoreOptions { url: url.into(), wait, start_wait, ..database.options() }, new_freshness()).await
}

#[tokio::test]
async fn a_server_whose_answer_is_slow_to_come_is_waited_for() {
    let Some(database) = Database::new().await else { return };
    // Longer than the second after which another host would be tried.
    let slow = |number| if number == 0 { Behaviour::Late(Duration::from_secs(3)) } else { Behaviour::Pass };
    let proxy = FaultyProxy::in_front_of(&database.url(), slow).await;
    let replica = open(&database, &proxy.url(&database.url()), LONG, Duration::ZERO).await.unwrap();
    assert_eq!(replica.store.keys().await.unwrap(), []);
}

#[tokio::test]
async fn a_server_that_comes_up_after_the_process_is_waited_for() {
    let Some(database) = Database::new().await else { return };
    let late = |number| if number < 3 { Behaviour::Close } else { Behaviour::Pass };
    let proxy = FaultyProxy::in_front_of(&database.url(), late).await;
    let replica = open(&database, &proxy.url(&database.url()), LONG, LONG).await.unwrap();
    assert_eq!(replica.store.keys().await.unwrap(), []);

    let proxy = FaultyProxy::in_front_of(&database.url(), |_| Behaviour::Close).await;
    let gone = open(&database, &proxy.url(&database.url()), LONG, Duration::ZERO).await;
    let Err(StoreError::Unavailable(why)) = gone else { panic!("it was opened, or failed otherwise") };
    for part in [&format!("127.0.0.1:{}", proxy.port), "store.start_wait", "connect_timeout"] {
        assert!(why.contains(part), "{why}");
    }
    assert!(!why.contains("hush"), "{why}");
}

#[tokio::test]
async fn what_waiting_does_not_mend_ends_a_start_at_once() {
    let Some(database) = Database::new().await else { return };
    // A wrong password, an address that is not allowed, no such database, no right to connect, a role that may not.
    for code in ["28P01", "28000", "3D000", "42501", "0A000"] {
        let proxy = FaultyProxy::in_front_of(&database.url(), move |_| Behaviour::Says(code)).await;
        let Err(StoreError::Failed(why)) = open(&database, &proxy.url(&database.url()), LONG, LONG).await else {
            panic!("{code} was waited for")
        };
        assert!(
            why.contains(&format!("127.0.0.1:{}", proxy.port)) && why.contains(code) && !why.contains("hush"),
            "{why}"
        );
        assert_eq!(proxy.seen.load(Ordering::SeqCst), 1, "{code} was tried again");
    }
    // It is starting, stopping, full, temporarily closed, or out of memory.
    for code in ["57P03", "57P01", "53300", "55000", "53200"] {
        let says = move |number| if number == 0 { Behaviour::Says(code) } else { Behaviour::Pass };
        let proxy = FaultyProxy::in_front_of(&database.url(), says).await;
        let opened = open(&database, &proxy.url(&database.url()), LONG, LONG).await;
        assert!(opened.is_ok(), "{code}: {:?}", opened.err());
    }
}

#[tokio::test]
async fn a_silent_host_is_passed_over() {
    let Some(database) = Database::new().await else { return };
    let silent = FaultyProxy::in_front_of(&database.url(), |_| Behaviour::Silent).await;
    let good = FaultyProxy::in_front_of(&database.url(), |_| Behaviour::Pass).await;
    let both = good.url(&database.url()).replace("127.0.0.1", &format!("127.0.0.1:{},127.0.0.1", silent.port));
    let replica = open(&database, &both, LONG, Duration::ZERO).await.unwrap();
    assert_eq!(replica.store.keys().await.unwrap(), []);
    assert!(silent.seen.load(Ordering::SeqCst) > 0, "it was not tried");
}

#[tokio::test]
async fn work_is_not_given_up_while_anything_is_heard_from_the_server() {
    let Some(database) = Database::new().await else { return };
    let proxy = FaultyProxy::in_front_of(&database.url(), |_| Behaviour::Pass).await;
    // A new connection gets six of these seconds, which is enough for one small read on any machine.
    let replica = open(&database, &proxy.url(&database.url()), Duration::from_secs(8), LONG).await.unwrap();
    let held = database.outside().await;
    held.batch_execute("BEGIN; LOCK TABLE guilds IN EXCLUSIVE MODE").await.unwrap();
    let writer = Arc::clone(&replica.store);
    let writing = tokio::spawn(async move { writer.apply(vec![Change::Guild(guild(5))]).await });
    // It waits for the lock on one connection; reads have another.
    replica
        .eventually("it waits", async || {
            let waits =
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
            database.outside().await.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) > 0
        })
        .await;
    replica.store.keys().await.unwrap();
    // From here on the listener hears nothing, and no one can connect: the server is busy.
    proxy.listeners.send_replace(false);
    proxy.new_connections.send_replace(false);
    let before = proxy.seen.load(Ordering::SeqCst);
    replica.eventually("somebody tries to connect", async || proxy.seen.load(Ordering::SeqCst) > before).await;
    replica.store.keys().await.unwrap();
    let before = proxy.seen.load(Ordering::SeqCst);
    // The next try shows that the one before failed, and that the work is still there.
    replica.eventually("somebody tries again", async || proxy.seen.load(Ordering::SeqCst) > before).await;
    assert!(!writing.is_finished(), "it was given up");
    proxy.new_connections.send_replace(true);
    proxy.listeners.send_replace(true);
    held.batch_execute("COMMIT").await.unwrap();
    writing.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_server_that_falls_silent_is_noticed_and_found_again() {
    let Some(database) = Database::new().await else { return };
    let proxy = FaultyProxy::in_front_of(&database.url(), |_| Behaviour::Pass).await;
    let replica = open(&database, &proxy.url(&database.url()), Duration::from_secs(1), LONG).await.unwrap();
    for passes in [&proxy.all, &proxy.listeners, &proxy.new_connections] {
        passes.send_replace(false);
    }
    replica
        .eventually("the circuit is open", async || {
            let told = replica.store.keys().await;
            matches!(told, Err(StoreError::Unavailable(why)) if why.contains("a moment ago"))
        })
        .await;
    for passes in [&proxy.all, &proxy.listeners, &proxy.new_connections] {
        passes.send_replace(true);
    }
    replica.eventually("it is found again", async || replica.store.keys().await.is_ok()).await;
    replica.eventually("the cache is resumed", async || !replica.freshness.is_suspended()).await;
}
