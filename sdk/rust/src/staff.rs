//! Who has a granting role, and whether that is completely known.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use crate::source::Member;

/// The service's limit on the staff of a guild.
pub(crate) const MOST_STAFF: usize = 10_000;
/// A library's cache may lag this far behind its events; events this recent win over the cache.
const CACHE_LAG: Duration = Duration::from_secs(5);
/// How many events are remembered for that. If there are more, the cache counts as incomplete.
const RECENT_EVENTS: usize = 10_000;

/// Maps users to their granting roles, both in ascending order.
pub(crate) type Holders = BTreeMap<u64, Vec<u64>>;

/// What is known about a guild that has granting roles.
struct Known {
    /// The roles that grant something, in ascending order.
    roles: Vec<u64>,
    /// Who has them, if that is completely known.
    holders: Option<Holders>,
}

/// A listing in progress.
struct Listing {
    guild: u64,
    roles: Vec<u64>,
    found: Holders,
    /// What events have said since it began; `None` if the member left.
    meanwhile: HashMap<u64, Option<Vec<u64>>>,
    is_cancelled: bool,
    /// A role was deleted, so members on earlier pages may seem to have it.
    is_outdated: bool,
}

/// An event from the last seconds.
struct Recent {
    at: Duration,
    guild: u64,
    change: Change,
}

enum Change {
    /// A member has these roles; none if they left.
    Member { user: u64, roles: Vec<u64> },
    /// A role was deleted.
    RoleGone(u64),
}

/// When it is a guild's turn to be listed.
struct Queued {
    due: Duration,
    /// Breaks ties: guilds due at the same time keep their order.
    place: u64,
    failures: u32,
}

/// The staff of all guilds.
#[derive(Default)]
pub(crate) struct Staff {
    known: HashMap<u64, Known>,
    queue: HashMap<u64, Queued>,
    places: u64,
    listing: Option<Listing>,
    recent: VecDeque<Recent>,
    /// Until when `recent` may lack events.
    recent_lost: Option<Duration>,
    /// The platform refuses listings.
    pub(crate) is_forbidden: bool,
}

impl Staff {
    /// The staff with these granting roles. While that is not completely known, returns `None` and queues the guild for a
    /// listing.
    pub(crate) fn of(&mut self, guild: u64, roles: &[u64]) -> Option<Holders> {
        if roles.is_empty() {
            self.known.remove(&guild);
            self.end_listings(|one| one == guild);
            return Some(Holders::new());
        }
        let known = self.known.entry(guild).or_insert_with(|| Known { roles: Vec::new(), holders: None });
        let has_new_roles = roles.iter().any(|role| !known.roles.contains(role));
        known.roles = roles.to_vec();
        if has_new_roles {
            known.holders = None;
        }
        if let Some(holders) = &mut known.holders {
            holders.retain(|_, held| {
                held.retain(|role| roles.contains(role));
                !held.is_empty()
            });
            return Some(holders.clone());
        }
        self.enqueue(guild);
        None
    }

    /// The same from the library's complete cache.
    pub(crate) fn of_cache(
        &mut self,
        guild: u64,
        roles: &[u64],
        members: Vec<Member>,
        now: Duration,
    ) -> Option<Holders> {
        if self.recent_lost.is_some_and(|lost| lost + CACHE_LAG > now) {
            return self.of(guild, roles);
        }
        let mut holders = Holders::new();
        for member in members {
            hold(&mut holders, member.user, granting(&member.roles, roles));
        }
        for event in self.recent.iter().filter(|event| event.guild == guild && event.at + CACHE_LAG > now) {
            match &event.change {
                Change::Member { user, roles: held } => hold(&mut holders, *user, granting(held, roles)),
                Change::RoleGone(role) => drop_role(&mut holders, *role),
            }
        }
        self.queue.remove(&guild);
        self.known.insert(guild, Known { roles: roles.to_vec(), holders: Some(holders.clone()) });
        Some(holders)
    }

    /// A member event. Returns whether it has to be sent; `None` if nothing is known about the guild.
    pub(crate) fn member(&mut self, guild: u64, user: u64, roles: &[u64], now: Duration) -> Option<bool> {
        self.remember(guild, Change::Member { user, roles: roles.to_vec() }, now);
        let known = self.known.get_mut(&guild)?;
        let held = granting(roles, &known.roles);
        if let Some(listing) = self.listing.as_mut().filter(|listing| listing.guild == guild) {
            listing.meanwhile.insert(user, Some(roles.to_vec()));
        }
        if let Some(holders) = &mut known.holders {
            let before = holders.get(&user).map_or(&[][..], Vec::as_slice);
            if before == held {
                return Some(false);
            }
            hold(holders, user, held);
        }
        Some(true)
    }

    /// A member has left.
    pub(crate) fn member_gone(&mut self, guild: u64, user: u64, now: Duration) {
        self.remember(guild, Change::Member { user, roles: Vec::new() }, now);
        if let Some(listing) = self.listing.as_mut().filter(|listing| listing.guild == guild) {
            listing.meanwhile.insert(user, None);
        }
        if let Some(holders) = self.known.get_mut(&guild).and_then(|known| known.holders.as_mut()) {
            holders.remove(&user);
        }
    }

    /// A role was deleted. Returns whether it granted something.
    pub(crate) fn role_gone(&mut self, guild: u64, role: u64, now: Duration) -> bool {
        self.remember(guild, Change::RoleGone(role), now);
        let Some(known) = self.known.get_mut(&guild).filter(|known| known.roles.contains(&role)) else { return false };
        if let Some(listing) = self.listing.as_mut().filter(|listing| listing.guild == guild) {
            listing.is_outdated = true;
        }
        if let Some(holders) = &mut known.holders {
            drop_role(holders, role);
        }
        true
    }

    /// The bot has left these guilds, or their members may have changed without an event: in an outage, or between two sessions.
    pub(crate) fn forget_where(&mut self, is_theirs: impl Fn(u64) -> bool) {
        self.known.retain(|guild, _| !is_theirs(*guild));
        self.recent.retain(|event| !is_theirs(event.guild));
        self.end_listings(is_theirs);
    }

    fn end_listings(&mut self, is_theirs: impl Fn(u64) -> bool) {
        self.queue.retain(|guild, _| !is_theirs(*guild));
        if let Some(listing) = self.listing.as_mut().filter(|listing| is_theirs(listing.guild)) {
            listing.is_cancelled = true;
        }
    }

    /// How many staff are known, across all guilds.
    pub(crate) fn len(&self) -> usize {
        self.known.values().filter_map(|known| known.holders.as_ref()).map(BTreeMap::len).sum()
    }

    // --- listings

    /// The guild to list next, or when one is due.
    pub(crate) fn next_listing(&self, now: Duration) -> Result<u64, Option<Duration>> {
        if self.is_forbidden {
            return Err(None);
        }
        let next = self.queue.iter().min_by_key(|(_, queued)| (queued.due, queued.place));
        next.filter(|(_, queued)| queued.due <= now)
            .map(|(guild, _)| *guild)
            .ok_or_else(|| next.map(|(_, queued)| queued.due))
    }

    /// Begins the listing of a queued guild.
    pub(crate) fn begin_listing(&mut self, guild: u64) -> bool {
        let Some(known) = self.known.get(&guild) else {
            self.queue.remove(&guild);
            return false;
        };
        self.listing = Some(Listing {
            guild,
            roles: known.roles.clone(),
            found: Holders::new(),
            meanwhile: HashMap::new(),
            is_cancelled: false,
            is_outdated: false,
        });
        true
    }

    /// Whether a listing is in progress and still needed.
    pub(crate) fn is_listing(&self) -> bool {
        self.listing.as_ref().is_some_and(|listing| !listing.is_cancelled)
    }

    /// Adds a page. Returns the highest ID on it; `None` if the listing is no longer needed.
    pub(crate) fn add_page(&mut self, members: &[Member]) -> Option<u64> {
        let listing = self.listing.as_mut().filter(|listing| !listing.is_cancelled)?;
        for member in members {
            hold(&mut listing.found, member.user, granting(&member.roles, &listing.roles));
        }
        Some(members.iter().map(|member| member.user).max().unwrap_or_default())
    }

    /// The last page was added. Returns whether the staff is now known; if more roles began to grant something meanwhile, or one
    /// was deleted, the guild is listed again.
    pub(crate) fn end_listing(&mut self) -> bool {
        let Some(mut listing) = self.listing.take().filter(|listing| !listing.is_cancelled) else { return false };
        let Some(known) = self.known.get_mut(&listing.guild) else { return false };
        for (user, roles) in listing.meanwhile {
            hold(&mut listing.found, user, granting(&roles.unwrap_or_default(), &listing.roles));
        }
        if listing.is_outdated || known.roles.iter().any(|role| !listing.roles.contains(role)) {
            return false;
        }
        for held in listing.found.values_mut() {
            held.retain(|role| known.roles.contains(role));
        }
        listing.found.retain(|_, held| !held.is_empty());
        known.holders = Some(listing.found);
        self.queue.remove(&listing.guild);
        true
    }

    /// The listing failed: the guild is tried again later, after the others.
    pub(crate) fn fail_listing(&mut self, now: Duration, delay: impl Fn(u32) -> Duration) {
        let Some(listing) = self.listing.take().filter(|listing| !listing.is_cancelled) else { return };
        if let Some(queued) = self.queue.get_mut(&listing.guild) {
            queued.failures += 1;
            queued.due = now + delay(queued.failures);
        }
    }

    /// Nobody is listed until the next session.
    pub(crate) fn forbid_listings(&mut self) {
        self.is_forbidden = true;
        self.listing = None;
        self.queue.clear();
    }

    fn enqueue(&mut self, guild: u64) {
        if !self.is_forbidden && !self.queue.contains_key(&guild) {
            self.places += 1;
            self.queue.insert(guild, Queued { due: Duration::ZERO, place: self.places, failures: 0 });
        }
    }

    fn remember(&mut self, guild: u64, change: Change, now: Duration) {
        while self.recent.front().is_some_and(|event| event.at + CACHE_LAG <= now) {
            self.recent.pop_front();
        }
        if self.recent.len() >= RECENT_EVENTS {
            self.recent.pop_front();
            self.recent_lost = Some(now);
        }
        self.recent.push_back(Recent { at: now, guild, change });
    }
}

/// The roles among these that grant something, in ascending order.
pub(crate) fn granting(roles: &[u64], granting: &[u64]) -> Vec<u64> {
    let mut held: Vec<u64> = roles.iter().filter(|role| granting.contains(role)).copied().collect();
    held.sort_unstable();
    held.dedup();
    held
}

fn hold(holders: &mut Holders, user: u64, roles: Vec<u64>) {
    if roles.is_empty() {
        holders.remove(&user);
    } else {
        holders.insert(user, roles);
    }
}

/// Nobody has a deleted role.
fn drop_role(holders: &mut Holders, role: u64) {
    holders.retain(|_, held| {
        held.retain(|one| *one != role);
        !held.is_empty()
    });
}
