//! Random histories of two instances against a simple model: events, snapshots, heartbeats, silence, and clocks that run ahead.

mod model;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use self::model::{Model, SEVERAL, Staged};
use super::*;
use crate::domain::health::ShardBeat;
use crate::store::BotKey;
use crate::store::sqlite::snapshots::Staging;
use crate::store::sqlite::{clean_up, feed, guilds, health, keys, migrations, snapshots};

/// Enough for every remainder of the counts of shards that are tried.
const PLACES: u64 = 12;
const USERS: [u64; 3] = [1, 2, 3];
const NAMES: [&str; 2] = ["old", "new"];

#[derive(Clone, Debug)]
enum Said {
    Guild { place: u64, name: u8, grants: Option<bool>, staff: Option<BTreeSet<u64>> },
    Gone(u64),
    Member { place: u64, user: u64, moderator: bool },
    Left { place: u64, user: u64 },
    Unknown,
}

#[derive(Clone, Debug)]
enum Line {
    Guild { place: u64, name: u8, grants: Option<bool>, staff: Option<BTreeSet<u64>> },
    Unavailable(u64),
}

#[derive(Clone, Debug)]
enum Step {
    /// From the instance's next number, less 2 and plus this.
    Feed(usize, u64, Vec<Said>),
    Begin(usize, u32, u32, u64),
    Stage(prop::sample::Index, Vec<Line>),
    Commit(prop::sample::Index),
    Abandon(prop::sample::Index),
    CleanUp(usize),
    Restart,
    /// So many seconds go by.
    Pass(u64),
    /// An instance says when it started, and names these shards of that many.
    Beat(usize, u64, u32, Vec<u32>),
}

fn said() -> impl Strategy<Value = Said> {
    let place = || 1..=PLACES;
    let user = || prop::sample::select(&USERS[..]);
    let staff = prop::option::of(prop::collection::btree_set(user(), 0..3));
    prop_oneof![
        4 => (place(), any::<u8>(), any::<Option<bool>>(), staff)
            .prop_map(|(place, name, grants, staff)| Said::Guild { place, name, grants, staff }),
        1 => place().prop_map(Said::Gone),
        2 => (place(), user(), any::<bool>()).prop_map(|(place, user, moderator)| Said::Member { place, user, moderator }),
        1 => (place(), user()).prop_map(|(place, user)| Said::Left { place, user }),
        1 => Just(Said::Unknown),
    ]
}

fn snapshot_line() -> impl Strategy<Value = Line> {
    let staff = prop::option::of(prop::collection::btree_set(prop::sample::select(&USERS[..]), 0..3));
    let grants = prop_oneof![2 => Just(Some(true)), 1 => Just(Some(false)), 2 => Just(None)];
    prop_oneof![
        3 => (1..=PLACES, any::<u8>(), grants, staff)
            .prop_map(|(place, name, grants, staff)| Line::Guild { place, name, grants, staff }),
        1 => (1..=PLACES).prop_map(Line::Unavailable),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let which = any::<prop::sample::Index>;
    prop_oneof![
        4 => (0..2_usize, 0..4_u64, prop::collection::vec(said(), 0..5)).prop_map(|(by, at, said)| Step::Feed(by, at, said)),
        3 => (0..2_usize, 1..=4_u32, 0..4_u32, 0..4_u64)
            .prop_map(|(by, count, id, at)| Step::Begin(by, count, id % count, at)),
        4 => (which(), prop::collection::vec(snapshot_line(), 0..12)).prop_map(|(which, lines)| Step::Stage(which, lines)),
        4 => which().prop_map(Step::Commit),
        1 => which().prop_map(Step::Abandon),
        3 => (1..8_usize).prop_map(Step::CleanUp),
        1 => Just(Step::Restart),
        2 => prop::sample::select(&[1, 50, 90][..]).prop_map(Step::Pass),
        2 => (0..2_usize, prop::sample::select(&[50, 100, 200, u64::MAX][..]), 1..=4_u32, prop::collection::vec(0..4_u32, 0..3))
            .prop_map(|(by, started, count, own)| Step::Beat(by, started, count, own)),
    ]
}

fn to_guild(place: u64, name: u8, grants: Option<bool>, staff: Option<&BTreeSet<u64>>) -> Guild {
    let moderator = |granted| if granted { PermissionSet::of(&[Permission::Mod]) } else { PermissionSet::EMPTY };
    Guild {
        id: placed(place),
        name: name.to_string(),
        grants: grants.map(|granted| [(id(70), moderator(granted))].into()),
        staff: staff.map(|users| users.iter().map(|user| (id(*user), vec![id(70)])).collect()),
        ..guild(1)
    }
}

fn to_event(said: &Said) -> Event {
    Event::Change(match said {
        Said::Guild { place, name, grants, staff } => Change::Guild(to_guild(*place, *name, *grants, staff.as_ref())),
        Said::Gone(place) => Change::GuildGone(placed(*place)),
        Said::Member { place, user, moderator } => {
            Change::Member { guild: placed(*place), user: id(*user), roles: vec![id(if *moderator { 70 } else { 71 })] }
        }
        Said::Left { place, user } => Change::MemberGone { guild: placed(*place), user: id(*user) },
        Said::Unknown => return Event::Ignored("unknown".to_owned()),
    })
}

fn to_line(line: &Line) -> GuildLine {
    match line {
        Line::Guild { place, name, grants, staff } => {
            GuildLine::Guild(to_guild(*place, *name, *grants, staff.as_ref()))
        }
        Line::Unavailable(place) => GuildLine::Unavailable(placed(*place)),
    }
}

struct World {
    connection: Connection,
    staging: Staging,
    touched: Vec<Topic>,
    model: Model,
}

impl World {
    fn new() -> Self {
        let mut connection = Connection::open_in_memory().unwrap();
        migrations::run(&mut connection).unwrap();
        let mut touched = Vec::new();
        let key = BotKey { id: KEY.to_owned(), label: String::new(), created: NOW, revoked: None };
        keys::add(&connection, &mut touched, &key, token(200)).unwrap();
        let mut model = Model { now: NOW.seconds(), ..Model::default() };
        model.instances.iter_mut().for_each(|instance| instance.next = 1);
        let mut world = Self { connection, staging: Staging::default(), touched, model };
        for (by, seconds) in [100, 200].into_iter().enumerate() {
            world.run(Step::Beat(by, seconds, 1, Vec::new())).unwrap();
        }
        world
    }

    fn now(&self) -> Time {
        Time::from_seconds(self.model.now)
    }

    fn pick(&self, which: prop::sample::Index) -> Option<usize> {
        (!self.model.staged.is_empty()).then(|| which.index(self.model.staged.len()))
    }

    fn run(&mut self, step: Step) -> Result<(), TestCaseError> {
        let (connection, now) = (&self.connection, self.now());
        match step {
            Step::Pass(seconds) => self.model.now += seconds,
            Step::Beat(by, started, shard_count, own) => {
                let shards = own.iter().map(|id| ShardBeat { id: *id, sent: None, acknowledged: None, latency: None });
                let (name, shards) = (instance(NAMES[by]), shards.collect());
                let started_at = Time::from_seconds(started.min(u64::MAX / 1000));
                let beat = Heartbeat { instance: name, started_at, memory: 1, shard_count, shards };
                health::beat(connection, &mut self.touched, beat, now).unwrap();
                let known = &mut self.model.instances[by];
                // Both were first seen at the beginning.
                known.started = started.min(NOW.seconds());
                known.last_sign = self.model.now;
                known.own.extend(own.into_iter().filter_map(|id| ShardKey::new(shard_count, id)));
            }
            Step::Feed(by, at, said) => {
                let first = (self.model.instances[by].next + at).saturating_sub(2).max(1);
                let events: Vec<_> = said.iter().map(to_event).collect();
                let fed = feed::feed(connection, &mut self.touched, &instance(NAMES[by]), first, &events, now).unwrap();
                prop_assert_eq!(fed, self.model.feed(by, first, &said));
            }
            Step::Begin(by, count, number, at) => {
                let shard = ShardKey::new(count, number).unwrap();
                let at = (self.model.instances[by].next + at).saturating_sub(1).max(1);
                let scope = Scope::Shard(shard);
                let id = snapshots::begin(connection, &self.staging, scope, &instance(NAMES[by]), at, now).unwrap();
                self.model.instances[by].last_sign = self.model.now;
                self.model.staged.push(Staged { id, by, shard, at, lines: BTreeMap::new(), basis: None });
            }
            Step::Stage(which, lines) => {
                let Some(index) = self.pick(which) else { return Ok(()) };
                let latest = self.model.latest(self.model.staged[index].shard);
                let staged = &mut self.model.staged[index];
                let place = |line: &Line| match line {
                    Line::Guild { place, .. } | Line::Unavailable(place) => *place,
                };
                let own: Vec<_> = lines.into_iter().filter(|line| staged.shard.covers(placed(place(line)))).collect();
                let lines = Lines::Guilds(own.iter().map(to_line).collect());
                prop_assert_eq!(snapshots::stage(connection, staged.id, lines).unwrap(), Some(()));
                let carries = |line: &Line| matches!(line, Line::Guild { grants, staff, .. } if grants.is_none() || staff.is_none());
                if own.iter().any(carries) {
                    let basis = staged.basis.unwrap_or(latest);
                    staged.basis = Some(if basis == latest { latest } else { SEVERAL });
                }
                staged.lines.extend(own.into_iter().map(|line| (place(&line), line)));
            }
            Step::Commit(which) => {
                let Some(index) = self.pick(which) else { return Ok(()) };
                let staged = self.model.staged.remove(index);
                let done = snapshots::commit(connection, &mut self.touched, &self.staging, staged.id, now).unwrap();
                prop_assert_eq!(done, Some(self.model.commit(staged)));
            }
            Step::Abandon(which) => {
                let Some(index) = self.pick(which) else { return Ok(()) };
                let staged = self.model.staged.remove(index);
                snapshots::abandon(connection, &self.staging, staged.id).unwrap();
            }
            Step::CleanUp(batch) => drop(clean_up::clean_up(connection, &self.staging, batch).unwrap()),
            Step::Restart => {
                self.staging = Staging::default();
                self.model.staged.clear();
            }
        }
        self.compare()
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        for user in USERS {
            let facts = guilds::person(&self.connection, id(user), (1..=PLACES).map(placed).collect()).unwrap();
            let shown =
                facts.guilds.into_iter().map(|it| (it.id.get() >> 22, it.name, it.granted.has(Permission::Mod)));
            let expected = self
                .model
                .guilds
                .iter()
                .map(|(place, known)| (*place, known.name.clone(), known.grants && known.staff.contains(&user)));
            prop_assert_eq!(shown.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        }
        Ok(())
    }

    fn rows(&self, table: &str) -> usize {
        let sql = format!("SELECT count(*) FROM {table}");
        self.connection.query_row(&sql, [], |row| row.get::<_, u32>(0)).unwrap() as usize
    }

    /// Cleaning up ends, and leaves exactly what can be seen.
    fn finish(mut self) -> Result<(), TestCaseError> {
        self.run(Step::Restart)?;
        let calls = (0..10_000).take_while(|_| clean_up::clean_up(&self.connection, &self.staging, 3).unwrap() > 0);
        prop_assert!(calls.count() < 10_000);
        self.compare()?;
        let known = &self.model.guilds;
        prop_assert_eq!(self.rows("guilds"), known.len());
        prop_assert_eq!(self.rows("guild_staff"), known.values().map(|known| known.staff.len()).sum::<usize>());
        for table in ["feed_sweeps", "staged_snapshots", "staged_kept"] {
            prop_assert_eq!(self.rows(table), 0, "{}", table);
        }
        let state = feed::state(&self.connection).unwrap();
        prop_assert_eq!(state.guilds, known.len() as u64);
        for shard in state.shards {
            let covered = known.keys().filter(|place| shard.shard.covers(placed(**place))).count();
            prop_assert!(shard.guilds <= covered as u64, "{:?}", shard);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn every_history_ends_as_the_model_says(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        for step in steps {
            world.run(step)?;
        }
        world.finish()?;
    }
}
