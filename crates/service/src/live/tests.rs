//! Streams of a replica that gets no changes from the others.

use std::pin::pin;

use domain::{Session, Time, User};
use futures_util::future::{Either, select};
use http_body_util::BodyExt;
use runtime::clock::Clock;
use runtime::random::Random;
use store::{Freshness, SealedGrant};
use telemetry::Version;
use test_support::TestFolder;

use super::*;
use crate::app::App;
use crate::config::{Config, Layer};

const NOW: Time = Time::from_seconds(1000);

async fn app(folder: &TestFolder) -> Arc<App> {
    let configuration = format!("[store]\nurl = \"sqlite:{}\"", folder.path("test.db").display());
    let nothing = std::iter::empty::<(String, String)>();
    let config = Config::load_over(&[Layer::new("test", configuration)], None, nothing).unwrap();
    Arc::new(App::build(config, Clock::manual(NOW), Random::seeded(1), Version::UNKNOWN).await.unwrap())
}

async fn open_session(app: &App, name: &str, token: TokenHash) -> StreamOwner {
    let user = Snowflake::new(1).unwrap();
    let id = SessionId::parse(name).unwrap();
    let person = User { username: "a".to_owned(), name: "A".to_owned(), id: user, avatar: "".into() };
    let session = Session { id: id.clone(), user, created: NOW, last_seen: NOW, agent: String::new() };
    app.sources.store.save_grant(person.clone(), SealedGrant(vec![1]), NOW, None).await.unwrap();
    app.sources.store.open_session(person, token, session, 50).await.unwrap();
    StreamOwner { id, token, user }
}

async fn next(stream: &mut LiveBody) -> Option<String> {
    let frame = stream.frame().await?.unwrap();
    Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
}

#[tokio::test]
async fn while_other_replicas_cannot_be_heard_sessions_are_looked_up() {
    let folder = TestFolder::new();
    let app = app(&folder).await;
    // It learns of nothing that the store changes.
    let deaf = Arc::new(Freshness::new(app.sources.clock.clone()));
    let sources = Sources { freshness: Arc::clone(&deaf), ..app.sources.clone() };
    let live = Arc::new(Live::new(&sources, Arc::clone(&app.views), &app.config.limits));
    let [ends, stays] = [
        open_session(&app, "aaaaaaaaaaaaaaaa", TokenHash([1; 32])).await,
        open_session(&app, "bbbbbbbbbbbbbbbb", TokenHash([2; 32])).await,
    ];
    let (user, session) = (ends.user, ends.id.clone());
    let mut ending = live.open(None, Some(ends), 0).await.unwrap();
    let mut staying = live.open(None, Some(stays), 0).await.unwrap();
    for stream in [&mut ending, &mut staying] {
        assert!(next(stream).await.unwrap().contains("event: changed"));
    }

    deaf.suspend();
    assert!(app.sources.store.end_session(user, session, NOW).await.unwrap());
    let heard = async {
        assert_eq!(next(&mut ending).await.as_deref(), Some("event: ended\ndata: {}\n\n"));
        assert_eq!(next(&mut ending).await, None);
    };
    assert!(matches!(select(pin!(live.run()), pin!(heard)).await, Either::Right(_)));
    let at_once = tokio::time::timeout(Duration::ZERO, next(&mut staying)).await;
    assert!(!at_once.is_ok_and(|message| message.is_none_or(|text| text.contains("ended"))), "the other goes on");
}

#[tokio::test]
async fn the_end_of_a_session_waits_for_nothing_else_that_streams_watch() {
    let folder = TestFolder::new();
    let app = app(&folder).await;
    let live = &app.live;
    let [revoked, expires] = [
        open_session(&app, "aaaaaaaaaaaaaaaa", TokenHash([1; 32])).await,
        open_session(&app, "bbbbbbbbbbbbbbbb", TokenHash([2; 32])).await,
    ];
    let (user, session) = (revoked.user, revoked.id.clone());
    let mut of_revoked = live.open(None, Some(revoked), 0).await.unwrap();
    let mut of_expiring = live.open(None, Some(expires), 0).await.unwrap();
    for stream in [&mut of_revoked, &mut of_expiring] {
        assert!(next(stream).await.unwrap().contains("event: changed"));
    }
    // This is the hub's only loop that runs.
    let heard = async {
        assert!(app.sources.store.end_session(user, session, NOW).await.unwrap());
        assert_eq!(next(&mut of_revoked).await.as_deref(), Some("event: ended\ndata: {}\n\n"));
        app.sources.clock.advance(Duration::from_hours(7 * 24));
        assert_eq!(next(&mut of_expiring).await.as_deref(), Some("event: ended\ndata: {}\n\n"));
    };
    assert!(matches!(select(pin!(live.watch_sessions()), pin!(heard)).await, Either::Right(_)));
}
