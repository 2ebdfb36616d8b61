//! What people must see, according to the model.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use domain::role::Standing;
use domain::{Permission, PermissionSet};
use serde_json::{Value, json};

use super::model::{Guild, Model, texts};
use super::{bits, guild_id, number_of};

impl Model {
    pub fn status(&self) -> Value {
        let shards: BTreeMap<String, &Value> =
            self.health.iter().map(|(id, report)| (id.to_string(), &report.record)).collect();
        let memory: u64 = self.beating().map(|process| process.memory / 10_000).sum();
        let epoch = self.beating().map(|process| process.life.started / 1000).min().unwrap_or(0);
        #[expect(clippy::cast_precision_loss, reason = "a few hundred megabytes")]
        let memory = memory as f64 / 100.0;
        json!({"shards": shards, "memory": memory, "epoch": epoch})
    }

    pub fn roster(&self) -> Vec<Value> {
        let category = |member: &Value| self.team.iter().position(|other| other["category"] == member["category"]);
        let mut members = self.team.clone();
        members.sort_by_key(|member| {
            (category(member), member["position"].as_i64(), member["name"].as_str().map(ToOwned::to_owned))
        });
        for member in &mut members {
            member.as_object_mut().unwrap().remove("permissions");
        }
        members
    }

    pub fn totals(&self) -> Value {
        let members: u64 = self.guilds.values().map(|guild| guild.said["members"].as_u64().unwrap_or(0)).sum();
        let ratings: u64 = self.feedback.values().map(|entry| entry["rating"].as_u64().unwrap()).sum();
        let count = self.feedback.len();
        #[expect(clippy::cast_precision_loss, reason = "a handful of ratings")]
        let average = (count > 0).then(|| (ratings as f64 * 100.0 / count as f64).round() / 100.0);
        json!({"guilds": self.guilds.len(), "members": members, "shards": self.health.len(),
            "feedback": {"count": count, "average": average}})
    }

    /// The feedback that is good enough to be shown.
    pub fn shown_feedback(&self) -> BTreeSet<String> {
        let good = self.feedback.values().filter(|entry| entry["rating"].as_u64().unwrap() >= 4);
        good.map(ToString::to_string).collect()
    }

    fn is_active(&self, subscription: &Value) -> bool {
        subscription["active_until"].as_u64().is_none_or(|until| self.now < until * 1000)
    }

    fn plus(&self, guild: u64) -> Value {
        let id = json!(guild_id(guild).to_string());
        let naming = self.subscriptions.iter().filter(|(_, one)| one["guilds"].as_array().unwrap().contains(&id));
        let best = naming.max_by_key(|(user, one)| {
            (self.is_active(one), one["active_until"].as_u64().unwrap_or(u64::MAX), Reverse(**user))
        });
        match best {
            None => json!({"plus": {"userid": "", "guilds": [], "slots": 0}, "active": false}),
            Some((_, one)) => json!({
                "plus": {"userid": one["userid"], "guilds": one["guilds"], "slots": one["slots"]},
                "active": self.is_active(one)
            }),
        }
    }

    /// The guilds that this person sees, in order.
    pub fn guilds_of(&self, user: u64) -> Vec<Value> {
        let name = user.to_string();
        let team = self.team.iter().find(|member| member["discord_id"] == name);
        let team = team.map(|member| texts(&member["permissions"])).unwrap_or_default();
        let seen = self.guilds.iter().filter(|(number, _)| self.lists[&user].contains(number));
        let mut entries: Vec<Value> = seen
            .map(|(number, Guild { said, grants, staff })| {
                let id = guild_id(*number);
                let own = id.to_string();
                let roles = staff.get(&user).into_iter().flatten().chain([&own]);
                let granted = roles.filter_map(|role| grants.get(role)).flatten();
                let plus = self.plus(*number);
                let (role, keys) = Standing {
                    owner: said["owner"] == name,
                    manages: (provider::RULES.may_manage_server)(bits(user, *number)),
                    granted: set(granted),
                    team: set(&team),
                    setup: said["setup"] == true,
                    linked: said["linked"] == true,
                    guild_plus: plus["active"] == true,
                    member_plus: self.subscriptions.get(&user).is_some_and(|one| self.is_active(one)),
                }
                .judge();
                let icon = match said["icon"].as_str() {
                    None => format!("https://cdn.discordapp.com/embed/avatars/{}.png", number % 6),
                    Some(url) if url.contains(':') => url.to_owned(),
                    Some(hash) => format!("https://cdn.discordapp.com/icons/{id}/{hash}.png"),
                };
                let keys: BTreeMap<_, _> = Permission::ALL.iter().map(|key| (key.name(), keys.has(*key))).collect();
                let mut entry = json!({"id": own, "name": said["name"], "icon": icon, "owner": said["owner"],
                    "members": said["members"].as_u64().unwrap_or(0), "service": true, "plus": plus,
                    "permissions": keys});
                if let Some(role) = role {
                    entry["role"] = format!("{role:?}").into();
                }
                entry
            })
            .collect();
        entries.sort_by_key(|entry| {
            let names = ["Owner", "Manager", "Administrator", "Moderator"];
            let rank = names.iter().position(|name| entry["role"] == **name).unwrap_or(names.len());
            (rank, entry["name"].to_string(), number_of(&entry["id"]))
        });
        entries
    }
}

fn set<'a>(names: impl IntoIterator<Item = &'a String>) -> PermissionSet {
    names.into_iter().map(|name| Permission::from_name(name).unwrap()).collect()
}
