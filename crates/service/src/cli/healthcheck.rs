//! `bot-companion healthcheck`: whether the service on this machine takes requests.

use std::time::Duration;

use anyhow::bail;

use super::local_request::{Answer, LocalQuestion, reachable};
use super::{ConfigFile, print, runtime};
use crate::config::{Config, ConfigError, ListenAddress};

/// Shorter than what containers allow by default.
const LIMIT: Duration = Duration::from_secs(5);

pub(super) fn run(file: &ConfigFile, listen: Option<&ListenAddress>) -> anyhow::Result<()> {
    let config = file.load()?;
    refuse_unconfigured(file, &config, listen)?;
    if let Some(admin) = config.admin.listen.filter(|_| listen.is_none()) {
        let admin = LocalQuestion::at(format!("http://{}/readyz", reachable(admin)));
        let asked = runtime()?.block_on(admin.ask(LIMIT));
        let asked = asked.map(|(status, answer)| (status, Answer::of_admin(&answer)));
        // Another service on this machine may have the default address, in which case ours runs without it.
        let is_ours =
            |asked: &Asked| asked.1.as_ref().is_some_and(|it| it.listen.as_ref() == Some(&config.http.listen));
        // If the operator configured this address, only it is asked.
        if config.admin.is_set || asked.as_ref().is_ok_and(is_ours) {
            return verdict(&admin, &asked?);
        }
    }
    let service = LocalQuestion::of_service(&config, listen.unwrap_or(&config.http.listen));
    let (status, answer) = runtime()?.block_on(service.ask(LIMIT))?;
    verdict(&service, &(status, Answer::of_service(&answer)))
}

/// If nothing says which service is meant, anything on the default port could answer for it.
fn refuse_unconfigured(file: &ConfigFile, config: &Config, listen: Option<&ListenAddress>) -> Result<(), ConfigError> {
    let is_known = file.file.is_some() || listen.is_some();
    if is_known || ["http.listen", "admin.listen", "idp.client_id"].iter().any(|name| config.is_set(name)) {
        return Ok(());
    }
    Err(ConfigError::one(
        "no configuration was given, so another service could answer: pass the service's own --config FILE or --listen \
         ADDRESS, or set \
         COMPANION_CONFIG, COMPANION_ADMIN_LISTEN or COMPANION_HTTP_LISTEN"
            .to_owned(),
    ))
}

/// The status and, if our service answered, what it says.
type Asked = (u16, Option<Answer>);

fn verdict(url: &LocalQuestion, asked: &Asked) -> anyhow::Result<()> {
    match asked {
        (200, Some(Answer { is_draining: false, .. })) => print("ready\n"),
        (503, Some(Answer { is_draining: true, .. })) => {
            bail!("{url}: the service is shutting down and takes no more requests")
        }
        (status, _) => {
            bail!(
                "{url} answers with status {status}, but not the way this service does: check http.listen and admin.listen"
            )
        }
    }
}
