//! The bot's history.

use async_trait::async_trait;

use super::Sqlite;
use crate::domain::history::History;
use crate::store::Result;
use crate::store::history::HistoryStore;

#[async_trait]
impl HistoryStore for Sqlite {
    async fn history(&self) -> Result<History> {
        Ok(History::default())
    }
}
