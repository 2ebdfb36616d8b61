//! Lists the members of guilds whose staff is not known: one guild at a time, page by page, within the budget.

use std::sync::Arc;

use crate::budget::share;
use crate::core::{Core, wait_until};
use crate::marks::GuildMark;
use crate::source::{ListingError, Page};

/// Lists forever.
pub(crate) async fn run(core: &Arc<Core>) {
    loop {
        let next = core.lock().staff.next_listing(core.clock.now());
        match next {
            Ok(_) if !core.source.has_members_intent() => forbid(core),
            Ok(guild) if is_affordable(core) => list(core, guild).await,
            Ok(_) => await_budget(core).await,
            Err(due) => wait_until(&*core.clock, due, core.list_wake.notified()).await,
        }
    }
}

fn forbid(core: &Core) {
    core.lock().staff.forbid_listings();
    core.say_intent_is_missing();
}

async fn list(core: &Arc<Core>, guild: u64) {
    if !core.lock().staff.begin_listing(guild) {
        return;
    }
    match list_pages(core, guild).await {
        Ok(()) => {
            let is_known = core.lock().staff.end_listing();
            if is_known {
                core.reporter.count(|counters| counters.listings += 1);
                core.reporter.forget("listing");
                core.mark_guild(guild, GuildMark::WHOLE);
            }
        }
        Err(ListingError::Forbidden) => {
            core.reporter.count(|counters| counters.listing_failures += 1);
            core.lock().staff.forbid_listings();
            core.reporter.warn_once(
                "listing forbidden",
                &format!(
                    "the members of guild {guild} cannot be listed: Discord refuses it. Enable the privileged intent \
                     GUILD_MEMBERS (Server Members Intent) for the bot in Discord's developer portal. Until the next \
                     session nobody is listed, and staff is not sent"
                ),
            );
        }
        Err(reason) => {
            core.reporter.count(|counters| counters.listing_failures += 1);
            core.lock().staff.fail_listing(core.clock.now(), |failures| core.limits.listing_delay(failures));
            core.reporter.warn_once(
                "listing",
                &format!(
                    "the members of guild {guild} cannot be listed: {reason}. Its staff stays as the service has it; it \
                     is tried again"
                ),
            );
        }
    }
}

/// Also ends when the listing is no longer needed.
async fn list_pages(core: &Arc<Core>, guild: u64) -> Result<(), ListingError> {
    let mut after = 0;
    loop {
        await_budget(core).await;
        if !core.lock().staff.is_listing() {
            return Ok(());
        }
        spend(core);
        let page = match ask(core, guild, after).await {
            Err(ListingError::Limited(time)) => {
                core.limited(time);
                continue;
            }
            page => page?,
        };
        match core.lock().staff.add_page(&page.members) {
            Some(last) if last > after => after = last,
            _ => return Ok(()),
        }
        if page.is_last {
            return Ok(());
        }
    }
}

async fn ask(core: &Core, guild: u64, after: u64) -> Result<Page, ListingError> {
    let mut page = core.source.list_members(guild, after);
    let began = core.clock.now();
    loop {
        // A rate-limited library waits and retries on its own.
        let moved = began.max(core.lock().budget.limited_until());
        let left = (moved + core.limits.stall_timeout).saturating_sub(core.clock.now());
        if left.is_zero() {
            return Err(ListingError::Failed(format!("no response for {:?}", core.limits.stall_timeout)));
        }
        tokio::select! {
            biased;
            page = &mut page => return page,
            () = core.clock.sleep(left) => {}
        }
    }
}

fn is_affordable(core: &Core) -> bool {
    core.lock().budget.next_page() <= core.clock.now()
}

/// Waits until a page may be requested. Another limit may extend the wait.
async fn await_budget(core: &Core) {
    while !is_affordable(core) {
        let due = core.lock().budget.next_page();
        core.clock.sleep(due.saturating_sub(core.clock.now())).await;
    }
}

/// Records a requested page. Counts the process's shards each time, because they start one after the other.
fn spend(core: &Core) {
    let rate = share(core.limits.listing_rate, core.source.shards().len(), core.source.shard_count());
    core.lock().budget.spend(core.clock.now(), rate);
}
