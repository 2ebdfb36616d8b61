//! What a bot might send, at random, in the feed's own JSON.

use std::collections::BTreeMap;

use runtime::random::Random;
use sandbox::people::{MEMBER, OWNER};
use serde_json::{Value, json};

use super::model::Shard;
use super::ownership::covers;
use super::{PEOPLE, guild_id};

const ROLES: [u64; 3] = [500, 501, 502];
const GRANTABLE: [&str; 6] = ["ERLC_MANAGER", "ERLC_ADMIN", "ERLC_STAFF", "ADMIN", "MOD", "SESSION_STARTER"];
const TEAM_KEYS: [&str; 4] = ["FOUNDER", "EXECUTIVE", "SUPPORT", "DOCWRITER"];

pub struct Generator {
    random: Random,
    /// The numbers of the guilds it sends.
    pub guilds: Vec<u64>,
    /// Possible shard counts.
    pub counts: Vec<u64>,
    /// The number of feedback entries; the service shows five at once.
    pub feedback: u64,
    /// The kinds of events that it never sends.
    pub omitted: Vec<&'static str>,
}

impl Generator {
    /// One that sends everything possible. Twelve guilds have every remainder of these counts.
    pub fn new(seed: u64) -> Self {
        let (guilds, counts) = ((1..=12).collect(), (1..=4).collect());
        Self { random: Random::seeded(seed), guilds, counts, feedback: 5, omitted: Vec::new() }
    }

    pub fn below(&self, end: u64) -> u64 {
        self.random.number() % end
    }

    pub fn one_in(&self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    /// An index into something with this many.
    pub fn index(&self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).unwrap()
    }

    pub fn pick<T: Clone>(&self, from: &[T]) -> T {
        from[self.index(from.len())].clone()
    }

    fn some<T: Clone>(&self, from: &[T]) -> Vec<T> {
        from.iter().filter(|_| self.one_in(2)).cloned().collect()
    }

    /// The IDs of the shards that it has guilds on, under this count.
    pub fn shards_of(&self, count: u64) -> Vec<u64> {
        (0..count).filter(|id| self.guilds.iter().any(|guild| covers((count, *id), *guild))).collect()
    }

    /// A shard count and some of those shards, including the first.
    pub fn own_shards(&self) -> (u64, Vec<u64>) {
        let count = self.pick(&self.counts);
        let all = self.shards_of(count);
        (count, all.iter().copied().filter(|id| *id == all[0] || !self.one_in(4)).collect())
    }

    pub fn any_shard(&self) -> Shard {
        let count = self.pick(&self.counts);
        (count, self.pick(&self.shards_of(count)))
    }

    fn user(&self) -> String {
        self.pick(&PEOPLE).1.to_string()
    }

    fn roles(&self, guild: u64) -> Vec<String> {
        let mut roles = self.some(&ROLES);
        if self.one_in(5) {
            roles.push(guild_id(guild));
        }
        roles.iter().map(u64::to_string).collect()
    }

    pub fn guild(&self, number: u64) -> Value {
        let icon = self.pick(&[Value::Null, json!("abc"), json!("https://example.com/i.png")]);
        let mut guild = json!({"id": guild_id(number).to_string(), "name": format!("n{}", self.below(1000)),
            "icon": icon, "owner": self.pick(&[self.user(), "7".to_owned(), "8".to_owned()])});
        if self.one_in(2) {
            guild["members"] = self.below(1000).into();
            guild["setup"] = self.one_in(2).into();
            guild["linked"] = self.one_in(2).into();
        }
        if !self.one_in(3) {
            let grants = self.roles(number).into_iter().map(|role| (role, json!([self.pick(&GRANTABLE)])));
            guild["grants"] = grants.collect::<serde_json::Map<_, _>>().into();
        }
        if !self.one_in(3) {
            let staff: BTreeMap<String, Vec<String>> =
                [self.user(), self.user()].into_iter().map(|user| (user, self.roles(number))).collect();
            guild["staff"] = json!(staff);
        }
        guild
    }

    /// A line of a snapshot.
    pub fn guild_line(&self, number: u64) -> Value {
        if self.one_in(4) {
            return json!({"id": guild_id(number).to_string(), "unavailable": true});
        }
        self.guild(number)
    }

    pub fn snapshot_of(&self, shard: Shard) -> Vec<Value> {
        let covered = self.guilds.iter().filter(|number| covers(shard, **number) && !self.one_in(4));
        covered.map(|number| self.guild_line(*number)).collect()
    }

    fn person(&self) -> Value {
        let name = format!("p{}", self.below(100));
        json!({"id": self.pick(&["70", "71", "72"]), "username": name.to_lowercase(), "name": name,
            "avatar": format!("https://example.com/{}.png", self.below(9))})
    }

    fn subscription(&self, user: &str, now: u64) -> Value {
        let guilds: Vec<String> =
            self.some(&self.guilds).into_iter().map(|number| guild_id(number).to_string()).collect();
        let until = self.pick(&[Value::Null, json!(now / 1000 + 20 + self.below(200)), json!(now / 1000 - 5)]);
        json!({"userid": user, "slots": self.below(5), "guilds": guilds, "active_until": until})
    }

    /// A snapshot of the subscriptions; some of them end soon after this time, or have ended before it (milliseconds).
    pub fn all_subscriptions(&self, now: u64) -> Vec<Value> {
        let users = PEOPLE.map(|(_, user)| user.to_string());
        self.some(&users).into_iter().map(|user| self.subscription(&user, now)).collect()
    }

    fn team(&self) -> Vec<Value> {
        let ids = ["70".to_owned(), "71".to_owned(), OWNER.to_string(), MEMBER.to_string()];
        let mut members = self.some(&ids);
        if self.one_in(2) {
            members.reverse();
        }
        let member = |id| {
            let name = format!("t{}", self.below(100));
            json!({"discord_id": id, "username": name, "name": name, "avatar": "https://example.com/t.png",
                "role": "Helper", "color": "#5865F2", "category": self.pick(&["support", "direction"]),
                "position": self.below(3), "permissions": self.some(&TEAM_KEYS)})
        };
        members.into_iter().map(member).collect()
    }

    /// This many events at this time.
    pub fn events(&self, count: u64, now: u64) -> Vec<Value> {
        (0..count).map(|_| self.event(now)).collect()
    }

    fn event(&self, now: u64) -> Value {
        loop {
            let event = self.any_event(now);
            if !self.omitted.iter().any(|kind| event["type"] == *kind) {
                return event;
            }
        }
    }

    fn any_event(&self, now: u64) -> Value {
        let number = self.pick(&self.guilds);
        let guild = guild_id(number).to_string();
        let feedback = format!("f{}", self.below(self.feedback));
        let with = |kind: &str, mut fields: Value| {
            fields["type"] = kind.into();
            fields
        };
        match self.below(20) {
            0..=4 => with("guild", self.guild(number)),
            5 => json!({"type": "guild_gone", "id": guild}),
            6..=8 => json!({"type": "member", "guild": guild, "user": self.user(), "roles": self.roles(number)}),
            9 => json!({"type": "member_gone", "guild": guild, "user": self.user()}),
            10 | 11 => with("subscription", self.subscription(&self.user(), now)),
            12 => json!({"type": "subscription_gone", "userid": self.user()}),
            13 | 14 => json!({"type": "feedback", "id": feedback, "feedback": format!("w{}", self.below(1000)),
                "rating": 2 + self.below(4), "timestamp": self.below(1000), "submitter": self.person()}),
            15 => json!({"type": "feedback_gone", "id": feedback}),
            16 | 17 => json!({"type": "team", "members": self.team()}),
            18 => with("user", self.person()),
            _ => json!({"type": "of_tomorrow", "id": guild}),
        }
    }

    /// A heartbeat's report on these shards.
    pub fn shard_reports(&self, own: &[u64]) -> Vec<Value> {
        let maybe = |value: u64| if self.one_in(3) { Value::Null } else { value.into() };
        let report = |id| {
            json!({"id": id, "sent_ms_ago": maybe(self.below(9000)), "acknowledged_ms_ago": maybe(self.below(9000)),
                "latency": maybe(self.below(200))})
        };
        own.iter().map(report).collect()
    }
}
