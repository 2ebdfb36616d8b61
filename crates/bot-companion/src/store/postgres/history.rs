//! The bot's history.

use async_trait::async_trait;

use super::Postgres;
use crate::domain::history::History;
use crate::store::Result;
use crate::store::history::HistoryStore;

#[async_trait]
impl HistoryStore for Postgres {
    async fn history(&self) -> Result<History> {
        Ok(History::default())
    }
}
