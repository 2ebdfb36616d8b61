//! Words about announcements, maintenance and updates, on the home page, the status page and in the feeds.

use domain::history::announcement::AnnouncementState;
use domain::history::update::UpdatePhase;

pub(in crate::site) struct HappeningWords {
    /// An announcement's state, as a short label.
    pub(in crate::site) state: fn(AnnouncementState) -> &'static str,
    pub(in crate::site) maintenance: &'static str,
    pub(in crate::site) updates: &'static str,
    pub(in crate::site) phase: fn(UpdatePhase) -> &'static str,
    pub(in crate::site) as_json: &'static str,
    /// The first day of the history.
    pub(in crate::site) recorded_since: fn(&str) -> String,
    /// Time before the history began.
    pub(in crate::site) not_recorded: &'static str,
}

pub(super) const EN: HappeningWords = HappeningWords {
    state: |state| match state {
        AnnouncementState::Scheduled => "Scheduled",
        AnnouncementState::InProgress => "In progress",
        AnnouncementState::Active => "Announcement",
        AnnouncementState::Cancelled => "Cancelled",
        AnnouncementState::Over => "Ended",
    },
    maintenance: "Maintenance",
    updates: "Updates",
    phase: |phase| match phase {
        UpdatePhase::Investigating => "Investigating",
        UpdatePhase::Identified => "Identified",
        UpdatePhase::Monitoring => "Monitoring",
        UpdatePhase::Resolved => "Resolved",
    },
    as_json: "Incidents as JSON",
    recorded_since: |day| format!("Recorded since {day}."),
    not_recorded: "Before recording started",
};

pub(super) const DE: HappeningWords = HappeningWords {
    state: |state| match state {
        AnnouncementState::Scheduled => "Geplant",
        AnnouncementState::InProgress => "Läuft gerade",
        AnnouncementState::Active => "Ankündigung",
        AnnouncementState::Cancelled => "Abgesagt",
        AnnouncementState::Over => "Beendet",
    },
    maintenance: "Wartung",
    updates: "Updates",
    phase: |phase| match phase {
        UpdatePhase::Investigating => "Wird untersucht",
        UpdatePhase::Identified => "Ursache gefunden",
        UpdatePhase::Monitoring => "Wird beobachtet",
        UpdatePhase::Resolved => "Behoben",
    },
    as_json: "Störungen als JSON",
    // A month may end with a full stop of its own.
    recorded_since: |day| format!("Aufgezeichnet seit {}.", day.trim_end_matches('.')),
    not_recorded: "Vor Beginn der Aufzeichnung",
};
