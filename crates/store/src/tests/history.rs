//! What can happen to a store, as a list of steps that any store can take.

use domain::feed::{Event, Lines};
use domain::feedback::{Feedback, FeedbackEntry};
use domain::health::{Heartbeat, ShardHeartbeat};
use domain::team::RosterEntry;
use domain::{Change, Roster, Subscription, TeamMember};
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// Few of everything, so that steps interact.
pub(super) const USERS: u64 = 4;
pub(super) const DEVICES: u8 = 8;
pub(super) const SESSIONS: usize = 2;
pub(super) const CODES: u8 = 3;
pub(super) const KEYS: u8 = 3;
/// Enough for every remainder of the shard counts that are tried.
pub(super) const PLACES: u64 = 12;
/// The third has the name of the first, and a key that may be missing or revoked.
pub(super) const INSTANCES: [(&str, &str); 3] = [(KEY, "old"), (KEY, "new"), ("key1", "old")];
const MODERATOR: u64 = 70;

/// Which version of a grant or list a step refers to.
#[derive(Clone, Copy, Debug)]
pub(super) enum VersionOf {
    Current,
    /// The one recorded last.
    Noted,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Time passes, in seconds.
    Pass(u64),
    Claim(u8),
    Settle(u8, Option<u64>),
    Release(u8),
    /// And after how many tries of a revocation the grant was seen to work.
    SaveGrant(u64, u8, Option<u32>),
    TakeRevocation,
    /// One of those that were taken: confirmed, or failed at this try.
    FinishRevocation(Index, u32),
    OpenSession(u64, u8),
    EndSession(u64, u8),
    EndSessions(u64),
    EndSessionsOfGrant(u64, VersionOf),
    NoteSeen(Vec<u8>),
    /// Sessions that were last used, or created, this many seconds ago.
    Sweep(u64, u64),
    /// Records the versions of a user's grant and list.
    NoteVersions(u64),
    ReplaceGrant(u64, u8, VersionOf),
    SaveList(u64, Vec<u64>, VersionOf),
    Block(u64),
    Unblock(u64),
    Apply(Vec<Change>),
    /// From the instance's next number, minus 2 plus this.
    Feed(usize, u64, Vec<Event>),
    /// For a shard, or else the subscriptions; at the instance's next number, minus 1 plus this.
    Begin(usize, Option<(u32, u32)>, u64),
    StageGuilds(Index, Vec<GuildLine>),
    StageSubscriptions(Index, Vec<Subscription>),
    Commit(Index),
    Abandon(Index),
    CleanUp(usize),
    /// The process ends and comes back; what it was staging stays behind.
    Restart,
    AddKey(u8),
    RevokeKey(u8),
    Heartbeat(Heartbeat),
}

pub(super) fn sender(by: usize) -> InstanceId {
    let (key, name) = INSTANCES[by];
    InstanceId::parse(key, name).unwrap()
}

fn user() -> impl Strategy<Value = u64> {
    1..=USERS
}

fn place() -> impl Strategy<Value = u64> {
    1..=PLACES
}

/// One of the few that are on lists, so that someone leaves a guild on theirs.
fn listed_place() -> impl Strategy<Value = u64> {
    1..=3_u64
}

fn device() -> impl Strategy<Value = u8> {
    0..DEVICES
}

fn text() -> impl Strategy<Value = String> {
    prop::sample::select(&["a", "b", "Ünïcode 🎉", "quote ' \" \\ \u{1}", "\u{fffd}"][..]).prop_map(str::to_owned)
}

fn roles() -> impl Strategy<Value = Vec<Snowflake>> {
    // The last is the everyone role of the guild in the first place.
    prop::collection::vec(prop::sample::select(&[MODERATOR, 71, 72, 1 << 22][..]).prop_map(id), 0..3)
}

fn whole_guild() -> impl Strategy<Value = Guild> {
    const KEYS: [&[Permission]; 3] = [&[], &[Permission::Mod], &[Permission::Mod, Permission::Admin]];
    let keys = prop::sample::select(&KEYS[..]);
    let grants = prop::option::of(prop::collection::btree_map(
        prop::sample::select(&[MODERATOR, 71, 1 << 22][..]).prop_map(id),
        keys.prop_map(PermissionSet::of),
        0..3,
    ));
    let staff = prop::option::of(prop::collection::btree_map(user().prop_map(id), roles(), 0..3));
    let icon = prop::option::of(text());
    (place(), text(), icon, user(), any::<[bool; 2]>(), grants, staff).prop_map(
        |(place, name, icon, owner, [setup, linked], grants, staff)| Guild {
            id: placed(place),
            name,
            icon,
            owner: id(owner),
            members: place * 10 + u64::from(setup),
            setup,
            linked,
            grants,
            staff,
        },
    )
}

fn subscription() -> impl Strategy<Value = Subscription> {
    let guilds = prop::collection::vec(place().prop_map(placed), 0..4);
    (user(), 0..3_u32, guilds, any::<bool>()).prop_map(|(user, slots, guilds, ends)| Subscription {
        userid: id(user),
        slots,
        guilds,
        active_until: ends.then_some(NOW),
    })
}

fn profile() -> impl Strategy<Value = User> {
    (user(), text()).prop_map(|(user, name)| User { name, ..person(user) })
}

fn feedback_id() -> impl Strategy<Value = String> {
    (0..8_u8).prop_map(|number| format!("f{number}"))
}

fn feedback() -> impl Strategy<Value = Feedback> {
    (feedback_id(), text(), 1..=5_u8, profile()).prop_map(|(id, feedback, rating, submitter)| Feedback {
        id,
        entry: FeedbackEntry { feedback, rating, timestamp: 5, submitter },
    })
}

fn roster() -> impl Strategy<Value = Roster> {
    let member =
        (profile(), text(), -1..3_i64, any::<bool>()).prop_map(|(user, role, position, founder)| RosterEntry {
            member: TeamMember {
                username: user.username,
                name: user.name,
                avatar: user.avatar,
                discord_id: user.id,
                role,
                color: "#000000".to_owned(),
                category: "c".to_owned(),
                position,
            },
            permissions: if founder { PermissionSet::of(&[Permission::Founder]) } else { PermissionSet::EMPTY },
        });
    prop::collection::vec(member, 0..4).prop_map(Roster)
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => whole_guild().prop_map(Change::Guild),
        2 => place().prop_map(|place| Change::GuildGone(placed(place))),
        3 => (place(), user(), roles())
            .prop_map(|(place, user, roles)| Change::Member { guild: placed(place), user: id(user), roles }),
        3 => (prop_oneof![place(), listed_place()], user())
            .prop_map(|(place, user)| Change::MemberGone { guild: placed(place), user: id(user) }),
        3 => subscription().prop_map(Change::Subscription),
        1 => user().prop_map(|user| Change::SubscriptionGone(id(user))),
        3 => feedback().prop_map(Change::Feedback),
        2 => feedback_id().prop_map(Change::FeedbackGone),
        1 => roster().prop_map(Change::Team),
        1 => profile().prop_map(Change::User),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        9 => change().prop_map(Event::Change),
        1 => Just(Event::Ignored("unknown".to_owned())),
    ]
}

fn guild_line() -> impl Strategy<Value = GuildLine> {
    prop_oneof![
        3 => whole_guild().prop_map(GuildLine::Guild),
        1 => place().prop_map(|place| GuildLine::Unavailable(placed(place))),
    ]
}

fn heartbeat() -> impl Strategy<Value = Heartbeat> {
    let shard = (0..4_u32, any::<bool>(), prop::option::of(0..9_u8)).prop_map(|(id, sent, latency)| ShardHeartbeat {
        id,
        sent: sent.then_some(NOW),
        acknowledged: (!sent).then_some(NOW),
        latency: latency.map(|latency| f64::from(latency) / 3.0),
    });
    (0..INSTANCES.len(), 1..5_u64, 1..=4_u32, prop::collection::vec(shard, 0..4)).prop_map(
        |(by, started, shard_count, shards)| Heartbeat {
            instance: sender(by),
            // The last is a clock that runs ahead.
            started_at: if started == 4 {
                NOW.after(Duration::from_hours(9))
            } else {
                Time::from_seconds(100 * started)
            },
            memory: 1000 * started,
            shard_count,
            shards,
            leaving: false,
        },
    )
}

fn version() -> impl Strategy<Value = VersionOf> {
    prop_oneof![3 => Just(VersionOf::Current), 1 => Just(VersionOf::Noted)]
}

fn of_people() -> impl Strategy<Value = Step> {
    let code = || 0..CODES;
    prop_oneof![
        2 => prop::sample::select(&[1, 45, 700, 4000][..]).prop_map(Step::Pass),
        2 => code().prop_map(Step::Claim),
        1 => (code(), prop::option::of(user())).prop_map(|(code, user)| Step::Settle(code, user)),
        1 => code().prop_map(Step::Release),
        4 => (user(), device(), prop::option::of(0..3_u32))
            .prop_map(|(user, device, verified)| Step::SaveGrant(user, device, verified)),
        2 => Just(Step::TakeRevocation),
        2 => (any::<Index>(), 0..8_u32).prop_map(|(which, end)| Step::FinishRevocation(which, end)),
        6 => (user(), device()).prop_map(|(user, device)| Step::OpenSession(user, device)),
        2 => (user(), device()).prop_map(|(user, device)| Step::EndSession(user, device)),
        1 => user().prop_map(Step::EndSessions),
        1 => (user(), version()).prop_map(|(user, version)| Step::EndSessionsOfGrant(user, version)),
        1 => prop::collection::vec(device(), 0..4).prop_map(Step::NoteSeen),
        2 => (0..5000_u64, 0..9000_u64).prop_map(|(last_seen, created)| Step::Sweep(last_seen, created)),
        2 => user().prop_map(Step::NoteVersions),
        2 => (user(), device(), version()).prop_map(|(user, grant, version)| Step::ReplaceGrant(user, grant, version)),
        4 => (user(), prop::collection::vec(listed_place(), 1..4), version())
            .prop_map(|(user, places, version)| Step::SaveList(user, places, version)),
        1 => user().prop_map(Step::Block),
        2 => user().prop_map(Step::Unblock),
        1 => (0..KEYS).prop_map(Step::AddKey),
        1 => (0..KEYS).prop_map(Step::RevokeKey),
    ]
}

fn of_the_feed() -> impl Strategy<Value = Step> {
    let by = || 0..INSTANCES.len();
    let scope = prop::option::weighted(0.8, (1..=4_u32, 0..4_u32).prop_map(|(count, shard)| (count, shard % count)));
    prop_oneof![
        3 => prop::collection::vec(change(), 0..6).prop_map(Step::Apply),
        6 => (by(), 0..4_u64, prop::collection::vec(event(), 0..8)).prop_map(|(by, at, events)| Step::Feed(by, at, events)),
        4 => (by(), scope, 0..4_u64).prop_map(|(by, scope, at)| Step::Begin(by, scope, at)),
        6 => (any::<Index>(), prop::collection::vec(guild_line(), 0..12))
            .prop_map(|(which, lines)| Step::StageGuilds(which, lines)),
        2 => (any::<Index>(), prop::collection::vec(subscription(), 0..5))
            .prop_map(|(which, lines)| Step::StageSubscriptions(which, lines)),
        6 => any::<Index>().prop_map(Step::Commit),
        1 => any::<Index>().prop_map(Step::Abandon),
        3 => (1..8_usize).prop_map(Step::CleanUp),
        1 => Just(Step::Restart),
        2 => heartbeat().prop_map(Step::Heartbeat),
    ]
}

pub(super) fn history() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(prop_oneof![of_people(), of_the_feed()], 1..100)
}

/// The lines that a snapshot of this kind accepts.
pub(super) fn fitting(scope: Scope, lines: Vec<GuildLine>) -> Lines {
    let of_the_shard = |line: &GuildLine| {
        let guild = match line {
            GuildLine::Guild(guild) => guild.id,
            GuildLine::Unavailable(guild) => *guild,
        };
        matches!(scope, Scope::Shard(shard) if shard.covers(guild))
    };
    Lines::Guilds(lines.into_iter().filter(of_the_shard).collect())
}
