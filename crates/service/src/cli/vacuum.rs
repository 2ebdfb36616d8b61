//! Vacuuming an SQLite file: with `users forget`, and by `bot-companion store vacuum`.

use anyhow::bail;
use clap::Subcommand;
use secrecy::SecretString;
use serde_json::json;
use store::{self, StoreError, VacuumNeeds};

use super::database::{self, Missing};
use super::{CommandOptions, print, runtime};

#[derive(Debug, Subcommand)]
pub(super) enum StoreCommand {
    /// Rewrite the SQLite database file, so that no deleted data is left in it.
    ///
    /// A running service's writes have to wait and may fail, so stop it before you vacuum a large file. Needs twice the file's
    /// size in free disk space.
    Vacuum(CommandOptions),
}

/// A larger file would make a running service refuse writes, which only wait a short time for the vacuum.
const MOST_BESIDE_SERVICE: u64 = 64 << 20;

/// What it needs, in words.
fn description(needs: &VacuumNeeds) -> String {
    let megabytes = |bytes: u64| bytes.div_ceil(1_000_000);
    let free = needs.free.map_or_else(String::new, |free| format!(" ({} MB are free)", megabytes(free)));
    format!(
        "{} MB, which temporarily needs {} MB of free disk space{free} and may take {} s",
        megabytes(needs.size),
        megabytes(needs.room()),
        needs.seconds()
    )
}

/// After someone was forgotten. Returns what is left to do.
pub(super) async fn after_forgetting(url: &SecretString) -> Option<String> {
    let by_hand = |why: &str| {
        format!(
            "Copies of their name may still be in free parts of the database file ({why}): stop the service and run \
             `bot-companion store vacuum`."
        )
    };
    match store::vacuum_needs(url).await {
        Ok(None) => None,
        Ok(Some(needs)) if needs.size > MOST_BESIDE_SERVICE => {
            Some(by_hand("it is too large to vacuum while the service runs"))
        }
        Ok(Some(needs)) if !needs.has_room() => Some(by_hand("there is too little disk space to vacuum it")),
        Ok(Some(_)) => match store::vacuum(url).await {
            Ok(()) => None,
            Err(error) => Some(by_hand(&error.to_string())),
        },
        Err(error) => Some(by_hand(&error.to_string())),
    }
}

pub(super) fn run(StoreCommand::Vacuum(options): StoreCommand) -> anyhow::Result<()> {
    let form = options.form;
    let config = database::prepare(&options.config, Missing::Refuse)?;
    let url = &config.store.url;
    runtime()?.block_on(async {
        let Some(needs) = store::vacuum_needs(url).await? else {
            let text = "There is no SQLite database to vacuum. PostgreSQL vacuums by itself; `VACUUM FULL` rewrites its tables.\n";
            return print(&form.one(&json!({ "vacuumed": false }), || text.to_owned()));
        };
        if !needs.has_room() {
            bail!("there is too little disk space: {}", description(&needs));
        }
        store::vacuum(url).await.map_err(|error| match error {
            StoreError::Busy(why) => anyhow::anyhow!("{why}; stop the service, and try again"),
            other => other.into(),
        })?;
        let text = "The database file was vacuumed: no deleted data is left in it.\n";
        print(&form.one(&json!({ "vacuumed": true }), || text.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_need_of_room_and_time_is_told() {
        let needs = VacuumNeeds { size: 90_000_000, free: Some(5_000_000) };
        let said = description(&needs);
        assert_eq!(said, "90 MB, which temporarily needs 197 MB of free disk space (5 MB are free) and may take 4 s");
    }
}
