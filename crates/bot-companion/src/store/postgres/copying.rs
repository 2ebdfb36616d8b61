//! Many rows at once, in the database's own binary form: a `COPY`, which is several times faster than statements.

use bytes::{BufMut, Bytes, BytesMut};
use deadpool_postgres::Transaction;
use futures_util::SinkExt;

use crate::domain::Snowflake;

use super::columns::integer;
use super::work::Sql;

/// As large as a piece may get before it is sent.
const PIECE: usize = 64 << 10;
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const NULL: i32 = -1;
const END: i16 = -1;

/// Rows on their way into a table.
pub(super) struct Rows {
    pieces: Vec<Bytes>,
    open: BytesMut,
    columns: i16,
}

impl Rows {
    /// No rows yet; each will have that many columns.
    pub(super) fn of(columns: i16) -> Self {
        let mut open = BytesMut::with_capacity(PIECE + 1024);
        open.put_slice(SIGNATURE);
        Self { pieces: Vec::new(), open, columns }
    }

    /// Begins a row, whose columns follow.
    pub(super) fn row(&mut self) -> &mut Self {
        if self.open.len() >= PIECE {
            let full = std::mem::replace(&mut self.open, BytesMut::with_capacity(PIECE + 1024));
            self.pieces.push(full.freeze());
        }
        self.open.put_i16(self.columns);
        self
    }

    pub(super) fn number(&mut self, number: i64) -> &mut Self {
        self.open.put_i32(8);
        self.open.put_i64(number);
        self
    }

    pub(super) fn id(&mut self, id: Snowflake) -> &mut Self {
        self.number(integer(id.get()))
    }

    pub(super) fn flag(&mut self, flag: bool) -> &mut Self {
        self.open.put_i32(1);
        self.open.put_u8(flag.into());
        self
    }

    pub(super) fn text(&mut self, text: Option<&str>) -> &mut Self {
        match text {
            Some(text) => {
                // No text of ours is near this bound.
                self.open.put_i32(i32::try_from(text.len()).unwrap_or(i32::MAX));
                self.open.put_slice(text.as_bytes());
            }
            None => self.open.put_i32(NULL),
        }
        self
    }

    /// Sends them to the table that the statement `COPY … FROM STDIN (FORMAT binary)` names.
    pub(super) async fn send(mut self, db: &Transaction<'_>, copy: &str) -> Sql<()> {
        self.open.put_i16(END);
        self.pieces.push(self.open.freeze());
        let sink = db.copy_in::<_, Bytes>(copy).await?;
        futures_util::pin_mut!(sink);
        for piece in self.pieces {
            sink.send(piece).await?;
        }
        sink.finish().await?;
        Ok(())
    }
}
