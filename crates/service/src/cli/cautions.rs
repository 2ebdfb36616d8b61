//! The warnings of `serve` and `check`: data that is not as safe as it should be, and grants whose key is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use runtime::file_access::{self, OTHERS};
use telemetry::untrusted::Untrusted;
use tracing::warn;

use crate::app::App;
use crate::config::{Config, SecretFile, keyfile};

/// Safety problems with the options, the store and the keys, and how to fix them.
pub(super) fn of(config: &Config) -> Vec<String> {
    let key = config.key_file().and_then(|path| keyfile::caution(&path));
    let store = store::cautions(&config.store.url);
    config.risks().into_iter().chain(store).chain(key).chain(readable_secrets(config)).collect()
}

/// The files with secrets that others can read: the configuration, those named by `…_FILE`, and the certificate's key.
fn readable_secrets(config: &Config) -> Vec<String> {
    let mut held: BTreeMap<&Path, BTreeSet<&str>> = BTreeMap::new();
    for SecretFile { option, path } in &config.secret_files {
        held.entry(path).or_default().insert(option);
    }
    if let Some(tls) = &config.tls {
        held.entry(&tls.key).or_default().insert("tls.key");
    }
    let is_open = |path: &Path| file_access::is_open_to(path, OTHERS) && !file_access::is_on_read_only_mount(path);
    let open = held.into_iter().filter(|(path, _)| is_open(path));
    let caution = |(path, options): (&Path, BTreeSet<&str>)| {
        let (path, options) = (path.display(), Vec::from_iter(options).join(", "));
        format!(
            "everyone on this machine can read {path}, which contains {options}; run `chmod o-rwx {path}`, and make sure that the \
             service's user, or its group, can still read it"
        )
    };
    open.map(caution).collect()
}

/// What a missing key makes unreadable, and how to get it back.
pub(super) fn unreadable_grants(count: u64, ids: &[String], new_key: Option<&Path>) -> String {
    let ids: Vec<String> = ids.iter().map(|id| format!("`{}`", Untrusted(id))).collect();
    let remedy = match new_key {
        Some(path) => format!(
            "put the old key file back at {0}, where a new one was just created, or add its contents to secrets.keys",
            path.display()
        ),
        None => "add that key to secrets.keys, after the first one".to_owned(),
    };
    format!(
        "{count} grants in the database cannot be read, because the key that encrypted them is not configured ({}); those people \
         have to sign in again before their guild lists can be refreshed. If you still have the key, {remedy} and restart",
        ids.join(", ")
    )
}

/// Warns at startup if some grants cannot be decrypted.
pub(super) async fn warn_about_unreadable_grants(app: &App) {
    match app.unreadable_grants().await {
        Ok((0, _)) => {}
        Ok((count, ids)) => warn!("{}", unreadable_grants(count, &ids, app.new_key())),
        Err(error) => warn!(%error, "cannot check whether all grants can be read"),
    }
}
