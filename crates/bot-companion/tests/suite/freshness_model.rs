//! Random changes against a simple model: after each acknowledgement the next read is compared with the model, while others
//! keep every answer cached.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::{Change, Guild, Permission};
use runtime::random::Random;
use sandbox::people::{MEMBER, MODERATOR};
use serde_json::Value;

use crate::harness::{
    Client, TestApp, feedback, grants, guild, id, listed, staff, subscription, team, team_member, true_keys,
};

const GUILDS: u64 = 4;
const PEOPLE: [(&str, u64); 2] = [("member", MEMBER), ("moderator", MODERATOR)];
const ROUNDS: usize = 300;
/// Roles that the guilds may map, with the permission that each then grants.
const ROLES: [(u64, Permission); 3] =
    [(500, Permission::Mod), (501, Permission::ErlcStaff), (502, Permission::SessionStarter)];

/// Everything the bot has sent, in the simplest form.
#[derive(Default)]
struct Model {
    guilds: BTreeMap<u64, ModelGuild>,
    /// Guilds that someone has left: `(guild, user)`.
    left: BTreeSet<(u64, u64)>,
    subscriptions: BTreeMap<u64, BTreeSet<u64>>,
    team: BTreeMap<u64, Permission>,
    feedback: BTreeMap<String, u8>,
}

struct ModelGuild {
    name: String,
    owner: u64,
    members: u64,
    mapped: BTreeSet<u64>,
    staff: BTreeMap<u64, BTreeSet<u64>>,
}

impl Model {
    /// A random change, applied here first.
    fn step(&mut self, random: &Random, round: usize) -> Change {
        let number = random.number() % GUILDS + 1;
        let user = PEOPLE[usize::try_from(random.number() % 2).unwrap()].1;
        let subset = |of: &[u64]| -> BTreeSet<u64> {
            of.iter().copied().filter(|_| random.number().is_multiple_of(2)).collect()
        };
        let roles = [500, 501, 502];
        match random.number() % 10 {
            0 | 1 => {
                let mapped = subset(&roles);
                let held = subset(&roles);
                let is_staff = held.intersection(&mapped).next().is_some();
                let staff_now = if is_staff { BTreeMap::from([(user, held)]) } else { BTreeMap::new() };
                let owner = if random.number().is_multiple_of(3) { user } else { 7 };
                let name = format!("g{number} r{round}");
                let members = random.number() % 1000;
                let said = Guild {
                    members,
                    grants: Some(mapped.iter().map(|role| grant(*role)).collect()),
                    staff: Some(
                        staff_now.iter().flat_map(|(user, held)| staff(&[(*user, &collected(held))])).collect(),
                    ),
                    ..guild(number, &name, owner)
                };
                self.guilds.insert(number, ModelGuild { name, owner, members, mapped, staff: staff_now });
                Change::Guild(said)
            }
            2 => {
                self.guilds.remove(&number);
                Change::GuildGone(id(number))
            }
            3 | 4 => {
                let held = subset(&roles);
                if let Some(guild) = self.guilds.get_mut(&number) {
                    if held.intersection(&guild.mapped).next().is_some() {
                        guild.staff.insert(user, held.clone());
                    } else {
                        guild.staff.remove(&user);
                    }
                }
                Change::Member { guild: id(number), user: id(user), roles: held.into_iter().map(id).collect() }
            }
            // Rarely, because nobody comes back without the provider.
            5 if random.number().is_multiple_of(8) => {
                self.left.insert((number, user));
                if let Some(guild) = self.guilds.get_mut(&number) {
                    guild.staff.remove(&user);
                }
                Change::MemberGone { guild: id(number), user: id(user) }
            }
            5 | 6 => {
                let named = subset(&[1, 2, 3, 4]);
                let change = Change::Subscription(subscription(user, &collected(&named), None));
                self.subscriptions.insert(user, named);
                change
            }
            7 => {
                self.subscriptions.remove(&user);
                Change::SubscriptionGone(id(user))
            }
            8 => {
                let keys = [Permission::Support, Permission::Founder, Permission::Docwriter];
                let key = keys[usize::try_from(random.number() % 3).unwrap()];
                self.team =
                    if random.number().is_multiple_of(3) { BTreeMap::new() } else { BTreeMap::from([(user, key)]) };
                let member =
                    |(user, key): (&u64, &Permission)| team_member(*user, &format!("r{round}"), "x", 1, &[*key]);
                team(self.team.iter().map(member).collect())
            }
            _ => {
                let name = format!("f{}", random.number() % 6);
                let stars = u8::try_from(random.number() % 6).unwrap();
                if stars == 0 {
                    self.feedback.remove(&name);
                    Change::FeedbackGone(name)
                } else {
                    self.feedback.insert(name.clone(), stars);
                    Change::Feedback(feedback(&name, stars))
                }
            }
        }
    }

    /// The guilds that a person sees: name, and the permissions that this model knows.
    fn guilds_of(&self, user: u64) -> BTreeMap<String, BTreeSet<&'static str>> {
        let in_it = |number: &u64| !self.left.contains(&(*number, user));
        let seen = self.guilds.iter().filter(|(number, _)| in_it(number));
        seen.map(|(number, guild)| {
            let mut keys = BTreeSet::new();
            if guild.owner == user {
                keys.extend(["MANAGE_SERVER", "MOD", "ERLC_STAFF", "SESSION_STARTER"]);
            }
            let held = guild.staff.get(&user).into_iter().flatten().filter(|role| guild.mapped.contains(role));
            keys.extend(held.map(|role| key_of(*role).name()));
            keys.extend(self.team.get(&user).map(|key| key.name()));
            if self.subscriptions.contains_key(&user) {
                keys.insert("SERVICE_PLUS_MEMBER");
            }
            if self.subscriptions.values().any(|named| named.contains(number)) {
                keys.insert("SERVICE_PLUS_GUILD");
            }
            (guild.name.clone(), keys)
        })
        .collect()
    }

    /// Guilds, members, feedback entries and the sum of their ratings.
    fn totals(&self) -> (usize, u64, usize, u64) {
        let ratings = self.feedback.values().map(|stars| u64::from(*stars)).sum();
        (self.guilds.len(), self.guilds.values().map(|guild| guild.members).sum(), self.feedback.len(), ratings)
    }

    fn good_words(&self) -> BTreeSet<String> {
        let good = self.feedback.iter().filter(|(_, stars)| **stars >= 4);
        good.map(|(name, stars)| format!("{name} says {stars}")).collect()
    }
}

fn key_of(role: u64) -> Permission {
    ROLES.into_iter().find(|(number, _)| *number == role).unwrap().1
}

fn grant(role: u64) -> (domain::Snowflake, domain::PermissionSet) {
    grants(&[(role, &[key_of(role)])]).into_iter().next().unwrap()
}

fn collected(numbers: &BTreeSet<u64>) -> Vec<u64> {
    numbers.iter().copied().collect()
}

/// What the service shows, in the model's terms.
async fn shown(client: &Client) -> BTreeMap<String, BTreeSet<&'static str>> {
    // The model leaves out what an owner has beyond these.
    let unknown = ["ERLC_ADMIN", "ERLC_MANAGER", "ADMIN"];
    let keys = |entry: &Value| true_keys(entry).into_iter().filter(|key| !unknown.contains(key)).collect();
    let guilds = client.guilds().await;
    guilds.iter().map(|entry| (entry["name"].as_str().unwrap().to_owned(), keys(entry))).collect()
}

async fn compare(app: &TestApp, clients: &[(u64, Client)], model: &Model, said: &str) {
    for (user, client) in clients {
        assert_eq!(shown(client).await, model.guilds_of(*user), "{user} after {said}");
    }
    let words = app.anon().get("/feedback").await.data();
    let words: BTreeSet<_> =
        words.as_array().unwrap().iter().map(|entry| entry["feedback"].as_str().unwrap().to_owned()).collect();
    let good = model.good_words();
    assert!(words.is_subset(&good) && words.len() == good.len().min(5), "{words:?} of {good:?} after {said}");
    let (guilds, members, entries, ratings) = model.totals();
    let stats = app.anon().get("/stats").await.data();
    assert_eq!(stats["guilds"], guilds, "after {said}");
    assert_eq!((&stats["members"], &stats["feedback"]["count"]), (&members.into(), &entries.into()), "after {said}");
    #[expect(clippy::cast_precision_loss, reason = "a handful of ratings")]
    let average = (entries > 0).then(|| (ratings as f64 * 100.0 / entries as f64).round() / 100.0);
    assert_eq!(stats["feedback"]["average"].as_f64(), average, "after {said}");
    let team = app.anon().get("/team").await.data();
    let ids: Vec<_> =
        team.as_array().unwrap().iter().map(|one| one["discord_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids, model.team.keys().map(u64::to_string).collect::<Vec<_>>(), "after {said}");
}

#[tokio::test]
async fn random_changes_show_in_the_next_read_as_a_simple_model_says() {
    for seed in 1..=3 {
        let app = TestApp::start().await;
        let mut clients = Vec::new();
        for (person, user) in PEOPLE {
            app.sandbox.edit(person, |person| person.guilds = (1..=GUILDS).map(|number| listed(number, 0)).collect());
            clients.push((user, app.user(person).await));
        }
        let done = Arc::new(AtomicBool::new(false));
        let hammering: Vec<_> = clients
            .iter()
            .map(|(_, client)| {
                let (client, done) = (client.clone(), Arc::clone(&done));
                tokio::spawn(async move {
                    while !done.load(Ordering::SeqCst) {
                        client.guilds().await;
                        for path in ["/team", "/feedback", "/stats"] {
                            assert_eq!(client.get(path).await.status, 200);
                        }
                    }
                })
            })
            .collect();
        let (random, mut model) = (Random::seeded(seed), Model::default());
        for round in 0..ROUNDS / 3 {
            let change = model.step(&random, round);
            let said = format!("seed {seed}, round {round}: {change:?}");
            app.bot_says([change]).await;
            compare(&app, &clients, &model, &said).await;
        }
        done.store(true, Ordering::SeqCst);
        for task in hammering {
            task.await.unwrap();
        }
    }
}
