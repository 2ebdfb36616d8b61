//! Snapshots that are staged piece by piece while other things happen. They are passed to the store directly, because over HTTP
//! a piece of this size would wait in memory until the end of the body.

use domain::Time;
use domain::feed::{InstanceId, Lines, Scope, ShardKey, SnapshotLine, guild_line};
use serde_json::Value;
use store::Committed;

use super::driver::World;
use super::model::{Expected, Staged};
use super::ownership::covers;
use crate::harness::ndjson;

impl World {
    fn instance(&self, by: usize) -> InstanceId {
        InstanceId::parse(&self.bot.key_id, &self.model.processes[by].name).unwrap()
    }

    fn now(&self) -> Time {
        self.app.app.sources.clock.now()
    }

    pub(super) async fn begin_staging(&mut self, by: usize) {
        let next = self.model.processes[by].life.next;
        // Far enough ahead that events rarely overtake it.
        let sequence = (next + self.dice.below(20)).saturating_sub(1).max(1);
        let shard = self.dice.any_shard();
        self.note(format!("{} begins to stage {shard:?} at {sequence}", self.model.processes[by].name));
        let key = ShardKey::new(shard.0.try_into().unwrap(), shard.1.try_into().unwrap()).unwrap();
        let begun =
            self.app.app.sources.store.begin_snapshot(Scope::Shard(key), self.instance(by), sequence, self.now());
        let snapshot = begun.await.unwrap();
        self.model.note_call(by);
        self.staged.push((snapshot, Staged { by, sequence, shard, lines: Vec::new(), basis: None }));
        self.stage_more(self.staged.len() - 1).await;
    }

    pub(super) async fn stage_more(&mut self, index: usize) {
        let shard = self.staged[index].1.shard;
        let covered: Vec<u64> = self.dice.guilds.iter().copied().filter(|number| covers(shard, *number)).collect();
        // The same guild may appear again, in this piece or in another.
        let count = self.dice.below(2 * covered.len() as u64);
        let lines: Vec<Value> = (0..count).map(|_| self.dice.guild_line(self.dice.pick(&covered))).collect();
        self.note(format!("staged for {shard:?}\n{}", ndjson(&lines)));
        let read = |line: &Value| match guild_line(line.to_string().as_bytes()).unwrap() {
            SnapshotLine::One(read, _) => read,
            SnapshotLine::End(_) => panic!("{line} is not a guild"),
        };
        let (snapshot, staged) = &mut self.staged[index];
        self.app.app.sources.store.stage(*snapshot, Lines::Guilds(lines.iter().map(read).collect())).await.unwrap();
        self.model.stage(staged, lines);
    }

    pub(super) async fn commit_staged(&mut self, index: usize) {
        let (snapshot, staged) = self.staged.remove(index);
        self.note(format!("committed: {} {:?}", self.model.processes[staged.by].name, staged.shard));
        let committed = self.app.app.sources.store.commit_snapshot(snapshot, None, self.now()).await.unwrap();
        let expected = match self.model.commit(&staged) {
            Expected::Refused { next, .. } => Committed::Outdated { next },
            Expected::Accepted { next, unowned, .. } => match unowned.owner {
                Some(owner) => Committed::Outranked { next, owner: self.instance(owner) },
                None => Committed::Replaced { next },
            },
        };
        assert_eq!(committed, expected);
        self.compare().await;
    }

    pub(super) async fn abandon_staged(&mut self, index: usize) {
        let (snapshot, staged) = self.staged.remove(index);
        self.note(format!("abandoned: {} {:?}", self.model.processes[staged.by].name, staged.shard));
        self.app.app.sources.store.abandon_snapshot(snapshot).await.unwrap();
        self.compare().await;
    }

    pub(super) async fn clean_up(&mut self) {
        let batch = 1 + self.dice.index(7);
        self.note(format!("{batch} rows are cleaned up"));
        self.app.app.sources.store.clean_up(batch).await.unwrap();
        self.compare().await;
    }
}
