//! `/site/incidents.json`: incidents and announcements for programs. Times are epoch seconds, as in the API.

use domain::Time;
use domain::history::update::UpdateSubject;
use domain::history::{Announcement, History, Incident};
use serde_json::{Value, json};

/// The most incidents, and the most announcements.
const MOST: usize = 50;

pub fn feed(history: &History, now: Time) -> String {
    let updates = |subject: UpdateSubject| -> Vec<Value> {
        let updates = history.updates_of(subject).map(
            |update| json!({ "status": update.phase.name(), "text": update.text, "posted": update.posted.seconds() }),
        );
        updates.collect()
    };
    let incident = |incident: &Incident| {
        json!({
            "id": incident.id,
            "worst": incident.worst.name(),
            "began": incident.began.seconds(),
            "ended": incident.ended.map(Time::seconds),
            "shards": incident.shards,
            "shard_count": incident.shard_count,
            "updates": updates(UpdateSubject::Incident(incident.id)),
        })
    };
    let announcement = |announcement: &Announcement| {
        json!({
            "id": announcement.id,
            "title": announcement.title,
            "text": announcement.text,
            "state": announcement.state(now).name(),
            "posted": announcement.posted.seconds(),
            "ended": announcement.over_since(now).map(Time::seconds),
            "maintenance": announcement.window.map(|window| {
                json!({ "begins": window.begins.seconds(), "ends": window.ends.seconds() })
            }),
            "updates": updates(UpdateSubject::Announcement(announcement.id)),
        })
    };
    json!({
        "code": 200,
        "message": "OK",
        "data": {
            "incidents": history.incidents.iter().take(MOST).map(incident).collect::<Vec<_>>(),
            "announcements": history.announcements.iter().take(MOST).map(announcement).collect::<Vec<_>>(),
        },
    })
    .to_string()
}
