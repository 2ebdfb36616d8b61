//! The bot's history as a store keeps it.

use async_trait::async_trait;

use super::Result;
use crate::domain::history::History;

/// The part of a store that is the bot's history. Its methods can be called on every [`super::Store`].
#[async_trait]
pub trait HistoryStore: Send + Sync + 'static {
    /// All of it.
    async fn history(&self) -> Result<History>;
}
