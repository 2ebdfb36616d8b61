//! `GET /site/incidents.json`: incidents and announcements for programs. Times are epoch seconds.

use bytes::Bytes;
use domain::Time;
use domain::history::update::UpdateSubject;
use domain::history::{Announcement, History, Incident};
use serde::Serialize;

use super::envelope;

/// The most incidents, and the most announcements.
const MOST: usize = 50;

#[derive(Serialize)]
struct HappeningsData<'a> {
    incidents: Vec<IncidentData<'a>>,
    announcements: Vec<AnnouncementData<'a>>,
}

#[derive(Serialize)]
struct IncidentData<'a> {
    id: u64,
    worst: &'static str,
    began: u64,
    ended: Option<u64>,
    shards: u32,
    shard_count: u32,
    updates: Vec<UpdateData<'a>>,
}

#[derive(Serialize)]
struct AnnouncementData<'a> {
    id: u64,
    title: &'a str,
    text: &'a str,
    state: &'static str,
    posted: u64,
    ended: Option<u64>,
    maintenance: Option<MaintenanceData>,
    updates: Vec<UpdateData<'a>>,
}

#[derive(Serialize)]
struct MaintenanceData {
    begins: u64,
    ends: u64,
}

#[derive(Serialize)]
struct UpdateData<'a> {
    status: &'static str,
    text: &'a str,
    posted: u64,
}

/// The newest incidents and announcements, with their updates, oldest first.
pub fn happenings(history: &History, now: Time) -> Bytes {
    let updates = |subject: UpdateSubject| -> Vec<UpdateData<'_>> {
        let updates = history.updates_of(subject).map(|update| UpdateData {
            status: update.phase.name(),
            text: &update.text,
            posted: update.posted.seconds(),
        });
        updates.collect()
    };
    let incident = |incident: &Incident| IncidentData {
        id: incident.id,
        worst: incident.worst.name(),
        began: incident.began.seconds(),
        ended: incident.ended.map(Time::seconds),
        shards: incident.shards,
        shard_count: incident.shard_count,
        updates: updates(UpdateSubject::Incident(incident.id)),
    };
    let incidents = history.incidents.iter().take(MOST).map(incident).collect();
    let announcements = history.announcements.iter().take(MOST).map(|announcement: &Announcement| AnnouncementData {
        id: announcement.id,
        title: &announcement.title,
        text: &announcement.text,
        state: announcement.state(now).name(),
        posted: announcement.posted.seconds(),
        ended: announcement.over_since(now).map(Time::seconds),
        maintenance: announcement
            .window
            .map(|window| MaintenanceData { begins: window.begins.seconds(), ends: window.ends.seconds() }),
        updates: updates(UpdateSubject::Announcement(announcement.id)),
    });
    envelope::success(&HappeningsData { incidents, announcements: announcements.collect() })
}

#[cfg(test)]
mod tests {
    use domain::history::BotState;
    use domain::history::announcement::MaintenanceWindow;
    use domain::history::update::{Update, UpdatePhase};

    use super::*;

    #[test]
    fn the_bytes_are_as_the_documentation_writes_them() {
        let at = Time::from_seconds;
        let window = Some(MaintenanceWindow { begins: at(50), ends: at(60) });
        let (title, text) = ("Larger database".to_owned(), String::new());
        let history = History {
            incidents: vec![Incident {
                id: 3,
                worst: BotState::Down,
                began: at(9),
                ended: None,
                shards: 2,
                shard_count: 2,
            }],
            announcements: vec![Announcement {
                id: 2,
                title,
                text,
                posted: at(8),
                ended: None,
                window,
                rescheduled: None,
            }],
            updates: vec![Update {
                id: 1,
                subject: UpdateSubject::Incident(3),
                phase: UpdatePhase::Identified,
                text: "A full disk.".to_owned(),
                posted: at(10),
            }],
            ..History::default()
        };
        assert_eq!(
            happenings(&history, at(20)),
            concat!(
                r#"{"code":200,"message":"OK","data":{"incidents":[{"id":3,"worst":"down","began":9,"ended":null,"shards":2,"#,
                r#""shard_count":2,"updates":[{"status":"identified","text":"A full disk.","posted":10}]}],"announcements":["#,
                r#"{"id":2,"title":"Larger database","text":"","state":"scheduled","posted":8,"ended":null,"#,
                r#""maintenance":{"begins":50,"ends":60},"updates":[]}]}}"#
            )
        );
    }
}
