//! The demo bot's data: guilds, subscriptions, a team and feedback.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::feedback::{Feedback, FeedbackEntry};
use domain::team::{Roster, RosterEntry, TeamMember};
use domain::{Guild, Permission, PermissionSet, Picture, Snowflake, Subscription, Time, User};
use sandbox::people::{
    ADMINISTRATOR, ADMINISTRATOR_ROLE, COLLECTED_WITH_BOT, COLLECTOR, HARBOUR, LANTERN, MANAGER, MEMBER, MODERATOR,
    MODERATOR_ROLE, NIGHT_SHIFT, OASIS, OWNER, TIN_CAN, collected, id, picture_hash,
};

const OTTOLINE: u64 = 301_557_200_914_883_072;
const BRAM: u64 = 322_904_118_375_022_592;
const NOOR: u64 = 347_118_660_205_441_024;
const DAY: Duration = Duration::from_hours(24);

/// The guilds that have the demo bot.
pub(super) fn guilds() -> Vec<Guild> {
    let mut guilds = vec![
        Guild { grants: Some(roles()), staff: Some(staff()), ..guild(HARBOUR.id, HARBOUR.name, OWNER, 4_812) },
        guild(NIGHT_SHIFT.id, NIGHT_SHIFT.name, MANAGER, 377),
        guild(OASIS.id, OASIS.name, MODERATOR, 1_204),
        Guild { setup: false, ..guild(LANTERN.id, LANTERN.name, ADMINISTRATOR, 58) },
        Guild { linked: false, ..guild(TIN_CAN.id, TIN_CAN.name, MEMBER, 23) },
    ];
    guilds.extend((0..COLLECTED_WITH_BOT).map(|number| {
        let listed = collected(number);
        let owner = if listed.owner { COLLECTOR } else { OWNER };
        guild(listed.id.get(), &listed.name, owner, 12 + number * number)
    }));
    guilds
}

/// One subscription that is active, and one that has ended.
pub(super) fn subscriptions(now: Time) -> Vec<Subscription> {
    vec![
        Subscription {
            userid: id(OWNER),
            slots: 3,
            guilds: vec![id(HARBOUR.id), id(OASIS.id)],
            active_until: Some(now.after(300 * DAY)),
        },
        Subscription {
            userid: id(MEMBER),
            slots: 1,
            guilds: vec![id(TIN_CAN.id)],
            active_until: Some(now.before(10 * DAY)),
        },
    ]
}

fn guild(number: u64, name: &str, owner: u64, members: u64) -> Guild {
    Guild {
        id: id(number),
        name: name.to_owned(),
        icon: Some(picture_hash(id(number))),
        owner: id(owner),
        members,
        setup: true,
        linked: true,
        grants: Some(BTreeMap::new()),
        staff: Some(BTreeMap::new()),
    }
}

fn roles() -> BTreeMap<Snowflake, PermissionSet> {
    [
        (id(ADMINISTRATOR_ROLE), PermissionSet::of(&[Permission::Admin, Permission::SessionStarter])),
        (id(MODERATOR_ROLE), PermissionSet::of(&[Permission::Mod])),
    ]
    .into()
}

fn staff() -> BTreeMap<Snowflake, Vec<Snowflake>> {
    [(id(ADMINISTRATOR), vec![id(ADMINISTRATOR_ROLE)]), (id(MODERATOR), vec![id(MODERATOR_ROLE)])].into()
}

/// The same avatars that the sandbox gives them when they sign in; `member` has the default one.
fn avatar(number: u64) -> Picture {
    let hash = (number != MEMBER).then(|| picture_hash(id(number)));
    provider::picture::avatar(id(number), hash.as_deref())
}

pub(super) fn team() -> Roster {
    use Permission::{BotDeveloper, Docwriter, Executive, Founder, ServiceStaff, Support, WebDeveloper};
    let member = |number, username: &str, name: &str, role: &str, color: &str, category: &str, position, keys: &[_]| {
        let permissions = PermissionSet::of(keys);
        let member = TeamMember {
            username: username.to_owned(),
            name: name.to_owned(),
            avatar: avatar(number),
            discord_id: id(number),
            role: role.to_owned(),
            color: color.to_owned(),
            category: category.to_owned(),
            position,
        };
        RosterEntry { member, permissions }
    };
    Roster(vec![
        member(OTTOLINE, "ottoline", "Ottoline Marsh", "Founder", "#E0A030", "leadership", 1, &[Founder, Executive]),
        member(BRAM, "b.castellan", "Bram Castellan", "Bot developer", "#5865F2", "development", 1, &[BotDeveloper]),
        member(NOOR, "noor", "Noor Ilves", "Web developer", "#3BA55D", "development", 2, &[WebDeveloper, Docwriter]),
        member(MODERATOR, "samira_w", "سميرة", "Support", "#EB459E", "support", 1, &[ServiceStaff, Support]),
    ])
}

pub(super) fn feedback(now: Time) -> Vec<Feedback> {
    let said: [(u64, &str, &str, u8, &str); 9] = [
        (MANAGER, "inez_brandt", "Inez 🧭", 5, "Set up in ten minutes, and our moderators stopped asking how."),
        (
            ADMINISTRATOR,
            "tobias.fenn",
            "Tobias \"Toby\" Fenn",
            5,
            "The dashboard shows exactly what I'm allowed to do, and nothing else.",
        ),
        (MEMBER, "pip.okafor", "pip.okafor", 4, "Does what it says. I'd love a dark theme."),
        (OWNER, "marlow.quay", "Marlow Quay", 5, "It survived our opening night: 900 people in an hour 🎉"),
        (MODERATOR, "samira_w", "سميرة", 4, "سهل الاستخدام وسريع"),
        (510_220_118_904_512_512, "wren.h", "Wren Halloran", 5, "\"It just works\" is what I tell everyone."),
        (533_871_004_227_354_624, "lowtide", "Low Tide", 4, "Good support, quick answers."),
        (561_009_774_310_096_896, "grumble", "Grumble", 2, "Too many buttons for me."),
        (588_102_330_467_205_120, "anon_ymous", "Anonymous", 1, "Didn't start on my toaster."),
    ];
    let entry = |(index, (number, username, name, rating, text)): (usize, (u64, &str, &str, u8, &str))| Feedback {
        id: format!("demo-{index}"),
        entry: FeedbackEntry {
            feedback: text.to_owned(),
            rating,
            timestamp: now.before(DAY * u32::try_from(index + 1).unwrap_or(1)).seconds(),
            submitter: User {
                username: username.to_owned(),
                name: name.to_owned(),
                id: id(number),
                avatar: avatar(number),
            },
        },
    };
    said.into_iter().enumerate().map(entry).collect()
}
