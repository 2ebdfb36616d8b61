//! The keys that the users' grants are encrypted with: which ones are in use, and how to change them.

use std::collections::BTreeMap;

use domain::Snowflake;
use store::{GrantKind, HeldGrant, Resealed, Result, SealedGrant, Store};

use super::Accounts;
use crate::vault::{Vault, VaultError, sealed_with};

/// How many grants are read, or written in one transaction.
const BATCH: usize = 500;

/// The grants encrypted with one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyUse {
    pub grants: u64,
    /// How many of them cannot be decrypted although a key with that ID exists.
    pub damaged: u64,
}

/// All keys: the configured ones, and those that something is encrypted with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantReport {
    /// The configured keys in order, with the grants encrypted with them; the first one encrypts.
    pub configured: Vec<(String, KeyUse)>,
    /// Keys that are not configured, and how many grants each one encrypted. Grants that name no key are under the empty name.
    pub missing: BTreeMap<String, u64>,
}

/// The progress of a change of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResealReport {
    /// How many grants were checked.
    pub seen: u64,
    /// How many are newly encrypted with the first key.
    pub resealed: u64,
    /// How many were refreshed or ended while they were being re-encrypted, and so left alone.
    pub changed: u64,
    /// How many cannot be decrypted.
    pub unreadable: u64,
}

impl GrantReport {
    /// The keys of this vault, before any grant was checked.
    pub fn new(vault: &Vault) -> Self {
        let configured = vault.key_ids().into_iter().map(|id| (id, KeyUse::default()));
        Self { configured: configured.collect(), missing: BTreeMap::new() }
    }

    /// Tries to decrypt every grant in a store.
    pub async fn of(store: &Store, vault: &Vault) -> Result<Self> {
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

    /// Tries to decrypt a grant, and counts it.
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
    /// Tries to decrypt every grant.
    pub async fn grant_report(&self) -> Result<GrantReport> {
        GrantReport::of(&self.sources.store, &self.sources.vault).await
    }

    /// Re-encrypts everything with the first key while the service runs, and reports its progress.
    pub async fn reseal(&self, mut watch: impl FnMut(ResealReport)) -> Result<ResealReport> {
        let (vault, store) = (&self.sources.vault, &self.sources.store);
        let mut report = ResealReport::default();
        each_batch(store, async |kind, grants| {
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

/// Passes all grants on in batches. Those waiting to be revoked come last, because a grant moves there when a user's last
/// session ends.
async fn each_batch(store: &Store, mut look: impl AsyncFnMut(GrantKind, Vec<HeldGrant>) -> Result<()>) -> Result<()> {
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
