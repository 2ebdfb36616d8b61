//! The keys under which the users' grants are sealed: which of them are in use, and how to change them.

use std::collections::BTreeMap;

use domain::Snowflake;
use store::{GrantKind, HeldGrant, Resealed, Result, SealedGrant, Store};

use super::Accounts;
use crate::vault::{Vault, VaultError, sealed_with};

/// How many grants are read, or written in one transaction.
const BATCH: usize = 500;

/// What is sealed with one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyUse {
    pub grants: u64,
    /// How many of them cannot be opened, though there is a key of that id.
    pub damaged: u64,
}

/// All keys, those that are configured and those that something is sealed with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantReport {
    /// The configured keys in their order, with what is sealed with them; the first one writes.
    pub configured: Vec<(String, KeyUse)>,
    /// Keys that are not configured, with how many grants are sealed with them; no name stands for those that name none.
    pub missing: BTreeMap<String, u64>,
}

/// What a change of keys has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResealReport {
    /// How many grants were looked at.
    pub seen: u64,
    /// How many are sealed with the first key now, and were not before.
    pub resealed: u64,
    /// How many were refreshed or ended while they were being resealed: they were left alone.
    pub changed: u64,
    /// How many cannot be opened.
    pub unreadable: u64,
}

impl GrantReport {
    /// The keys of this vault; no grant has been looked at yet.
    pub fn new(vault: &Vault) -> Self {
        let configured = vault.key_ids().into_iter().map(|id| (id, KeyUse::default()));
        Self { configured: configured.collect(), missing: BTreeMap::new() }
    }

    /// Looks at all grants of a store, and tries to open each of them.
    pub async fn of(store: &dyn Store, vault: &Vault) -> Result<Self> {
        let mut report = Self::new(vault);
        each_batch(store, async |_, grants| {
            for HeldGrant { user, sealed } in grants {
                report.add(vault, user, &sealed);
            }
            Ok(())
        })
        .await?;
        Ok(report)
    }

    /// Tries to open a grant, and counts it.
    pub fn add(&mut self, vault: &Vault, user: Snowflake, sealed: &SealedGrant) {
        let key = sealed_with(sealed);
        match self.configured.iter_mut().find(|(id, _)| *id == key) {
            Some((_, found)) => {
                found.grants += 1;
                found.damaged += u64::from(vault.open(user, sealed).is_err());
            }
            None => *self.missing.entry(key).or_default() += 1,
        }
    }

    pub fn total(&self) -> u64 {
        self.configured.iter().map(|(_, found)| found.grants).chain(self.missing.values().copied()).sum()
    }

    pub fn readable(&self) -> u64 {
        self.configured.iter().map(|(_, found)| found.grants - found.damaged).sum()
    }
}

impl Accounts {
    /// Looks at all grants, and tries to open each of them.
    pub async fn grant_report(&self) -> Result<GrantReport> {
        GrantReport::of(&*self.sources.store, &self.sources.vault).await
    }

    /// Seals everything with the first key that is not yet, while the service runs. What it is told meanwhile is how far it is.
    pub async fn reseal(&self, mut watch: impl FnMut(ResealReport)) -> Result<ResealReport> {
        let (vault, store) = (&self.sources.vault, &self.sources.store);
        let mut report = ResealReport::default();
        each_batch(&**store, async |kind, grants| {
            report.seen += grants.len() as u64;
            let mut resealed = Vec::new();
            for old in grants.into_iter().filter(|grant| !vault.is_current(&grant.sealed)) {
                match vault.open(old.user, &old.sealed).and_then(|grant| vault.seal(old.user, &grant)) {
                    Ok(sealed) => resealed.push(Resealed { old, sealed }),
                    Err(VaultError::UnknownKey | VaultError::Damaged) => report.unreadable += 1,
                    Err(error) => return Err(store::StoreError::Failed(error.to_string())),
                }
            }
            let meant = resealed.len() as u64;
            let done = if meant == 0 { 0 } else { store.replace_sealed(kind, resealed).await? as u64 };
            report.resealed += done;
            report.changed += meant.saturating_sub(done);
            watch(report);
            Ok(())
        })
        .await?;
        Ok(report)
    }
}

/// Shows all grants, a batch at a time. Those to revoke come last: a grant moves there when a user's last session ends.
async fn each_batch(
    store: &dyn Store,
    mut look: impl AsyncFnMut(GrantKind, Vec<HeldGrant>) -> Result<()>,
) -> Result<()> {
    for kind in [GrantKind::InUse, GrantKind::ToRevoke] {
        let mut after = None;
        loop {
            let grants = store.sealed_grants(kind, after, BATCH).await?;
            let Some(last) = grants.last() else { break };
            after = Some(last.user);
            look(kind, grants).await?;
        }
    }
    Ok(())
}
