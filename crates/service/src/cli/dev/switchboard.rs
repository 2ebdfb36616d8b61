//! What the sandbox's switches do to the service in `dev`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use domain::Snowflake;
use domain::saturating;
use parking_lot::Mutex;
use runtime::rate_limit::RateLimit;
use sandbox::{ServiceState, ServiceSwitches};
use store::StoredList;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::demo_bot::DemoBot;
use crate::app::App;

/// How long requests are refused.
const LIMITED: Duration = Duration::from_secs(30);
/// The loopback addresses.
const HERE: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// The service's side of the switches.
pub(super) struct Switchboard {
    app: Arc<App>,
    bot: Arc<DemoBot>,
    /// In the clock's ticks.
    limited_until: Mutex<Duration>,
    /// A task that holds all permits until it is aborted.
    overload: Mutex<Option<JoinHandle<()>>>,
}

impl Switchboard {
    pub(super) fn new(app: Arc<App>, bot: Arc<DemoBot>) -> Self {
        Self { app, bot, limited_until: Mutex::default(), overload: Mutex::default() }
    }

    async fn age_list(&self, user: Snowflake, age: Duration) -> store::Result<bool> {
        for _ in 0..3 {
            let Some(account) = self.app.sources.store.account(user).await? else { return Ok(false) };
            let Some(list) = account.list else { return Ok(false) };
            let older = StoredList { fetched: self.app.sources.clock.now().before(age), ..list };
            // If another list was stored in the meantime, age that one.
            if self.app.sources.store.save_list(user, account.list_version, older).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Refuses an address's requests for a while, as if it had sent far too many; `false` if it has no limit.
    fn exhaust(&self, address: IpAddr) -> bool {
        let limit = &self.app.rate_limits.requests;
        let limited = self.app.rate_limits.client_key(address).filter(|_| !limit.is_off());
        limited.map(|client| limit.exhaust(limit.key(&client), self.app.sources.clock.ticks(), LIMITED)).is_some()
    }
}

#[async_trait]
impl ServiceSwitches for Switchboard {
    async fn state(&self) -> Result<ServiceState, String> {
        let blocked = self.app.sources.store.blocked().await.map_err(|error| error.to_string())?;
        Ok(ServiceState {
            bot_offline: self.bot.is_offline().await,
            blocked: blocked.into_iter().map(|entry| entry.user).collect(),
            rate_limited: self.app.sources.clock.ticks() < *self.limited_until.lock(),
            overloaded: self.overload.lock().is_some(),
        })
    }

    async fn set_bot_online(&self, online: bool) -> Result<(), String> {
        match self.bot.set_online(online).await {
            Ok(true) => Ok(()),
            Ok(false) if online => Ok(()),
            Ok(false) => {
                Err("Your own bot is reporting: stop it, and it goes offline 90 seconds after its last heartbeat."
                    .to_owned())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    async fn set_blocked(&self, user: Snowflake, blocked: bool) -> Result<(), String> {
        let done = if blocked {
            self.app.accounts.block(user, "switched in the sandbox".to_owned()).await.map(drop)
        } else {
            self.app.sources.store.unblock(user).await.map(drop)
        };
        done.map_err(|error| error.to_string())
    }

    async fn end_sessions(&self, user: Snowflake) -> Result<(), String> {
        self.app.accounts.end_sessions(user).await.map_err(|error| error.to_string())
    }

    async fn settle_list(&self, user: Snowflake) {
        self.app.accounts.lists.settle(user).await;
    }

    async fn make_list_older(&self, user: Snowflake, age: Duration) -> Result<bool, String> {
        self.age_list(user, age).await.map_err(|error| error.to_string())
    }

    async fn set_rate_limited(&self, limited: bool) -> Result<(), String> {
        if !limited {
            *self.limited_until.lock() = Duration::ZERO;
            self.app.rate_limits.all().into_iter().for_each(RateLimit::reset);
            return Ok(());
        }
        // All of them, not only the first.
        let limits = HERE.map(|address| self.exhaust(address));
        if !limits.contains(&true) {
            return Err("Rate limits are off: start `dev` without --no-limits.".to_owned());
        }
        *self.limited_until.lock() = self.app.sources.clock.ticks() + LIMITED;
        Ok(())
    }

    async fn set_overloaded(&self, overloaded: bool) -> Result<(), String> {
        if !overloaded {
            let overload = self.overload.lock().take();
            if let Some(task) = overload {
                task.abort();
                // The permits are back once it has ended.
                let _ = task.await;
            }
            return Ok(());
        }
        if self.overload.lock().is_some() {
            return Ok(());
        }
        let (tell, taken_all) = oneshot::channel();
        let app = Arc::clone(&self.app);
        let task = tokio::spawn(async move {
            let all = saturating::to_u32(app.config.limits.concurrent_requests);
            // Waits for requests in progress, and takes each permit as it comes back.
            let permits = app.request_permits.acquire_many(all).await;
            let _ = tell.send(());
            std::future::pending::<()>().await;
            drop(permits);
        });
        *self.overload.lock() = Some(task);
        // A slow request keeps its permit, but no other gets one.
        let _ = tokio::time::timeout(Duration::from_secs(5), taken_all).await;
        Ok(())
    }

    fn forget_failures(&self) {
        self.app.sources.provider.forget_failures();
        self.app.accounts.lists.forget_failures();
    }
}
