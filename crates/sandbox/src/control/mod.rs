//! The switches: failures that a dashboard's developer can simulate, through the page `/control` or with curl.
//!
//! Some switches act here, on the provider's side, and some on the service, which the sandbox only knows as
//! [`ServiceSwitches`]. A switch shows in the service's next response, and so does turning it off: the service is made to forget
//! lists and failures that would hide it.

mod page;
mod routes;
mod switches;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use domain::Snowflake;
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::info;

use super::SandboxState;
use super::faults::Fault;
use super::people::Person;
use provider::idp::Endpoint;
pub(super) use routes::{PATH, answer};
use switches::{Act, Switch};

/// The age of a stale list: too old to be served without asking the provider first.
const STALE_AGE: Duration = Duration::from_mins(15);
/// An age at which no list is served any more.
const UNUSABLE_AGE: Duration = Duration::from_hours(30 * 24);
/// How long a slow list takes: longer than anyone likes to wait, but shorter than the service waits.
const SLOW: Duration = Duration::from_secs(4);
/// How long a call that is never answered is kept open: longer than any client waits.
const NEVER: Duration = Duration::from_mins(1);

/// What switches do to the service. An error is a sentence for the developer.
#[async_trait]
pub trait ServiceSwitches: Send + Sync {
    async fn state(&self) -> Result<ServiceState, String>;
    async fn set_bot_online(&self, online: bool) -> Result<(), String>;
    async fn set_blocked(&self, user: Snowflake, blocked: bool) -> Result<(), String>;
    async fn end_sessions(&self, user: Snowflake) -> Result<(), String>;
    /// Waits until a user's guild list, if they have a session, has been fetched.
    async fn settle_list(&self, user: Snowflake);
    /// Gives the stored guild list of a user this age; `false` if there is none.
    async fn make_list_older(&self, user: Snowflake, age: Duration) -> Result<bool, String>;
    /// Refuses this machine's requests as too many, or stops doing so.
    async fn set_rate_limited(&self, limited: bool) -> Result<(), String>;
    /// Leaves the service no room for requests, or stops doing so.
    async fn set_overloaded(&self, overloaded: bool) -> Result<(), String>;
    /// Forgets failures of the provider, so that no call is held back because of them.
    fn forget_failures(&self);
}

#[derive(Clone, Debug, Default)]
pub struct ServiceState {
    pub bot_offline: bool,
    /// Who may not sign in.
    pub blocked: Vec<Snowflake>,
    /// This machine's requests are refused.
    pub rate_limited: bool,
    /// There is no room for requests.
    pub overloaded: bool,
}

/// Who a switch is on for: everyone, or certain people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Reach {
    everybody: bool,
    people: BTreeSet<String>,
}

impl Reach {
    fn nobody(&self) -> bool {
        !self.everybody && self.people.is_empty()
    }
}

type Positions = BTreeMap<Switch, Reach>;

#[derive(Default)]
pub(super) struct Control {
    /// The switches that act in the sandbox.
    on: watch::Sender<Positions>,
    /// While lists are stale: everyone who already has a list, and gets no newer one.
    served: Mutex<BTreeSet<String>>,
    service: OnceLock<Arc<dyn ServiceSwitches>>,
    /// Held during a change, so that there is only one at a time.
    changing: tokio::sync::Mutex<()>,
}

impl Control {
    pub(super) fn connect(&self, service: Arc<dyn ServiceSwitches>) {
        // There is only one service.
        let _ = self.service.set(service);
    }

    /// The fault for a call to this endpoint, for any user.
    pub(super) async fn fault_at(&self, endpoint: Endpoint) -> Option<Fault> {
        self.wait_while_on(Switch::ProviderHangs, "", NEVER).await;
        let on = |switch| self.is_on(switch, "");
        if on(Switch::ProviderDown) {
            return Some(Fault::down());
        }
        if on(Switch::ProviderLimits) {
            return Some(Fault::RateLimited { retry_after: Some(5.0), json: true, global: true });
        }
        (on(Switch::ProviderRefuses) && endpoint.is_ours()).then_some(Fault::InvalidClient)
    }

    /// The fault of the call for this person's guild list.
    pub(super) async fn fault_of_list(&self, person: &str) -> Option<Fault> {
        self.wait_while_on(Switch::GuildsHang, person, NEVER).await;
        self.wait_while_on(Switch::GuildsSlow, person, SLOW).await;
        // Even while lists are stale, anyone who has none yet gets one.
        let stale = || self.is_on(Switch::GuildsStale, person) && !self.served.lock().insert(person.to_owned());
        (self.is_on(Switch::GuildsFail, person) || stale()).then(Fault::down)
    }

    fn is_on(&self, switch: Switch, person: &str) -> bool {
        reaches(&self.on.borrow(), switch, person)
    }

    /// Waits until it is turned off, or the time is up.
    async fn wait_while_on(&self, switch: Switch, person: &str, longest: Duration) {
        let mut on = self.on.subscribe();
        let off = on.wait_for(|on| !reaches(on, switch, person));
        let _ = tokio::time::timeout(longest, off).await;
    }

    fn service(&self) -> Result<&Arc<dyn ServiceSwitches>, String> {
        self.service.get().ok_or_else(|| "This sandbox runs without a service, so this switch doesn't work.".to_owned())
    }

    /// All switches with their positions.
    async fn positions(&self, people: &[Person]) -> Result<Positions, String> {
        let mut on = self.on.borrow().clone();
        if let Some(service) = self.service.get() {
            let ServiceState { bot_offline, blocked, rate_limited, overloaded } = service.state().await?;
            for (switch, everybody) in [
                (Switch::BotOffline, bot_offline),
                (Switch::RateLimited, rate_limited),
                (Switch::Overloaded, overloaded),
            ] {
                on.entry(switch).or_default().everybody = everybody;
            }
            let names = people.iter().filter(|person| blocked.contains(&person.id)).map(|person| person.name.clone());
            on.entry(Switch::Blocked).or_default().people = names.collect();
        }
        on.retain(|_, reach| !reach.nobody());
        Ok(on)
    }

    /// Turns something on or off, for one person or for everyone, and waits until it shows.
    async fn set(&self, people: &[Person], switch: Switch, person: Option<&Person>, to: bool) -> Result<(), String> {
        let _alone = self.changing.lock().await;
        // For anyone who wonders why things fail.
        info!(switch = switch.about().name, person = person.map(|person| person.name.as_str()), on = to, "switched");
        match (switch, person) {
            (Switch::BotOffline, _) => return self.service()?.set_bot_online(!to).await,
            (Switch::RateLimited, _) => return self.service()?.set_rate_limited(to).await,
            (Switch::Overloaded, _) => return self.service()?.set_overloaded(to).await,
            (Switch::Blocked, Some(person)) => return self.service()?.set_blocked(person.id, to).await,
            (Switch::Blocked, None) => return Err("Name the person to block.".to_owned()),
            _ => {}
        }
        let affected: Vec<&Person> =
            people.iter().filter(|each| person.is_none_or(|one| one.name == each.name)).collect();
        let service = self.service.get().filter(|_| switch != Switch::ProviderRefuses);
        let settle = async || {
            if let Some(service) = service {
                join_all(affected.iter().map(|person| service.settle_list(person.id))).await;
            }
        };
        if to {
            // A good list that arrived later would hide the switch.
            settle().await;
        }
        self.on.send_modify(|on| {
            let reach = on.entry(switch).or_default();
            match person {
                Some(person) if to => drop(reach.people.insert(person.name.clone())),
                Some(person) => drop(reach.people.remove(&person.name)),
                None if to => reach.everybody = true,
                None => *reach = Reach::default(),
            }
        });
        if switch == Switch::GuildsStale {
            self.served.lock().retain(|name| affected.iter().all(|person| person.name != *name));
        }
        if !to {
            // A fetch that began earlier is about to fail, and its failure would be remembered, so wait for it.
            settle().await;
        }
        if let Some(service) = self.service.get() {
            service.forget_failures();
        }
        if let (Some(service), true) = (service, to) {
            let age = if switch == Switch::GuildsStale { STALE_AGE } else { UNUSABLE_AGE };
            for person in affected {
                if service.make_list_older(person.id, age).await? && switch == Switch::GuildsStale {
                    self.served.lock().insert(person.name.clone());
                }
            }
        }
        Ok(())
    }

    /// Turns everything off, and ends backoff and rate limits caused by earlier failures and requests.
    async fn reset(&self, people: &[Person]) -> Result<(), String> {
        for (switch, reach) in self.positions(people).await? {
            let names = people.iter().filter(|person| reach.people.contains(&person.name));
            let everybody = reach.everybody.then_some(None);
            for person in names.map(Some).chain(everybody) {
                self.set(people, switch, person, false).await?;
            }
        }
        if let Some(service) = self.service.get() {
            service.forget_failures();
            service.set_rate_limited(false).await?;
        }
        Ok(())
    }
}

/// Does something that happens once.
async fn act(state: &SandboxState, act: Act, person: &Person) -> Result<(), String> {
    let _alone = state.control.changing.lock().await;
    let service = state.control.service()?;
    info!(act = act.about().name, person = person.name.as_str(), "switched");
    match act {
        Act::EndSessions => service.end_sessions(person.id).await,
        Act::WithdrawConsent => {
            service.settle_list(person.id).await;
            state.grants.lock().revoke_all(&person.name);
            // The service finds out when it requests the list.
            service.make_list_older(person.id, UNUSABLE_AGE).await.map(drop)
        }
    }
}

fn reaches(on: &Positions, switch: Switch, person: &str) -> bool {
    on.get(&switch).is_some_and(|reach| reach.everybody || reach.people.contains(person))
}
