//! What operators want from the metrics: how long provider and store take, how busy the service is, how large the store has
//! become, when the last backup was taken, whether the last reload succeeded, and whether the audit is complete.

use std::time::Duration;

use domain::Time;
use domain::audit::AuditKind;
use provider::idp::Endpoint;
use serde_json::Value;
use telemetry::metrics::{Label, StoreAccess, StoreOutcome};

use crate::admin::{Scraped, Watcher};
use crate::harness::binary::{command, config_file, run};
use crate::harness::{Disk, TestApp, eventually, on_postgres};
use crate::reload::reload;

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test]
async fn calls_of_the_provider_are_timed() {
    let app = TestApp::start().await;
    let watcher = Watcher::of(&app);
    let count = |call: &str| format!("companion_provider_call_duration_seconds_count{{call=\"{call}\"}}");
    let within =
        |seconds: &str| format!("companion_provider_call_duration_seconds_bucket{{call=\"token\",le=\"{seconds}\"}}");
    let scraped = watcher.scrape().await;
    for call in Endpoint::ALL {
        assert_eq!(scraped.value(&count(call.text())), Some(0.0), "there from the start");
    }
    let hold = app.sandbox.hold(Endpoint::Token);
    let signing_in = tokio::spawn(app.anon().post("/auth").header("Idp-Code", app.sandbox.issue_code("owner")).send());
    hold.arrived(1).await;
    app.clock.advance(Duration::from_secs(4));
    hold.release();
    assert_eq!(signing_in.await.unwrap().status, 200);
    let scraped = watcher.scrape().await;
    assert_eq!((scraped.value(&count("token")), scraped.value(&count("user"))), (Some(1.0), Some(1.0)));
    assert_eq!((scraped.value(&within("2.5")), scraped.value(&within("5"))), (Some(0.0), Some(1.0)));
    assert_eq!(scraped.value(&count("revoke")), Some(0.0));
    // The second time, the service refuses the code itself; a call that isn't made takes no time.
    for _ in 0..2 {
        app.sign_in("refused").await.refused(401, "idp_code_rejected");
    }
    assert_eq!(watcher.scrape().await.value(&count("token")), Some(2.0));
}

#[tokio::test]
async fn each_read_and_write_of_the_store_is_timed() {
    let app = TestApp::start().await;
    let watcher = Watcher::of(&app);
    let owner = app.user("owner").await;
    owner.guilds().await;
    let timed = |scraped: &Scraped, kind: StoreAccess| {
        let series = format!("companion_store_operation_duration_seconds_count{{kind=\"{}\"}}", kind.text());
        scraped.value(&series)
    };
    let counted = |scraped: &Scraped, kind: StoreAccess| {
        let of = |outcome: &StoreOutcome| {
            let (kind, outcome) = (kind.text(), outcome.text());
            scraped
                .value(&format!("companion_store_operations_total{{kind=\"{kind}\",outcome=\"{outcome}\"}}"))
                .unwrap()
        };
        StoreOutcome::ALL.iter().map(of).sum::<f64>()
    };
    for kind in StoreAccess::ALL {
        eventually("all are timed, and none that was not counted", async || {
            let scraped = watcher.scrape().await;
            counted(&scraped, *kind) >= 1.0 && timed(&scraped, *kind) == Some(counted(&scraped, *kind))
        })
        .await;
    }
}

#[tokio::test]
async fn requests_in_flight_stand_beside_their_limit() {
    let app = TestApp::builder().set("limits.concurrent_requests = 7").start().await;
    let watcher = Watcher::of(&app);
    let of = |pool: &str| format!("companion_requests_in_flight{{pool=\"{pool}\"}}");
    let limit = |pool: &str| format!("companion_requests_in_flight_limit{{pool=\"{pool}\"}}");
    let scraped = watcher.scrape().await;
    assert_eq!((scraped.value(&of("people")), scraped.value(&of("bot"))), (Some(0.0), Some(0.0)));
    assert_eq!((scraped.value(&limit("people")), scraped.value(&limit("bot"))), (Some(7.0), Some(128.0)));
    let hold = app.sandbox.hold(Endpoint::Token);
    let sign_in = || tokio::spawn(app.anon().post("/auth").header("Idp-Code", app.sandbox.issue_code("owner")).send());
    let busy = [sign_in(), sign_in()];
    hold.arrived(2).await;
    let scraped = watcher.scrape().await;
    assert_eq!((scraped.value(&of("people")), scraped.value(&of("bot"))), (Some(2.0), Some(0.0)));
    let mut changed = app.app.config.clone();
    changed.limits.concurrent_requests = 1;
    app.app.apply(&changed, None);
    let scraped = watcher.scrape().await;
    assert_eq!(scraped.value(&limit("people")), Some(1.0), "what a reload has set");
    assert_eq!(scraped.value(&of("people")), Some(2.0), "what runs goes on");
    hold.release();
    for request in busy {
        assert_eq!(request.await.unwrap().status, 200);
    }
    watcher.sees(&of("people"), 0.0).await;
}

#[tokio::test]
async fn the_size_of_the_store_is_told() {
    let app = TestApp::start().await;
    let watcher = Watcher::of(&app);
    let (database, log) = ("companion_store_bytes{part=\"database\"}", "companion_store_bytes{part=\"log\"}");
    let scraped = watcher.scrape().await;
    assert!(scraped.value(database).unwrap() > 10_000.0, "the tables alone");
    if on_postgres() {
        assert_eq!(scraped.value(log), None, "only a superuser may look");
        return;
    }
    let size = |extension: &str| {
        let file = app.folder.path().join(app.folder.file().with_extension(extension));
        f64::from(u32::try_from(std::fs::metadata(file).unwrap().len()).unwrap())
    };
    let before = (size("db"), size("db-wal"));
    app.clock.advance(MINUTE);
    let scraped = watcher.scrape().await;
    let after = (size("db"), size("db-wal"));
    let (database, log) = (scraped.value(database).unwrap(), scraped.value(log).unwrap());
    assert!(before.0 <= database && database <= after.0, "{before:?} {database} {after:?}");
    assert!(0.0 < before.1 && before.1 <= log && log <= after.1, "{before:?} {log} {after:?}");
}

#[tokio::test]
async fn the_last_backup_is_told_and_a_failed_one_is_not() {
    let app = TestApp::start().await;
    let watcher = Watcher::of(&app);
    let last = "companion_backup_last_success_timestamp_seconds";
    assert_eq!(watcher.scrape().await.value(last), Some(0.0), "none yet");
    let config = config_file(&app.folder, &app.sandbox, "");
    let file = app.folder.path().join("companion.backup");
    let back_up = async || {
        let mut asked = command(&["backup", file.to_str().unwrap(), "--json", "--config"]);
        asked.arg(&config);
        run(asked).await
    };
    let output = back_up().await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let taken = serde_json::from_slice::<Value>(&output.stdout).unwrap()["taken"].clone();
    app.clock.advance(MINUTE);
    let shown = watcher.scrape().await.value(last).unwrap();
    assert_eq!(Time::from_seconds(format!("{shown}").parse().unwrap()).iso8601(), taken);
    assert!(!back_up().await.status.success(), "the file is there already");
    app.clock.advance(MINUTE);
    assert_eq!(watcher.scrape().await.value(last).map(|at| format!("{at}")), Some(format!("{shown}")));
}

#[tokio::test]
async fn a_reload_that_was_refused_is_told_until_one_is_taken_over() {
    let app = TestApp::start().await;
    let watcher = Watcher::of(&app);
    let success = "companion_reload_last_success";
    assert_eq!(watcher.scrape().await.value(success), Some(1.0), "there was none");
    let started = app.app.config.clone();
    let is_wrong = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let asked = std::sync::Arc::clone(&is_wrong);
    let mut reload = reload(&app, move || {
        let is_wrong = asked.load(std::sync::atomic::Ordering::SeqCst);
        if is_wrong { Err(anyhow::anyhow!("a mistake")) } else { Ok(started.clone()) }
    });
    assert!(!reload.reload());
    assert_eq!(watcher.scrape().await.value(success), Some(0.0));
    is_wrong.store(false, std::sync::atomic::Ordering::SeqCst);
    assert!(reload.reload());
    assert_eq!(watcher.scrape().await.value(success), Some(1.0));
}

#[tokio::test]
async fn rows_of_the_audit_that_were_lost_are_counted() {
    let app = TestApp::start().await;
    let disk = Disk::under(&app).await;
    let watcher = Watcher::of(&app);
    let lost_rows = "companion_audit_rows_lost_total";
    assert_eq!(watcher.scrape().await.value(lost_rows), Some(0.0));
    let lost = disk.fails().await;
    for number in 0..3 {
        app.app.sources.audit.command(AuditKind::Command, &format!("change {number}"), None, None);
    }
    for _ in 0..3 {
        // The row about the loss cannot be written either, and does not count as lost.
        app.app.sources.audit.flush(true).await;
    }
    watcher.sees(lost_rows, 3.0).await;
    disk.recovers(lost).await;
    app.app.sources.audit.flush(true).await;
    assert_eq!(app.folder.count("audit WHERE kind = 'lost' AND count = 3").await, 1);
    watcher.sees(lost_rows, 3.0).await;
}
