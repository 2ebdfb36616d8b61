//! Compares the service's answers and data with the model.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::driver::World;
use super::model::{Expected, Model, Shard, UnownedEvents};
use crate::harness::{Answer, on_postgres};

/// How an answer differs from the expected one; `None` if it does not.
pub fn disagreement(model: &Model, answer: &Answer, expected: &Expected) -> Option<String> {
    let data = answer.data();
    let agrees = match expected {
        Expected::Accepted { applied, ignored, next, unowned, lost } => {
            let counts = [data["applied"].as_u64(), data["ignored"].as_u64(), data["next"].as_u64()];
            answer.status == 200
                && counts == [Some(*applied as u64), Some(*ignored as u64), Some(*next)]
                && explains(model, &data["reasons"], unowned)
                && [&data["replaced"], &data["free"]].map(shards) == *lost
        }
        Expected::Refused { error, next } => {
            answer.status == 409 && data["error"] == *error && data["next"].as_u64() == Some(*next)
        }
    };
    (!agrees).then(|| format!("{expected:?} was expected, and this came: {}", answer.text()))
}

/// The shards in a list of an answer.
fn shards(list: &Value) -> Vec<Shard> {
    let number = |shard: &Value, name: &str| shard[name].as_u64().unwrap();
    let list = list.as_array().map_or(&[][..], Vec::as_slice);
    list.iter().map(|shard| (number(shard, "shard_count"), number(shard, "shard_id"))).collect()
}

/// Whether the reasons in an answer match exactly what was ignored because of other processes.
fn explains(model: &Model, reasons: &Value, unowned: &UnownedEvents) -> bool {
    let reasons = reasons.as_array().map_or(&[][..], Vec::as_slice);
    let is_told = |parts: [String; 2]| {
        reasons.iter().filter_map(Value::as_str).any(|reason| parts.iter().all(|part| reason.contains(part)))
    };
    let overruled = match unowned.owner {
        None => !is_told(["ignored: the shard belongs to".to_owned(), String::new()]),
        Some(owner) => {
            let name = &model.processes[owner].name;
            is_told([format!("{} ignored: the shard belongs to", unowned.overruled), format!("`{name}`")])
        }
    };
    let unclaimed = "ignored: this process has neither";
    let unclaimed = match unowned.unclaimed {
        0 => !is_told([unclaimed.to_owned(), String::new()]),
        count => is_told([format!("{count} {unclaimed}"), String::new()]),
    };
    overruled && unclaimed
}

impl World {
    /// Asserts that everything people and the bot can see matches the model.
    pub async fn compare(&self) {
        let anon = self.app.anon();
        let [one, two, three] = [0, 1, 2].map(|index| self.people[index].2.guilds());
        let (one, two, three, team, feedback, status, state) =
            tokio::join!(one, two, three, anon.get("/team"), anon.get("/feedback"), anon.get("/"), self.bot.state());
        for ((name, user, _), shown) in self.people.iter().zip([one, two, three]) {
            assert_eq!(json!(shown), json!(self.model.guilds_of(*user)), "the guilds of {name}");
        }
        assert_eq!(team.data(), json!(self.model.roster()));
        let feedback: BTreeSet<String> = feedback.data().as_array().unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(feedback, self.model.shown_feedback());
        let status = status.data();
        let bot = &status["health"]["bot"];
        let shown =
            json!({"shards": bot["shards"], "memory": status["resources"]["memory"], "epoch": bot["uptime"]["epoch"]});
        assert_eq!(shown, self.model.status());
        for process in &self.model.processes {
            let known = state["instances"].as_array().unwrap().iter().find(|one| one["instance"] == process.name);
            assert_eq!(known.map_or(1, |one| one["next"].as_u64().unwrap()), process.life.next, "{}", process.name);
        }
        let shards = state["shards"].as_array().unwrap().iter();
        let senders: BTreeSet<String> = shards
            .map(|shard| format!("{}/{} {}", shard["shard_count"], shard["shard_id"], shard["instance"]))
            .collect();
        let sent = self.model.sent.iter();
        let expected: BTreeSet<String> = sent
            .map(|((count, id), (by, _))| format!("{count}/{id} {}", json!(self.model.processes[*by].name)))
            .collect();
        assert_eq!(senders, expected, "who sent the snapshots");
        self.compare_totals().await;
        let counts = json!([state["subscriptions"], state["feedback"], state["team"]]);
        let model = &self.model;
        assert_eq!(counts, json!([model.subscriptions.len(), model.feedback.len(), model.team.len()]));
    }

    /// The totals are exact, unless a sweep still looks for guilds that a resharding has hidden; shards and feedback always
    /// are.
    async fn compare_totals(&self) {
        let (shown, expected) = (self.app.anon().get("/stats").await.data(), self.model.totals());
        if shown == expected {
            return;
        }
        let is_sweep_left = self.app.folder.count("feed_sweeps WHERE NOT whole").await > 0;
        // The last sweep may have ended between the two reads.
        let shown = if is_sweep_left { shown } else { self.app.anon().get("/stats").await.data() };
        let names: &[&str] =
            if is_sweep_left { &["shards", "feedback"] } else { &["guilds", "members", "shards", "feedback"] };
        for name in names {
            assert_eq!(shown[name], expected[name], "{name}");
        }
    }

    /// Asserts that cleaning up ends, and leaves exactly what is visible in the store.
    pub async fn check_what_is_left(mut self) {
        self.note("the end");
        for (snapshot, _) in std::mem::take(&mut self.staged) {
            self.app.app.sources.store.abandon_snapshot(snapshot).await.unwrap();
        }
        if on_postgres() {
            // SQLite discards what was being staged at a restart; PostgreSQL does so ten minutes later.
            for snapshot in std::mem::take(&mut self.cut_off) {
                self.app.app.sources.store.abandon_snapshot(snapshot).await.unwrap();
            }
        }
        self.app.settled().await;
        let mut calls = 0;
        while self.app.app.sources.store.clean_up(3).await.unwrap() > 0 {
            calls += 1;
            assert!(calls < 10_000, "cleaning up does not end");
        }
        self.compare().await;
        assert_eq!(self.app.anon().get("/stats").await.data(), self.model.totals());
        let guilds = &self.model.guilds;
        let rows = async |table: &str| self.app.folder.count(table).await;
        assert_eq!(rows("guilds").await, guilds.len());
        assert_eq!(rows("guild_staff").await, guilds.values().map(|guild| guild.staff.len()).sum::<usize>());
        for table in ["feed_sweeps", "staged_snapshots", "staged_kept", "staged_subscriptions"] {
            assert_eq!(rows(table).await, 0, "{table}");
        }
        let state = self.bot.state().await;
        assert_eq!(state["guilds"], guilds.len());
        for shard in state["shards"].as_array().unwrap() {
            let [count, id, held] = ["shard_count", "shard_id", "guilds"].map(|name| shard[name].as_u64().unwrap());
            let covered = guilds.keys().filter(|guild| *guild % count == id).count();
            assert!(held <= covered as u64, "{shard} has guilds that it does not cover");
        }
    }
}
