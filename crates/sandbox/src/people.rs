//! Who can sign in to the sandbox, and the seven demo people.

use domain::Snowflake;
use domain::saturating;

/// Someone with an account at the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// Their name in the sandbox. It works as a code, any number of times.
    pub name: String,
    pub id: Snowflake,
    /// The unique handle.
    pub username: String,
    /// The display name.
    pub global_name: Option<String>,
    /// The hash of their avatar.
    pub avatar: Option<String>,
    /// A line for the page where you choose a person.
    pub about: String,
    pub guilds: Vec<PersonGuild>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonGuild {
    pub id: Snowflake,
    pub name: String,
    /// The hash of its icon.
    pub icon: Option<String>,
    pub owner: bool,
    /// Their permission bits there.
    pub permissions: u64,
    /// What the provider has enabled for it.
    pub features: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
pub struct DemoGuild {
    /// Its ID; see [`id`].
    pub id: u64,
    pub name: &'static str,
}

/// Everyone in the demo except `newcomer` and `collector` is in this one, which `owner` owns.
pub const HARBOUR: DemoGuild = DemoGuild { id: 871_203_344_918_732_833, name: "Harbour City Roleplay" };
/// A name with quotes and emoji.
pub const NIGHT_SHIFT: DemoGuild = DemoGuild { id: 902_557_118_203_744_311, name: "\"Night Shift\" 🌙 & friends" };
/// A name written from right to left.
pub const OASIS: DemoGuild = DemoGuild { id: 944_018_772_650_119_207, name: "مجتمع الواحة" };
/// A guild that `administrator` owns.
pub const LANTERN: DemoGuild = DemoGuild { id: 1_031_447_905_116_248_139, name: "Lantern Valley Simulation" };
/// A name that must never be treated as markup.
pub const TIN_CAN: DemoGuild = DemoGuild { id: 1_118_290_463_557_021_763, name: "Tin Can Racing <3" };
/// A guild without the bot.
pub const LIBRARY: DemoGuild = DemoGuild { id: 1_150_663_027_449_380_949, name: "The Quiet Library" };
/// Another guild without the bot.
pub const SOURDOUGH: DemoGuild = DemoGuild { id: 1_187_335_480_921_606_227, name: "Sourdough Society" };

/// The demo guilds that have the bot.
pub const WITH_BOT: [DemoGuild; 5] = [HARBOUR, NIGHT_SHIFT, OASIS, LANTERN, TIN_CAN];

pub const OWNER: u64 = 280_114_907_635_220_483;
pub const MANAGER: u64 = 311_890_224_776_519_691;
pub const ADMINISTRATOR: u64 = 402_775_613_098_844_173;
pub const MODERATOR: u64 = 518_336_079_244_710_917;
pub const MEMBER: u64 = 690_412_558_730_167_039;
pub const NEWCOMER: u64 = 1_209_977_341_852_663_811;

pub const COLLECTOR: u64 = 733_905_118_246_071_307;

/// How many guilds `collector` is in: as many as the provider lists.
pub const COLLECTED: u64 = 200;
/// How many of these have the bot: the first ones.
pub const COLLECTED_WITH_BOT: u64 = 150;

/// The role in [`HARBOUR`] that the bot maps to its administrators.
pub const ADMINISTRATOR_ROLE: u64 = 871_210_556_034_695_201;
/// The role in [`HARBOUR`] that the bot maps to its moderators.
pub const MODERATOR_ROLE: u64 = 871_210_903_172_411_457;

/// The provider's `MANAGE_GUILD` bit.
const MANAGE_GUILD: u64 = 0x20;
/// What a plain member may do: read, write, react.
const PLAIN: u64 = 0x0000_0640_0000_0C40;
/// What an owner may do: everything there is today.
const EVERYTHING: u64 = 0x0007_FFFF_FFFF_FFFF;

/// One of this file's numbers as an ID.
pub fn id(number: u64) -> Snowflake {
    #[expect(clippy::expect_used, reason = "the numbers are constants in this file, and a test turns each into an ID")]
    Snowflake::new(number).expect("a valid ID")
}

/// What somebody is in a guild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Owner,
    Manager,
    Member,
}

/// A guild as somebody with this standing sees it.
pub fn guild(id: Snowflake, name: &str, icon: Option<String>, standing: Standing) -> PersonGuild {
    let permissions = match standing {
        Standing::Owner => EVERYTHING,
        Standing::Manager => PLAIN | MANAGE_GUILD,
        Standing::Member => PLAIN,
    };
    let owner = standing == Standing::Owner;
    PersonGuild {
        id,
        name: name.to_owned(),
        icon,
        owner,
        permissions,
        features: vec!["COMMUNITY".to_owned(), "NEWS".to_owned()],
    }
}

/// The seven demo people: one for each kind of standing in a guild, and one who is in as many as possible.
pub fn demo() -> Vec<Person> {
    let place = |of: DemoGuild, standing| guild(id(of.id), of.name, None, standing);
    let owns = |guild| place(guild, Standing::Owner);
    let manages = |guild| place(guild, Standing::Manager);
    let visits = |guild| place(guild, Standing::Member);
    vec![
        person(
            "owner",
            OWNER,
            ("marlow.quay", Some("Marlow Quay")),
            "Owns Harbour City Roleplay.",
            vec![owns(HARBOUR), visits(NIGHT_SHIFT), visits(OASIS), owns(LIBRARY)],
        ),
        person(
            "manager",
            MANAGER,
            ("inez_brandt", Some("Inez 🧭")),
            "Can manage Harbour City Roleplay through Discord's own permissions.",
            vec![manages(HARBOUR), owns(NIGHT_SHIFT), visits(TIN_CAN)],
        ),
        person(
            "administrator",
            ADMINISTRATOR,
            ("tobias.fenn", Some("Tobias \"Toby\" Fenn")),
            "Has a role in Harbour City Roleplay that makes them an administrator for the bot.",
            vec![visits(HARBOUR), owns(LANTERN), visits(SOURDOUGH)],
        ),
        person(
            "moderator",
            MODERATOR,
            ("samira_w", Some("سميرة")),
            "Has a role in Harbour City Roleplay that makes them a moderator for the bot.",
            vec![visits(HARBOUR), owns(OASIS)],
        ),
        person(
            "member",
            MEMBER,
            ("pip.okafor", None),
            "Plain member of Harbour City Roleplay.",
            vec![visits(HARBOUR), visits(LANTERN), owns(TIN_CAN), visits(LIBRARY)],
        ),
        person("newcomer", NEWCOMER, ("just_arrived", Some("Robin")), "Isn't in any guild.", vec![]),
        person(
            "collector",
            COLLECTOR,
            ("one.of.each", Some("Wilhelmina Featherstonehaugh-Cholmondeley")),
            "Is in 200 guilds, the maximum. 150 of them have the bot.",
            (0..COLLECTED).map(collected).collect(),
        ),
    ]
}

/// One of the guilds of `collector`, who owns every tenth of them and may manage every fifth.
pub fn collected(number: u64) -> PersonGuild {
    const PLACES: [&str; 10] =
        ["Bay", "Canyon", "Delta", "Fjord", "Glade", "Harbor", "Island", "Meadow", "Ridge", "Summit"];
    const KINDS: [&str; 7] = ["Club", "Crew", "Gaming", "Roleplay", "Society", "Support", "& Friends"];
    // IDs from about a year, some hours apart, so that they fall into both shards.
    let guild = ((274_340_000_000 + number * 9_973_001) << 22) | (2 * number + 1);
    let pick = |list: &[&'static str], by: u64| list[saturating::to_usize(by) % list.len()];
    let (owner, permissions) = match number % 10 {
        0 => (true, EVERYTHING),
        5 => (false, PLAIN | MANAGE_GUILD),
        _ => (false, PLAIN),
    };
    PersonGuild {
        id: id(guild),
        name: format!("{} {} {}", pick(&PLACES, number), pick(&KINDS, number / 10), number + 1),
        icon: None,
        owner,
        permissions,
        features: Vec::new(),
    }
}

/// The same people with images: one for each person except `member`, and one for each of their guilds.
pub fn with_pictures(mut people: Vec<Person>) -> Vec<Person> {
    for person in &mut people {
        person.avatar = Some(picture_hash(person.id)).filter(|_| person.id != id(MEMBER));
        for guild in &mut person.guilds {
            guild.icon = Some(picture_hash(guild.id));
        }
    }
    people
}

/// An image hash, as written by the provider. The sandbox draws an image for any.
pub fn picture_hash(id: Snowflake) -> String {
    format!("{:032x}", u128::from(id.get()).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835))
}

fn person(name: &str, number: u64, names: (&str, Option<&str>), about: &str, guilds: Vec<PersonGuild>) -> Person {
    Person {
        name: name.to_owned(),
        id: id(number),
        username: names.0.to_owned(),
        global_name: names.1.map(str::to_owned),
        // A made-up hash is an image that does not load, unless the sandbox draws it; see `with_pictures`.
        avatar: None,
        about: about.to_owned(),
        guilds,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn everybody_stands_where_the_demonstration_says() {
        let people = demo();
        let names: Vec<_> = people.iter().map(|person| person.name.as_str()).collect();
        assert_eq!(names, ["owner", "manager", "administrator", "moderator", "member", "newcomer", "collector"]);
        let harbour: Vec<_> = people
            .iter()
            .map(|person| person.guilds.iter().find(|guild| guild.id == id(HARBOUR.id)))
            .map(|guild| guild.map(|guild| (guild.owner, guild.permissions & 0x28)))
            .collect();
        let plain = Some((false, 0));
        assert_eq!(harbour, [Some((true, 0x28)), Some((false, 0x20)), plain, plain, plain, None, None]);
        let listed = people.iter().flat_map(|person| &person.guilds);
        let owned: HashSet<_> = listed.filter(|guild| guild.owner).map(|guild| guild.id).collect();
        assert!(WITH_BOT.iter().all(|guild| owned.contains(&id(guild.id))), "the bot reports an owner for each");
    }

    #[test]
    fn ids_are_ids_that_a_javascript_number_would_garble() {
        let guilds = WITH_BOT.into_iter().chain([LIBRARY, SOURDOUGH]).map(|guild| guild.id);
        let others = [OWNER, MANAGER, ADMINISTRATOR, MODERATOR, MEMBER, NEWCOMER, COLLECTOR];
        let roles = [ADMINISTRATOR_ROLE, MODERATOR_ROLE];
        let collected = (0..COLLECTED).map(|number| collected(number).id.get());
        let all: Vec<u64> = guilds.chain(others).chain(roles).chain(collected).collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
        for number in all {
            assert_eq!(id(number).get(), number);
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the loss is the point"
            )]
            let garbled = number as f64 as u64;
            assert_ne!(garbled, number);
        }
    }
}
