//! Events: built from marks and feedback, numbered, and sent until the service has accepted or refused them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use serde_json::{Map, Value, json};

use crate::calls::meaning;
use crate::core::Core;
use crate::feedback::{Delivery, Entry, put_first};
use crate::marks::{GuildMark, Key, Mark};
use crate::numbering::gap;
use crate::outage::Channel;
use crate::ownership::note_owners;
use crate::sender::{digest, numbered, reason, refused_lines};
use crate::snapshots::{fields, id_texts, whole};
use crate::source::GuildState;
use crate::staff::granting;
use crate::transport::{Answer, Body};

/// A line of an events request.
pub(crate) struct Line {
    text: String,
    /// Its name in the log.
    about: String,
    what: What,
}

enum What {
    Change,
    /// The team, by its digest.
    Team(u128),
    Feedback(Entry),
}

/// Numbered lines that the service has neither accepted nor refused yet.
pub(crate) struct Batch {
    first: u64,
    pub(crate) lines: Vec<Line>,
}

/// Lines that fit into one request.
#[derive(Default)]
struct Filling {
    lines: Vec<Line>,
    bytes: usize,
}

impl Filling {
    fn fits(&self, core: &Core, lines: &[Line]) -> bool {
        let bytes: usize = lines.iter().map(|line| line.text.len() + 1).sum();
        self.lines.is_empty()
            || (self.lines.len() + lines.len() <= core.limits.batch_lines
                && self.bytes + bytes <= core.limits.batch_bytes)
    }

    fn add(&mut self, lines: Vec<Line>) {
        self.bytes += lines.iter().map(|line| line.text.len() + 1).sum::<usize>();
        self.lines.extend(lines);
    }

    fn room(&self, core: &Core) -> usize {
        core.limits.batch_lines.saturating_sub(self.lines.len())
    }
}

/// Builds the next batch, if there is anything to send.
pub(crate) async fn make(core: &Arc<Core>) {
    let mut filling = Filling::default();
    if let Some(team) = team_line(core).await {
        filling.add(vec![team]);
    }
    add_feedback(core, &mut filling);
    let marks = {
        let state = &mut *core.lock();
        state.marks.take(filling.room(core), |guild| state.snapshots.marks(guild))
    };
    let is_full = !add_changes(core, &mut filling, marks).await;
    if !is_full {
        let counts = core.lock().marks.take_counts(core.clock.now(), filling.room(core));
        let counts = counts.into_iter().map(|guild| (Key::Guild(guild), Mark::Guild(GuildMark::FIELDS))).collect();
        add_changes(core, &mut filling, counts).await;
    }
    if !filling.lines.is_empty() {
        // Even if a resync was requested in the meantime: these lines are older, so they go before its snapshots.
        let mut state = core.lock();
        state.batch = Some(Batch { first: state.numbering.next, lines: filling.lines });
    }
}

async fn team_line(core: &Core) -> Option<Line> {
    if !std::mem::take(&mut core.lock().team.is_stale) {
        return None;
    }
    let callback = core.callbacks.team.as_ref()?;
    let Some(members) = core.callback_time().limit("team", || callback()).await else {
        core.lock().team.retry_at = Some(core.clock.now() + core.limits.callback_retry);
        return None;
    };
    let print = digest(&members);
    if core.lock().team.acknowledged == Some(print) {
        return None;
    }
    let text = format!(r#"{{"type":"team","members":[{}]}}"#, members.join(","));
    if text.len() > core.limits.line_bytes {
        core.reporter.warn_once("long team", "a change is too long: the team is not sent");
        return None;
    }
    Some(Line { text, about: "the team".to_owned(), what: What::Team(print) })
}

fn add_feedback(core: &Core, filling: &mut Filling) {
    let mut state = core.lock();
    for _ in 0..core.limits.feedback_lines {
        let Some(entry) = state.feedback.pop_front() else { return };
        let line = Line { text: entry.line.clone(), about: entry.about.clone(), what: What::Feedback(entry) };
        let line = [line];
        if filling.room(core) == 0 || !filling.fits(core, &line) {
            put_first(&mut state.feedback, line.into_iter().filter_map(Line::into_feedback));
            return;
        }
        filling.add(line.into());
    }
}

/// Adds the lines of these marks, in order. Marks that do not fit are put back. Returns whether all of them fit.
async fn add_changes(core: &Arc<Core>, filling: &mut Filling, marks: Vec<(Key, Mark)>) -> bool {
    let mut lines = stream::iter(marks.iter().cloned().enumerate())
        .map(|(index, (key, mark))| async move {
            let lines = match (key, mark) {
                (Key::Guild(guild), Mark::Guild(mark)) => Ok(guild_lines(core, guild, mark).await),
                member => Err(member),
            };
            if (index + 1) % 16 == 0 {
                tokio::task::yield_now().await;
            }
            lines
        })
        .buffered(core.limits.callbacks_at_once.max(1));
    let mut added = 0;
    while let Some(made) = lines.next().await {
        // A member's line is made only now: the guild's own line before it may have brought other grants.
        let lines = made.unwrap_or_else(|(key, mark)| vec![member_line(core, key, &mark)]);
        if !filling.fits(core, &lines) {
            break;
        }
        filling.add(lines);
        added += 1;
    }
    drop(lines);
    let all = added == marks.len();
    core.put_back(marks.into_iter().skip(added).collect());
    all
}

/// The line of a member, with the roles that grant something now.
fn member_line(core: &Core, key: Key, mark: &Mark) -> Line {
    let (guild, user) = match key {
        Key::Member { guild, user } => (guild, user),
        Key::Guild(guild) => (guild, 0),
    };
    if let Mark::Member { roles, .. } = mark {
        let held = match core.lock().answers.of(guild) {
            Some(answers) => granting(roles, &answers.granting_roles(guild)),
            None => roles.clone(),
        };
        let line = json!({
            "type": "member", "guild": guild.to_string(), "user": user.to_string(), "roles": id_texts(&held),
        });
        return Line::change(&line, format!("a member of guild {guild}"));
    }
    let line = json!({"type": "member_gone", "guild": guild.to_string(), "user": user.to_string()});
    Line::change(&line, format!("a member who left guild {guild}"))
}

async fn guild_lines(core: &Core, guild: u64, mark: GuildMark) -> Vec<Line> {
    let mut lines = Vec::new();
    if mark.gone {
        let line = json!({"type": "guild_gone", "id": guild.to_string()});
        lines.push(Line::change(&line, format!("the removal of guild {guild}")));
    }
    if let Some(mut line) = guild_line(core, guild, mark).await {
        line["type"] = "guild".into();
        let line = Line::change(&line, format!("guild {guild}"));
        if line.text.len() <= core.limits.line_bytes {
            core.lock().marks.count_is_sent(guild, core.clock.now());
            lines.push(line);
        } else {
            core.say_guild_is_too_long(guild);
        }
    }
    lines
}

/// `None` if there is nothing to report.
async fn guild_line(core: &Core, id: u64, mark: GuildMark) -> Option<Value> {
    if !(mark.fields || mark.ask || mark.whole) {
        return None;
    }
    let GuildState::Available(guild) = core.source.guild(id) else { return None };
    let last = core.lock().answers.of(id);
    if let Some(last) = &last
        && !mark.whole
        && !mark.ask
    {
        return Some(fields(&guild, last));
    }
    let answers = core.ask(&guild).await?;
    // Read again, because the callbacks may take a while, and what changes from now on is sent again.
    let GuildState::Available(guild) = core.source.guild(id) else { return None };
    if !mark.whole && last.as_ref() == Some(&answers) {
        return mark.fields.then(|| fields(&guild, &answers));
    }
    let (staff, _) = core.staff_of(&guild, &answers, false);
    Some(whole(&guild, &answers, staff.as_ref()))
}

impl Line {
    fn change(line: &Value, about: String) -> Self {
        Self { text: line.to_string(), about, what: What::Change }
    }

    fn into_feedback(self) -> Option<Entry> {
        match self.what {
            What::Feedback(entry) => Some(entry),
            _ => None,
        }
    }
}

/// Sends the batch under its numbers. Returns the delay before the next try, if one is needed.
pub(crate) async fn send(core: &Arc<Core>) -> Option<Duration> {
    let request = {
        let state = core.lock();
        let batch = state.batch.as_ref()?;
        let text: String = batch.lines.iter().flat_map(|line| [line.text.as_str(), "\n"]).collect();
        numbered(core, "POST", "/bot/events".to_owned(), batch.first, Body::Lines(text.into_bytes()))
    };
    match core.call(Channel::Sender, "events", request, |status, _| matches!(status, 409 | 413 | 422)).await {
        Answer::Later(delay) => Some(delay),
        Answer::Answered(200, data) => {
            acknowledged(core, &data);
            None
        }
        Answer::Answered(409, data) => refused(core, &data),
        Answer::Answered(status, data) => {
            shrink(core, status, &data);
            None
        }
    }
}

fn acknowledged(core: &Core, data: &Map<String, Value>) {
    let mut state = core.lock();
    let Some(batch) = state.batch.take() else { return };
    state.numbering.arrived(batch.first + batch.lines.len() as u64);
    state.resyncs = 0;
    note_owners(&mut state, data);
    core.reporter.count(|counters| counters.lines_sent += batch.lines.len() as u64);
    for line in batch.lines {
        match line.what {
            What::Change => {}
            What::Team(print) => state.team.acknowledged = Some(print),
            What::Feedback(entry) => core.end_feedback(&mut state, entry, Delivery::Delivered),
        }
    }
    if state.feedback.is_empty() {
        core.reporter.forget("feedback");
    }
}

/// The service is missing earlier events: sends complete snapshots, and the feedback again.
fn refused(core: &Core, data: &Map<String, Value>) -> Option<Duration> {
    let mut state = core.lock();
    let batch = state.batch.take()?;
    let after = batch.first + batch.lines.len() as u64;
    put_first(&mut state.feedback, batch.into_feedback());
    gap(core, &mut state, after, data)
}

/// Lines were refused, or the request is too large: the rest is sent under the same number.
fn shrink(core: &Core, status: u16, data: &Map<String, Value>) {
    let mut state = core.lock();
    let Some(batch) = state.batch.as_mut() else { return };
    let mut refused = refused_lines(status, data, batch.lines.len());
    if refused.is_empty() && batch.lines.len() == 1 {
        let why = if status == 422 { reason(data).to_owned() } else { meaning(status, data) };
        refused.insert(0, why);
    }
    if refused.is_empty() {
        let rest = batch.lines.split_off(batch.lines.len() / 2);
        let has_changes = rest.iter().any(|line| !matches!(line.what, What::Feedback(_)));
        put_first(&mut state.feedback, rest.into_iter().filter_map(Line::into_feedback));
        if has_changes {
            core.resync(&mut state);
        }
        return;
    }
    let lines = std::mem::take(&mut batch.lines);
    let mut dropped = Vec::new();
    for (index, line) in lines.into_iter().enumerate() {
        match refused.remove(&index) {
            Some(why) => dropped.push((line, why)),
            None => batch.lines.push(line),
        }
    }
    if batch.lines.is_empty() {
        state.batch = None;
    }
    for (line, why) in dropped {
        core.reporter.count(|counters| counters.lines_refused += 1);
        core.reporter.warn(&format!("the service refuses {}, which is dropped: {why}", line.about));
        match line.what {
            What::Change => {}
            // The service would refuse the same team again.
            What::Team(print) => state.team.acknowledged = Some(print),
            What::Feedback(entry) => core.end_feedback(&mut state, entry, Delivery::NotDelivered(why)),
        }
    }
}

impl Batch {
    /// The feedback in it.
    pub(crate) fn into_feedback(self) -> impl DoubleEndedIterator<Item = Entry> {
        self.lines.into_iter().filter_map(Line::into_feedback)
    }
}
