//! Random histories of two instances against a model that a reader can believe at a glance.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::store::SnapshotId;
use crate::store::sqlite::snapshots::Staging;
use crate::store::sqlite::{clean_up, feed, guilds, health, migrations, snapshots};

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
    Guild { place: u64, name: u8, staff: BTreeSet<u64> },
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
    let staff = prop::collection::btree_set(prop::sample::select(&USERS[..]), 0..3);
    prop_oneof![
        3 => (1..=PLACES, any::<u8>(), staff).prop_map(|(place, name, staff)| Line::Guild { place, name, staff }),
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
    ]
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    name: String,
    grants: bool,
    staff: BTreeSet<u64>,
}

struct Staged {
    id: SnapshotId,
    by: usize,
    shard: ShardKey,
    at: u64,
    lines: BTreeMap<u64, Line>,
}

#[derive(Default)]
struct Model {
    guilds: BTreeMap<u64, Known>,
    /// Who sent the snapshot that covers a place. The second instance started later.
    owners: BTreeMap<u64, usize>,
    next: [u64; 2],
    staged: Vec<Staged>,
}

impl Model {
    fn is_outranked(&self, by: usize, place: u64) -> bool {
        self.owners.get(&place).is_some_and(|owner| *owner > by)
    }

    /// Whether it counts as applied.
    fn apply(&mut self, by: usize, said: &Said) -> bool {
        let place = match said {
            Said::Unknown => return false,
            Said::Guild { place, .. } | Said::Gone(place) | Said::Member { place, .. } | Said::Left { place, .. } => {
                place
            }
        };
        if self.is_outranked(by, *place) {
            return false;
        }
        match said {
            Said::Guild { place, name, grants, staff } => {
                let known = self.guilds.entry(*place).or_default();
                known.name = name.to_string();
                known.grants = grants.unwrap_or(known.grants);
                known.staff = staff.clone().unwrap_or(std::mem::take(&mut known.staff));
            }
            Said::Gone(place) => drop(self.guilds.remove(place)),
            Said::Member { place, user, moderator } => {
                if let Some(known) = self.guilds.get_mut(place) {
                    known.staff.remove(user);
                    if *moderator && known.grants {
                        known.staff.insert(*user);
                    }
                }
            }
            Said::Left { place, user } => {
                self.guilds.get_mut(place).map(|known| known.staff.remove(user));
            }
            Said::Unknown => {}
        }
        true
    }

    fn feed(&mut self, by: usize, first: u64, said: &[Said]) -> Fed {
        let next = self.next[by];
        if first > next {
            return Fed::Gap { next };
        }
        let mut applied = 0;
        for (number, said) in (first..).zip(said) {
            if number >= next {
                applied += u64::from(self.apply(by, said));
            }
        }
        self.next[by] = next.max(first + said.len() as u64);
        Fed::Applied { applied, ignored: said.len() as u64 - applied, next: self.next[by] }
    }

    fn commit(&mut self, staged: Staged) -> Committed {
        let Staged { by, shard, at, lines, .. } = staged;
        if self.next[by] > at {
            return Committed::Outdated { next: self.next[by] };
        }
        self.next[by] = at;
        let covered: Vec<u64> = (1..=PLACES).filter(|place| shard.covers(placed(*place))).collect();
        if covered.iter().any(|place| self.is_outranked(by, *place)) {
            return Committed::Outranked { next: at };
        }
        for place in covered {
            self.owners.insert(place, by);
            match lines.get(&place) {
                None => drop(self.guilds.remove(&place)),
                Some(Line::Unavailable(_)) => {}
                Some(Line::Guild { name, staff, .. }) => {
                    let known = Known { name: name.to_string(), grants: true, staff: staff.clone() };
                    self.guilds.insert(place, known);
                }
            }
        }
        Committed::Replaced { next: at }
    }
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
        Line::Guild { place, name, staff } => GuildLine::Guild(to_guild(*place, *name, Some(true), Some(staff))),
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
        for (name, seconds) in NAMES.into_iter().zip([100, 200]) {
            let (instance, started_at) = (name.to_owned(), Time::from_seconds(seconds));
            let beat = Heartbeat { instance, started_at, memory: 1, shard_count: 1, shards: Vec::new() };
            health::beat(&connection, &mut touched, beat, NOW).unwrap();
        }
        let model = Model { next: [1, 1], ..Model::default() };
        Self { connection, staging: Staging::default(), touched, model }
    }

    fn pick(&self, which: prop::sample::Index) -> Option<usize> {
        (!self.model.staged.is_empty()).then(|| which.index(self.model.staged.len()))
    }

    fn run(&mut self, step: Step) -> Result<(), TestCaseError> {
        let connection = &self.connection;
        match step {
            Step::Feed(by, at, said) => {
                let first = (self.model.next[by] + at).saturating_sub(2).max(1);
                let events: Vec<_> = said.iter().map(to_event).collect();
                let fed = feed::feed(connection, &mut self.touched, &instance(NAMES[by]), first, &events, NOW).unwrap();
                prop_assert_eq!(fed, self.model.feed(by, first, &said));
            }
            Step::Begin(by, count, number, at) => {
                let shard = ShardKey::new(count, number).unwrap();
                let at = (self.model.next[by] + at).saturating_sub(1).max(1);
                let scope = Scope::Shard(shard);
                let id = snapshots::begin(connection, &self.staging, scope, &instance(NAMES[by]), at, NOW).unwrap();
                self.model.staged.push(Staged { id, by, shard, at, lines: BTreeMap::new() });
            }
            Step::Stage(which, lines) => {
                let Some(index) = self.pick(which) else { return Ok(()) };
                let staged = &mut self.model.staged[index];
                let place = |line: &Line| match line {
                    Line::Guild { place, .. } | Line::Unavailable(place) => *place,
                };
                let own: Vec<_> = lines.into_iter().filter(|line| staged.shard.covers(placed(place(line)))).collect();
                let lines = Lines::Guilds(own.iter().map(to_line).collect());
                prop_assert_eq!(snapshots::stage(connection, staged.id, lines).unwrap(), Some(()));
                staged.lines.extend(own.into_iter().map(|line| (place(&line), line)));
            }
            Step::Commit(which) => {
                let Some(index) = self.pick(which) else { return Ok(()) };
                let staged = self.model.staged.remove(index);
                let done = snapshots::commit(connection, &mut self.touched, &self.staging, staged.id, NOW).unwrap();
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
