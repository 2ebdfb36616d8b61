//! What the client logs: no secrets, and no floods.

use super::*;

/// Collects what would be logged.
#[derive(Clone, Default)]
struct Log(Arc<parking_lot::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_level_of_logging_shows_a_secret() {
    let log = Log::default();
    let listen = || {
        let writer = log.clone();
        let format = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE);
        tracing::Dispatch::new(format.with_writer(move || writer.clone()).finish())
    };
    // With a single listener, `tracing` lets whichever thread meets a log line first decide that nobody listens to it.
    let _second = listen();
    let guard = tracing::dispatcher::set_default(&listen());

    let world = world();
    let grant = world.exchange(&world.sandbox.issue_code("owner")).await.unwrap();
    world.provider.user(Some(network()), &grant.access_token).await.unwrap();
    world.provider.guilds(&grant.access_token).await.unwrap();
    world.provider.refresh(&grant.refresh_token).await.unwrap();
    world.meets(Fault::InvalidClient).await;
    world.meets(Fault::Refuse).await;
    world.provider.revoke(&grant.access_token).await.unwrap();
    world.provider.user(Some(network()), &grant.access_token).await.unwrap_err();
    drop(guard);

    let log = String::from_utf8_lossy(&log.0.lock()).into_owned();
    assert!(log.contains("idp.client_secret"), "what to check is logged");
    let basic = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, "41771983423143937:client-secret");
    for secret in ["sandboxcode_", "sandboxaccess_", "sandboxrefresh_", "client-secret", &basic] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}

#[tokio::test]
async fn refusals_that_strangers_can_cause_fill_no_log() {
    let world = world();
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let errors = || {
        let text = String::from_utf8(log.0.lock().clone()).unwrap();
        text.lines().filter(|line| line.contains("ERROR")).map(str::to_owned).collect::<Vec<_>>()
    };
    let body = r#"{"error":"invalid_grant","error_description":"Invalid \"redirect_uri\" in request."}"#;
    world.sandbox.fail(Endpoint::Token, status(400, body));
    for _ in 0..20 {
        world.exchange("owner").await.unwrap_err();
    }
    assert_eq!(errors().len(), 1, "the first is told at once");
    world.clock.advance(Duration::from_mins(1));
    world.exchange("owner").await.unwrap_err();
    let errors = errors();
    assert_eq!(errors.len(), 2);
    assert!(errors[1].contains("redirect_uri") && errors[1].contains("count=20"), "{}", errors[1]);
}
