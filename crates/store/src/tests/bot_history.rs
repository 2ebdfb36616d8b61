//! The bot's history: minutes, days, incidents and announcements.

use domain::history::announcement::{MaintenanceWindow, Notice};
use domain::history::update::{NewUpdate, Update, UpdateOutcome, UpdatePhase, UpdateSubject};
use domain::history::{Announcement, BotState, Day, History, Incident, Minute, Observation};
use domain::history::{incident::IncidentStep, recording::minute_to_record};

use super::*;
use crate::{Recorded, Topic};

on_each_store! {
    a_minute_is_recorded_once_and_counted_for_its_day,
    silence_counts_from_its_begin,
    an_incident_opens_gets_worse_and_ends,
    what_is_old_or_too_much_is_deleted,
    a_clock_that_is_far_off_is_refused_until_it_is_alone,
    announcements_are_posted_ended_and_removed,
    maintenance_has_a_window_that_can_be_moved,
    incidents_and_announcements_get_updates,
    a_history_is_replaced_as_a_whole,
    what_changes_nothing_invalidates_nothing,
    rows_that_cannot_be_read_are_left_out,
}

/// A day of the history begins here.
const DAY: Time = Time::from_seconds(20_000 * 86_400);

fn at(seconds: u64) -> Time {
    DAY.after(Duration::from_secs(seconds))
}

fn seen(at: Time, state: BotState) -> Observation {
    let silent = match state {
        BotState::Up => 0,
        BotState::Partial => 1,
        BotState::Down => 4,
    };
    Observation { at, state, latency: Some(12.5), silent, shard_count: 4, since: at.before(Duration::from_secs(5)) }
}

/// Records an observation, with the minute that has ended.
async fn record(store: &Store, seen: Observation) -> Recorded {
    let minute = minute_to_record(&seen, Time::default());
    store.record(seen, minute, None, true).await.unwrap()
}

async fn history(store: &Store) -> History {
    store.history().await.unwrap()
}

fn notice(title: &str) -> Notice {
    Notice::new(title, "More\nof it.").unwrap()
}

async fn a_minute_is_recorded_once_and_counted_for_its_day(mut fixture: Fixture) {
    let store = &fixture.store;
    assert_eq!(history(store).await, History::default());
    let first = record(store, seen(at(60), BotState::Up)).await;
    assert_eq!((first.is_accepted, first.newest), (true, Some(DAY)));
    // Another replica is a little later, and sees something else: the first one wins.
    record(store, Observation { latency: None, ..seen(at(75), BotState::Up) }).await;
    record(store, seen(at(120), BotState::Partial)).await;
    record(store, seen(at(180), BotState::Down)).await;
    record(store, seen(at(240), BotState::Up)).await;
    let minute = |second, state| Minute { begins: at(second), state, latency: Some(12.5) };
    let expected = [(0, BotState::Up), (60, BotState::Partial), (120, BotState::Down)];
    // The incident lasted until five seconds before the end of the next minute.
    let covered = Minute { latency: None, ..minute(180, BotState::Down) };
    let day = Day { begins: DAY, up: 1, partial: 1, down: 2 };
    // A missing latency stays missing.
    let next = Observation { latency: None, ..seen(at(300), BotState::Down) };
    record(store, next).await;
    fixture.reopen().await;
    let stored = history(&fixture.store).await;
    let last = Minute { latency: None, ..minute(240, BotState::Down) };
    let expected = expected.map(|(second, state)| minute(second, state)).to_vec();
    assert_eq!(stored.minutes, [expected, vec![covered, last]].concat());
    assert_eq!(stored.days, [Day { down: 3, ..day.clone() }]);
    // The last minute of this day, which the incident covered, and the first of the next one.
    let store = &fixture.store;
    let before_midnight = seen(at(86_400), BotState::Up);
    let minute = minute_to_record(&before_midnight, Time::default());
    store.record(before_midnight, minute, Some(at(240)), true).await.unwrap();
    record(store, seen(at(86_460), BotState::Up)).await;
    let days = [Day { down: 4, ..day }, Day { begins: at(86_400), up: 1, partial: 0, down: 0 }];
    assert_eq!(history(store).await.days, days);
}

async fn silence_counts_from_its_begin(fixture: Fixture) {
    let store = &fixture.store;
    for minute in 1..=5 {
        record(store, seen(at(60 * minute), BotState::Up)).await;
    }
    // Its last report was at 190, so it was silent for most of the minute from 180 on.
    let since = |second, state| Observation { since: at(190), ..seen(at(second), state) };
    store.record(since(310, BotState::Partial), None, None, true).await.unwrap();
    let states = async || {
        let stored = history(store).await;
        let states: Vec<_> = stored.minutes.iter().map(|minute| (minute.state, minute.latency.is_some())).collect();
        (states, stored.days)
    };
    let (up, partial, down) = ((BotState::Up, true), (BotState::Partial, true), (BotState::Down, false));
    let day = |up, partial, down| vec![Day { begins: DAY, up, partial, down }];
    assert_eq!(states().await, (vec![up, up, up, partial, partial], day(3, 2, 0)));
    // Nobody has recorded the minute from 300 on.
    let worse = Observation { since: at(250), ..seen(at(370), BotState::Down) };
    assert_eq!(store.record(worse.clone(), None, None, true).await.unwrap().newest, Some(at(300)));
    assert_eq!(states().await, (vec![up, up, up, partial, down, down], day(3, 1, 2)));
    store.record(worse, None, None, true).await.unwrap();
    assert_eq!(states().await.1, day(3, 1, 2), "it counts once");
    // It gets better, which doesn't change earlier minutes.
    record(store, since(420, BotState::Partial)).await;
    assert_eq!(states().await.0[4..], [down, down, partial]);
}

async fn an_incident_opens_gets_worse_and_ends(mut fixture: Fixture) {
    let store = &fixture.store;
    let opened = record(store, seen(at(60), BotState::Partial)).await;
    let began = at(55);
    let opens = IncidentStep::Opens { worst: BotState::Partial, began, shards: 1, shard_count: 4 };
    assert_eq!(opened.incident, opens);
    let first = Incident { id: 1, worst: BotState::Partial, began, ended: None, shards: 1, shard_count: 4 };
    assert_eq!(history(store).await.incidents, std::slice::from_ref(&first));
    // It counts even without a minute.
    let again = store.record(seen(at(75), BotState::Partial), None, None, true).await.unwrap();
    assert_eq!(again.incident, IncidentStep::Stays);
    store.record(seen(at(90), BotState::Down), None, None, true).await.unwrap();
    let worse = Incident { worst: BotState::Down, shards: 4, ..first };
    fixture.reopen().await;
    let store = &fixture.store;
    assert_eq!(history(store).await.incidents, std::slice::from_ref(&worse));
    record(store, seen(at(120), BotState::Up)).await;
    record(store, seen(at(180), BotState::Down)).await;
    let over = Incident { ended: Some(at(115)), ..worse };
    let second = Incident { id: 2, worst: BotState::Down, began: at(175), ended: None, shards: 4, shard_count: 4 };
    assert_eq!(history(store).await.incidents, [second, over]);
}

async fn what_is_old_or_too_much_is_deleted(fixture: Fixture) {
    let store = &fixture.store;
    for number in 0..501 {
        let second = 60 + number * 120;
        record(store, seen(at(second), BotState::Down)).await;
        record(store, seen(at(second + 60), BotState::Up)).await;
    }
    let stored = history(store).await;
    assert_eq!((stored.incidents.len(), stored.incidents[499].id), (500, 2));
    assert_eq!(stored.minutes.len(), 1_002);
    // A day later, the first minutes are deleted one by one.
    let later = 86_400 + 60;
    let (Some(newest), seen_later) = (stored.minutes.last(), seen(at(later), BotState::Up)) else { unreachable!() };
    let minute = minute_to_record(&seen_later, Time::default());
    store.record(seen_later, minute, Some(newest.begins), true).await.unwrap();
    let stored = history(store).await;
    assert_eq!((stored.minutes.len(), stored.minutes[0].begins), (1_002, at(60)));
    // After 90 days, the day and its incidents are deleted.
    let later = seen(at(89 * 86_400 + 90), BotState::Up);
    let minute = minute_to_record(&later, Time::default());
    store.record(later, minute, Some(at(86_400)), true).await.unwrap();
    let stored = history(store).await;
    assert_eq!(stored.days.iter().map(|day| day.begins).collect::<Vec<_>>(), [DAY, at(86_400), at(89 * 86_400)]);
    assert_eq!((stored.minutes.len(), stored.incidents.len()), (1, 500));
    let newest = stored.minutes[0].begins;
    let later = seen(at(90 * 86_400 + 300), BotState::Up);
    let minute = minute_to_record(&later, Time::default());
    // Not by a clock that can't be trusted.
    let earlier = seen(at(90 * 86_400 + 240), BotState::Up);
    let earlier_minute = minute_to_record(&earlier, Time::default());
    let recorded = store.record(earlier, earlier_minute, Some(newest), false).await.unwrap();
    assert!(recorded.is_accepted);
    assert_eq!(history(store).await.incidents, stored.incidents);
    assert_eq!(history(store).await.days[..3], stored.days[..]);
    store.record(later, minute, Some(newest), true).await.unwrap();
    let stored = history(store).await;
    assert_eq!(stored.days[0].begins, at(86_400));
    assert_eq!((stored.incidents.len(), stored.incidents[498].id), (499, 3), "the oldest ended 90 days ago");
}

async fn a_clock_that_is_far_off_is_refused_until_it_is_alone(fixture: Fixture) {
    let store = &fixture.store;
    for minute in 1..=10 {
        record(store, seen(at(60 * minute), BotState::Up)).await;
    }
    let before = history(store).await;
    let newest = Some(at(60 * 9));
    let year = 365 * 86_400;
    for wrong in [year, 60 * 13, 60 * 7, 0] {
        let refused = record(store, seen(at(wrong), BotState::Down)).await;
        assert_eq!(refused, Recorded { is_accepted: false, newest, incident: IncidentStep::Stays }, "{wrong}");
        let other = store.record(seen(at(wrong), BotState::Down), None, Some(at(60 * 8)), true).await.unwrap();
        assert!(!other.is_accepted);
    }
    assert_eq!(history(store).await, before);
    // A clock that ran ahead while nobody else recorded; what it wrote is deleted once the others have been back for a while.
    let far = 150 * year;
    let ahead = seen(at(far), BotState::Up);
    let minute = minute_to_record(&ahead, Time::default());
    assert!(store.record(ahead, minute, newest, false).await.unwrap().is_accepted);
    let right = seen(at(60 * 11), BotState::Up);
    let minute = minute_to_record(&right, Time::default());
    assert!(!record(store, right.clone()).await.is_accepted);
    let recorded = store.record(right, minute, Some(at(far - 60)), true).await.unwrap();
    assert_eq!((recorded.is_accepted, recorded.newest), (true, Some(at(60 * 10))));
    assert_eq!(history(store).await.minutes.len(), 11);
}

#[tokio::test]
async fn on_postgresql_a_wrong_clock_deletes_no_history() {
    let Some(fixture) = Fixture::on_postgres().await else { return };
    let store = &fixture.store;
    for minute in 1..=3 {
        record(store, seen(at(60 * minute), BotState::Up)).await;
    }
    let right = history(store).await.minutes;
    // Each of them records alone, and has trusted its clock for long.
    let mut newest = Some(at(120));
    for wrong in [at(150 * 365 * 86_400), DAY.before(Duration::from_hours(48))] {
        let seen = seen(wrong, BotState::Up);
        let minute = minute_to_record(&seen, Time::default());
        let recorded = store.record(seen, minute, newest, true).await.unwrap();
        assert!(recorded.is_accepted);
        newest = recorded.newest;
        let minutes = history(store).await.minutes;
        assert!(right.iter().all(|minute| minutes.contains(minute)), "{minutes:?}");
    }
}

async fn announcements_are_posted_ended_and_removed(mut fixture: Fixture) {
    let store = &fixture.store;
    for number in 1..=101 {
        assert_eq!(store.announce(notice(&format!("Number {number}")), at(number)).await.unwrap(), number);
    }
    let stored = history(store).await.announcements;
    assert_eq!((stored.len(), stored[0].id, stored[99].id), (100, 101, 2), "the oldest goes");
    assert!(store.end_announcement(101, at(500)).await.unwrap());
    assert!(!store.end_announcement(101, at(501)).await.unwrap(), "it is over already");
    assert!(!store.end_announcement(1, at(502)).await.unwrap(), "it is gone");
    assert!(store.remove_announcement(100).await.unwrap());
    assert!(!store.remove_announcement(100).await.unwrap());
    assert!(!store.remove_announcement(u64::MAX).await.unwrap());
    fixture.reopen().await;
    let stored = history(&fixture.store).await.announcements;
    let told = |index: usize| (stored[index].id, stored[index].posted, stored[index].ended);
    assert_eq!((told(0), told(1)), ((101, at(101), Some(at(500))), (99, at(99), None)));
    assert_eq!((stored[0].title.as_str(), stored[0].text.as_str()), ("Number 101", "More\nof it."));
}

async fn maintenance_has_a_window_that_can_be_moved(mut fixture: Fixture) {
    let window = |begins, ends| MaintenanceWindow { begins: at(begins), ends: at(ends) };
    let store = &fixture.store;
    assert_eq!(store.announce(notice("Maintenance").during(window(100, 200)), at(1)).await.unwrap(), 1);
    assert_eq!(store.announce(notice("News"), at(2)).await.unwrap(), 2);
    assert!(store.reschedule_announcement(1, window(150, 300), at(3)).await.unwrap());
    assert!(!store.reschedule_announcement(2, window(150, 300), at(3)).await.unwrap(), "it is no maintenance");
    assert!(!store.reschedule_announcement(3, window(150, 300), at(3)).await.unwrap());
    fixture.reopen().await;
    let store = &fixture.store;
    let stored = history(store).await.announcements;
    assert_eq!((stored[0].window, stored[1].window), (None, Some(window(150, 300))));
    assert_eq!((stored[0].rescheduled, stored[1].rescheduled), (None, Some(at(3))));
    assert!(!store.end_announcement(1, at(300)).await.unwrap(), "it has ended by itself");
    assert!(store.end_announcement(1, at(120)).await.unwrap());
    assert!(!store.reschedule_announcement(1, window(150, 400), at(121)).await.unwrap(), "it is over");
}

async fn incidents_and_announcements_get_updates(mut fixture: Fixture) {
    let store = &fixture.store;
    let update = |subject, phase, text: &str| NewUpdate::new(subject, phase, text).unwrap();
    let (incident, announcement) = (UpdateSubject::Incident(1), UpdateSubject::Announcement(1));
    let post = async |store: &Store, subject, phase, second| {
        store.update_happening(update(subject, phase, "One\ntwo"), at(second)).await.unwrap()
    };
    for subject in [incident, announcement] {
        assert_eq!(post(store, subject, UpdatePhase::Investigating, 1).await, UpdateOutcome::NoSubject);
    }
    record(store, seen(at(60), BotState::Down)).await;
    store.announce(notice("Slow"), at(61)).await.unwrap();
    assert_eq!(post(store, incident, UpdatePhase::Investigating, 62).await, UpdateOutcome::Posted);
    assert_eq!(post(store, announcement, UpdatePhase::Identified, 63).await, UpdateOutcome::Posted);
    assert_eq!(post(store, incident, UpdatePhase::Resolved, 64).await, UpdateOutcome::NotOver);
    record(store, seen(at(120), BotState::Up)).await;
    assert_eq!(post(store, incident, UpdatePhase::Resolved, 121).await, UpdateOutcome::Posted);
    assert_eq!(history(store).await.announcements[0].ended, None);
    assert_eq!(post(store, announcement, UpdatePhase::Resolved, 122).await, UpdateOutcome::Posted);
    fixture.reopen().await;
    let store = &fixture.store;
    let stored = history(store).await;
    assert_eq!(stored.announcements[0].ended, Some(at(122)), "a resolved one is over");
    let of = |subject| stored.updates_of(subject).map(|update| (update.phase, update.posted)).collect::<Vec<_>>();
    assert_eq!(of(incident), [(UpdatePhase::Investigating, at(62)), (UpdatePhase::Resolved, at(121))]);
    assert_eq!(of(announcement), [(UpdatePhase::Identified, at(63)), (UpdatePhase::Resolved, at(122))]);
    assert_eq!(stored.updates[0].text, "One\ntwo");

    for number in 3..=50 {
        assert_eq!(post(store, announcement, UpdatePhase::Monitoring, 200 + number).await, UpdateOutcome::Posted);
    }
    assert_eq!(post(store, announcement, UpdatePhase::Monitoring, 300).await, UpdateOutcome::TooMany);
    assert_eq!(post(store, incident, UpdatePhase::Monitoring, 301).await, UpdateOutcome::Posted, "each has its own");
    assert!(store.remove_announcement(1).await.unwrap());
    assert_eq!(store.announce(notice("Another"), at(400)).await.unwrap(), 1);
    let stored = history(store).await;
    assert_eq!(stored.updates_of(announcement).count(), 0, "a new one with the same number starts without any");
    assert_eq!(stored.updates.len(), 3);
}

async fn a_history_is_replaced_as_a_whole(mut fixture: Fixture) {
    let store = &fixture.store;
    record(store, seen(at(60), BotState::Down)).await;
    store.announce(notice("Old"), at(61)).await.unwrap();
    let (text, posted) = ("x".to_owned(), at(5));
    let update = |id, subject| Update { id, subject, phase: UpdatePhase::Monitoring, text: text.clone(), posted };
    let announcement = |id, ended, window| Announcement {
        id,
        title: "ü".to_owned(),
        text: text.clone(),
        posted,
        ended,
        window,
        rescheduled: ended,
    };
    let new = History {
        minutes: vec![
            Minute { begins: at(0), state: BotState::Up, latency: Some(1.5) },
            Minute { begins: at(60), state: BotState::Down, latency: None },
        ],
        days: vec![Day { begins: DAY, up: 1, partial: 0, down: 1 }],
        incidents: vec![Incident {
            id: 7,
            worst: BotState::Down,
            began: at(60),
            ended: Some(at(120)),
            shards: 1,
            shard_count: 2,
        }],
        announcements: vec![
            announcement(4, None, Some(MaintenanceWindow { begins: at(10), ends: at(20) })),
            announcement(3, Some(at(9)), None),
        ],
        updates: vec![update(1, UpdateSubject::Incident(7)), update(2, UpdateSubject::Announcement(4))],
    };
    let (_, changed) = fixture.invalidated(&[Topic::History], store.replace_history(new.clone())).await;
    assert_eq!(changed, [Topic::History]);
    fixture.reopen().await;
    let store = &fixture.store;
    assert_eq!(history(store).await, new);
    store.replace_history(History::default()).await.unwrap();
    assert_eq!(history(store).await, History::default());
}

async fn what_changes_nothing_invalidates_nothing(fixture: Fixture) {
    let store = &fixture.store;
    let topics = [Topic::History, Topic::Health, Topic::Stats];
    macro_rules! changed {
        ($work:expr) => {
            fixture.invalidated(&topics, $work).await.1
        };
    }
    assert_eq!(changed!(record(store, seen(at(60), BotState::Up))), [Topic::History]);
    assert_eq!(changed!(record(store, seen(at(75), BotState::Up))), [], "it is recorded already");
    assert_eq!(changed!(record(store, seen(at(10_000), BotState::Down))), [], "it is refused");
    assert_eq!(changed!(record(store, seen(at(90), BotState::Down))), [Topic::History], "an incident");
    assert_eq!(changed!(store.announce(notice("x"), at(1))), [Topic::History]);
    let update = NewUpdate::new(UpdateSubject::Announcement(1), UpdatePhase::Monitoring, "").unwrap();
    assert_eq!(changed!(store.update_happening(update, at(2))), [Topic::History]);
    assert_eq!(changed!(store.end_announcement(1, at(2))), [Topic::History]);
    assert_eq!(changed!(store.remove_announcement(1)), [Topic::History]);
}

async fn rows_that_cannot_be_read_are_left_out(fixture: Fixture) {
    let store = &fixture.store;
    record(store, seen(at(60), BotState::Up)).await;
    fixture
        .sql(
            "INSERT INTO history_minutes (begins, state, latency) VALUES (7, 'sideways', NULL);
            INSERT INTO incidents (id, worst, began, ended, shards, shard_count) VALUES (1, 'odd', 1, 2, 3, 4)",
        )
        .await;
    let stored = history(store).await;
    assert_eq!((stored.minutes.len(), stored.incidents.len()), (1, 0));
}

#[tokio::test]
async fn replicas_that_record_at_the_same_moment_open_one_incident() {
    let Some(database) = Database::new().await else { return };
    let (one, two) = (database.replica().await, database.replica().await);
    for minute in 1..=20 {
        let state = if minute % 2 == 0 { BotState::Up } else { BotState::Down };
        let seen = || seen(at(60 * minute), state);
        tokio::join!(record(&one.store, seen()), record(&two.store, seen()));
    }
    let History { incidents, days, .. } = history(&one.store).await;
    assert_eq!(incidents.len(), 10, "{incidents:?}");
    assert_eq!(days.len(), 1, "{days:?}");
}
