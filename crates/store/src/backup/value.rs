//! The values in a row, in either store, and their encoding for backups.

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    Integer,
    Real,
    Text,
    Bytes,
    /// A number in SQLite.
    Boolean,
    /// The order rows were added in: a column of numbers or, in SQLite, the row ID.
    Sequence,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CellValue {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Bytes(Vec<u8>),
    Boolean(bool),
}

/// A row, in the order of its table's columns.
pub(crate) type Row = Vec<CellValue>;

impl CellValue {
    /// Roughly how much memory it takes.
    pub(crate) fn size(&self) -> usize {
        let apart = match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        size_of::<Self>() + apart
    }

    /// Whether a column of this kind can have it.
    pub(super) fn fits(&self, kind: ColumnKind) -> bool {
        match self {
            Self::Null => true,
            Self::Integer(_) => matches!(kind, ColumnKind::Integer | ColumnKind::Sequence),
            Self::Real(_) => kind == ColumnKind::Real,
            Self::Text(_) => kind == ColumnKind::Text,
            Self::Bytes(_) => kind == ColumnKind::Bytes,
            Self::Boolean(_) => kind == ColumnKind::Boolean,
        }
    }

    /// Encodes it so that no two values, and no two sequences of values, have the same bytes.
    fn encode(&self, out: &mut Vec<u8>) {
        let mut long = |tag: u8, bytes: &[u8]| {
            out.push(tag);
            out.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
            out.extend_from_slice(bytes);
        };
        match self {
            Self::Null => out.push(0),
            Self::Integer(number) => {
                out.push(1);
                out.extend_from_slice(&number.to_be_bytes());
            }
            Self::Real(number) => {
                out.push(2);
                // Adding nothing turns the two zeros into one, because not every store tells them apart.
                out.extend_from_slice(&(number + 0.0).to_bits().to_be_bytes());
            }
            Self::Text(text) => long(3, text.as_bytes()),
            Self::Bytes(bytes) => long(4, bytes),
            Self::Boolean(truth) => out.extend_from_slice(&[5, u8::from(*truth)]),
        }
    }

    /// Decodes the first value and removes it; `None` if there is none.
    fn decode(from: &mut &[u8]) -> Option<Self> {
        let (tag, rest) = from.split_first()?;
        *from = rest;
        let mut number = || {
            let (number, rest) = from.split_first_chunk::<8>()?;
            *from = rest;
            Some(*number)
        };
        Some(match tag {
            0 => Self::Null,
            1 => Self::Integer(i64::from_be_bytes(number()?)),
            2 => Self::Real(f64::from_bits(u64::from_be_bytes(number()?))),
            3 | 4 => {
                let length = usize::try_from(u64::from_be_bytes(number()?)).ok()?;
                let (bytes, rest) = from.split_at_checked(length)?;
                *from = rest;
                if *tag == 4 {
                    Self::Bytes(bytes.to_vec())
                } else {
                    Self::Text(String::from_utf8(bytes.to_vec()).ok()?)
                }
            }
            5 => {
                let (truth, rest) = from.split_first()?;
                *from = rest;
                Self::Boolean(*truth != 0)
            }
            _ => return None,
        })
    }
}

/// Replaces the one character that PostgreSQL cannot store.
pub(crate) fn replace_nul(row: &mut Row) {
    for value in row {
        if let CellValue::Text(text) = value
            && text.contains('\0')
        {
            *text = text.replace('\0', "\u{fffd}");
        }
    }
}

pub(crate) fn encode(values: &[CellValue]) -> Vec<u8> {
    let mut out = Vec::new();
    for value in values {
        value.encode(&mut out);
    }
    out
}

/// Decodes a row with this many columns; `None` if it isn't one. A long row of tiny values would take far more memory than
/// bytes.
pub(crate) fn decode(mut bytes: &[u8], columns: usize) -> Option<Row> {
    let mut row = Row::new();
    while !bytes.is_empty() {
        if row.len() == columns {
            return None;
        }
        row.push(CellValue::decode(&mut bytes)?);
    }
    Some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        vec![
            CellValue::Null,
            CellValue::Integer(i64::MIN),
            CellValue::Real(-1.5),
            CellValue::Text("ä\0".to_owned()),
            CellValue::Bytes(vec![0, 255]),
            CellValue::Boolean(true),
        ]
    }

    #[test]
    fn what_is_encoded_can_be_decoded() {
        let bytes = encode(&row());
        assert_eq!(decode(&bytes, 6), Some(row()));
        assert_eq!(decode(&bytes, 5), None, "a value too many");
        assert_eq!(decode(&bytes[..bytes.len() - 1], 6), None);
        assert_eq!(decode(&[], 0), Some(vec![]));
        assert_eq!(decode(&[9], 1), None);
    }

    #[test]
    fn what_postgresql_cannot_store_is_replaced() {
        let mut row = row();
        replace_nul(&mut row);
        assert_eq!(row[3], CellValue::Text("ä\u{fffd}".to_owned()));
    }
}
