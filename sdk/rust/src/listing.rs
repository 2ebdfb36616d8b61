//! Lists the members of guilds whose staff is not known: one guild at a time, page by page.

use std::sync::Arc;

use crate::core::{Core, wait_until};
use crate::marks::GuildMark;
use crate::source::ListingError;

/// Lists for ever.
pub(crate) async fn run(core: &Arc<Core>) {
    loop {
        let next = core.lock().staff.next_listing(core.clock.now());
        match next {
            Ok(guild) => list(core, guild).await,
            Err(due) => wait_until(&*core.clock, due, core.list_wake.notified()).await,
        }
    }
}

async fn list(core: &Arc<Core>, guild: u64) {
    if !core.source.has_members_intent() {
        core.lock().staff.forbid_listings();
        core.say_intent_is_missing();
        return;
    }
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
        Err(ListingError::Failed(reason)) => {
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

/// Ends, too, when the listing is not wanted any more.
async fn list_pages(core: &Arc<Core>, guild: u64) -> Result<(), ListingError> {
    let mut after = 0;
    loop {
        let page = tokio::select! {
            biased;
            page = core.source.list_members(guild, after) => page?,
            () = core.clock.sleep(core.limits.stall_timeout) => {
                return Err(ListingError::Failed(format!("nothing came for {:?}", core.limits.stall_timeout)));
            }
        };
        match core.lock().staff.add_page(&page.members) {
            Some(last) if last > after => after = last,
            _ => return Ok(()),
        }
        if page.is_last {
            return Ok(());
        }
        core.clock.sleep(core.limits.listing_pause).await;
    }
}
