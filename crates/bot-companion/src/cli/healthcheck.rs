//! `bot-companion healthcheck`: whether the service on this machine takes requests.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::bail;

use super::local_request::{ask, reachable, ready_url};
use super::{ConfigFile, print, runtime};

/// Shorter than what containers allow by default.
const LIMIT: Duration = Duration::from_secs(5);

pub(super) fn run(file: &ConfigFile, listen: Option<SocketAddr>) -> anyhow::Result<()> {
    let config = file.load()?;
    let service = ready_url(&config, listen.unwrap_or(config.http.listen));
    let Some(admin) = config.admin.listen.filter(|_| listen.is_none()) else {
        return verdict(&service, &question(&service)?);
    };
    let admin = format!("http://{}/readyz", reachable(admin));
    match question(&admin) {
        Ok(answer) if answer.is_ours() || config.admin.is_set => verdict(&admin, &answer),
        Err(error) if config.admin.is_set => Err(error),
        // The default admin address was taken, so the service runs without it.
        _ => verdict(&service, &question(&service)?),
    }
}

struct HealthAnswer {
    status: u16,
    said: Option<String>,
}

impl HealthAnswer {
    fn is_ours(&self) -> bool {
        matches!(self.said.as_deref(), Some("ready" | "draining"))
    }
}

fn question(url: &str) -> anyhow::Result<HealthAnswer> {
    let (status, answer) = runtime()?.block_on(ask(url, LIMIT))?;
    let places = [&answer["status"], &answer["data"]["status"], &answer["data"]["error"]];
    let said = places.into_iter().find_map(|place| place.as_str().map(ToOwned::to_owned));
    Ok(HealthAnswer { status, said })
}

fn verdict(url: &str, answer: &HealthAnswer) -> anyhow::Result<()> {
    match (answer.status, answer.is_ours()) {
        (200, true) => print("ready\n"),
        (503, true) => bail!("{url}: the service was asked to stop, and takes no more requests"),
        (status, _) => {
            bail!("{url} answers with status {status}, and not as this service does: see http.listen and admin.listen")
        }
    }
}
