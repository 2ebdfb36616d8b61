//! The demo bot's history: 90 days with two incidents, past maintenance and scheduled maintenance. An announcement says that it is made up.

use std::time::Duration;

use domain::Time;
use domain::history::announcement::MaintenanceWindow;
use domain::history::recording::{day_of, minute_of};
use domain::history::update::{Update, UpdatePhase, UpdateSubject};
use domain::history::{Announcement, BotState, Day, History, Incident, Minute};
use domain::saturating;
use store::Store;

const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
/// How many days, including today.
const DAYS: u32 = 90;

/// Title and text of the announcements. The first one says that the history is made up.
const NOTICE: (&str, &str) =
    ("Demo data", "The numbers, the history and the incidents are made up. They disappear when your bot reports.");
const MAINTENANCE: (&str, &str) =
    ("Database upgrade", "Commands may take a little longer for an hour. You don't need to do anything.");
const PAST_MAINTENANCE: (&str, &str) = ("Move to a larger database", "Settings couldn't be changed during the move.");

/// The hour at which each incident began, and how many minutes it lasted.
const OUTAGE: (u32, u32) = (3, 47);
const PARTIAL: (u32, u32) = (17, 26);

/// Removes the demo history from a store, if it has one. The user's own announcements stay. Returns whether it had one.
pub(super) async fn remove(store: &Store) -> store::Result<bool> {
    let known = store.history().await?;
    let is_there = is_demo(&known);
    if is_there {
        store.replace_history(without_demo(known)).await?;
    }
    Ok(is_there)
}

/// Whether a history is the demo bot's. No command can add or remove incidents, and no real one begins and ends at these times to
/// the millisecond. Announcements prove nothing: operators may copy ours.
pub(super) fn is_demo(history: &History) -> bool {
    history.incidents.iter().any(is_demo_incident)
}

fn is_demo_announcement(announcement: &Announcement) -> bool {
    [NOTICE, MAINTENANCE, PAST_MAINTENANCE].contains(&(&announcement.title, &announcement.text))
}

fn is_demo_incident(incident: &Incident) -> bool {
    [OUTAGE, PARTIAL].into_iter().any(|(hour, minutes)| {
        let began = day_of(incident.began).after(HOUR * hour);
        (incident.began, incident.ended) == (began, Some(began.after(MINUTE * minutes)))
    })
}

/// What remains without the demo history: the user's own announcements and their updates.
pub(super) fn without_demo(history: History) -> History {
    let announcements: Vec<_> =
        history.announcements.into_iter().filter(|announcement| !is_demo_announcement(announcement)).collect();
    let is_kept = |subject| announcements.iter().any(|kept| subject == UpdateSubject::Announcement(kept.id));
    let updates = history.updates.into_iter().filter(|update| is_kept(update.subject)).collect();
    History { announcements, updates, ..History::default() }
}

/// The history up to this moment, added to what `without_demo` left.
pub(super) fn history(left: History, now: Time) -> History {
    let announced = left.announcements.first().map_or(0, |newest| newest.id);
    let last = left.updates.last().map_or(0, |newest| newest.id);
    let today = day_of(now);
    let ago = |days: u32, hours: u32| today.before(DAY * days).after(HOUR * hours);
    let span = |days, (hour, minutes): (u32, u32)| (ago(days, hour), ago(days, hour).after(MINUTE * minutes));
    let (outage, partial) = (span(61, OUTAGE), span(9, PARTIAL));
    let past_window = MaintenanceWindow { begins: ago(33, 2), ends: ago(33, 4) };
    let window = MaintenanceWindow { begins: ago(0, 20).after(DAY * 3), ends: ago(0, 21).after(DAY * 3) };
    History {
        minutes: minutes(now),
        days: (0..DAYS).rev().map(|ago| day(now, today.before(DAY * ago), outage, partial)).collect(),
        incidents: vec![incident(2, BotState::Partial, partial, 1), incident(1, BotState::Down, outage, 2)],
        announcements: [
            announcement(announced + 3, NOTICE, now, None),
            announcement(announced + 2, MAINTENANCE, now.before(HOUR * 20), Some(window)),
            announcement(announced + 1, PAST_MAINTENANCE, ago(36, 9), Some(past_window)),
        ]
        .into_iter()
        .chain(left.announcements)
        .collect(),
        updates: left.updates.into_iter().chain(updates(last, outage, partial)).collect(),
    }
}

/// The last 24 hours, with a latency that follows the time of day.
fn minutes(now: Time) -> Vec<Minute> {
    let first = minute_of(now).before(DAY);
    let minute = |index: u32| {
        let begins = first.after(MINUTE * index);
        let hour = f64::from(saturating::to_u32(begins.since(day_of(begins)).as_secs())) / 3_600.0;
        let wave = ((hour - 14.0) / 24.0 * std::f64::consts::TAU).cos();
        // Always the same for a minute, without a visible pattern.
        let jitter = f64::from(saturating::to_u32(begins.seconds() / 60 * 2_654_435_761 % 97)) / 97.0;
        Minute { begins, state: BotState::Up, latency: Some(44.0 + 9.0 * wave + 6.0 * jitter) }
    };
    (0..1_440).map(minute).collect()
}

fn day(now: Time, begins: Time, outage: (Time, Time), partial: (Time, Time)) -> Day {
    let minutes = |(from, to): (Time, Time)| saturating::to_u32(to.since(from).as_secs() / 60);
    let on = |span: (Time, Time)| if day_of(span.0) == begins { minutes(span) } else { 0 };
    let passed = minutes((begins, minute_of(now).min(begins.after(DAY))));
    let (partial, down) = (on(partial), on(outage));
    Day { begins, up: passed.saturating_sub(partial + down), partial, down }
}

fn incident(id: u64, worst: BotState, (began, ended): (Time, Time), shards: u32) -> Incident {
    Incident { id, worst, began, ended: Some(ended), shards, shard_count: 2 }
}

fn announcement(id: u64, (title, text): (&str, &str), posted: Time, window: Option<MaintenanceWindow>) -> Announcement {
    let (title, text) = (title.to_owned(), text.to_owned());
    Announcement { id, title, text, posted, ended: None, window, rescheduled: None }
}

fn updates(last: u64, (down, up): (Time, Time), (split, whole): (Time, Time)) -> Vec<Update> {
    use UpdatePhase::{Identified, Investigating, Monitoring, Resolved};
    let after = |time: Time, minutes: u32| time.after(MINUTE * minutes);
    let said = [
        (1, Investigating, after(down, 6), "The bot isn't responding. We're looking into it."),
        (1, Identified, after(down, 21), "A full disk stopped the bot. We're freeing up space."),
        (1, Resolved, after(up, 30), "The bot is back, and we now get a warning before a disk is full."),
        (2, Investigating, after(split, 12), "The bot isn't responding in half of its servers."),
        (2, Monitoring, whole.before(MINUTE * 2), "Shard 1 has reconnected. We're keeping an eye on it."),
        (2, Resolved, after(whole, 40), ""),
    ];
    let update = |(number, (incident, phase, posted, text)): (u64, (u64, UpdatePhase, Time, &str))| Update {
        id: last + number,
        subject: UpdateSubject::Incident(incident),
        phase,
        text: text.to_owned(),
        posted,
    };
    (1..).zip(said).map(update).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2027-01-15T08:00:00Z
    const NOW: Time = Time::from_seconds(1_800_000_000);

    #[test]
    fn the_history_is_whole_and_agrees_with_its_incidents() {
        for now in [NOW, day_of(NOW), NOW.after(Duration::from_secs(59)), day_of(NOW).before(MINUTE)] {
            let history = history(History::default(), now);
            assert!(is_demo(&history) && is_demo(&History { announcements: Vec::new(), ..history.clone() }));
            assert_eq!((history.minutes.len(), history.days.len(), history.incidents.len()), (1_440, 90, 2));
            assert_eq!(history.minutes[1_439].begins, minute_of(now).before(MINUTE));
            let down: u32 = history.days.iter().map(|day| day.down).sum();
            let partial: u32 = history.days.iter().map(|day| day.partial).sum();
            assert_eq!((down, partial), (47, 26));
            assert!(history.days[..89].iter().all(|day| day.up + day.partial + day.down == 1_440));
            let today = &history.days[89];
            assert_eq!(u64::from(today.up), minute_of(now).since(today.begins).as_secs() / 60);
            assert_eq!(without_demo(history), History::default());
        }
    }

    #[test]
    fn what_somebody_else_announced_stays() {
        let mut with = history(History::default(), NOW);
        with.announcements.insert(0, announcement(4, (MAINTENANCE.0, "My own"), NOW, None));
        let own = Update {
            id: 9,
            subject: UpdateSubject::Announcement(4),
            phase: UpdatePhase::Monitoring,
            text: String::new(),
            posted: NOW,
        };
        with.updates.push(own.clone());
        let left = without_demo(with);
        assert_eq!((left.announcements.len(), left.announcements[0].title.as_str()), (1, MAINTENANCE.0));
        assert_eq!(left.updates, [own]);
        assert!(!is_demo(&left) && left.days.is_empty());
        let mut copied =
            History { announcements: history(History::default(), NOW).announcements, ..History::default() };
        copied.incidents.push(incident(1, BotState::Down, (NOW, NOW.after(MINUTE * 47)), 2));
        assert!(!is_demo(&copied), "a real history with our texts");
        let again = history(left.clone(), NOW);
        let ids: Vec<_> = again.announcements.iter().map(|announcement| announcement.id).collect();
        assert_eq!((ids, again.updates[1].id), (vec![7, 6, 5, 4], 10), "no number is used twice");
        assert_eq!(without_demo(again), left);
    }
}
