//! The SQL that both stores understand, but for the way that they write a parameter and name the column of a sequence.

use super::tables::{STAGED, TABLES, Table, kind};
use super::value::ColumnKind;

/// At most so many rows are read or written at once.
pub(super) const ROWS: usize = 4_000;
/// At most about so much memory is read or written at once.
pub(crate) const BYTES: usize = 4 << 20;

/// Keeps the note of the last backup while the tables are made again, and brings it back.
pub(crate) const KEEP_PROBE: &str = "CREATE TABLE probe_kept AS SELECT id, at FROM probe";
pub(crate) const BRING_PROBE_BACK: &str =
    "INSERT INTO probe (id, at) SELECT id, at FROM probe_kept; DROP TABLE probe_kept";

/// Where the SQL of the two stores differs.
pub(crate) struct Dialect {
    /// What stands before the number of a parameter.
    pub(crate) parameter: char,
    /// What a column of the kind `Sequence` is called, if not by its own name.
    pub(crate) sequence: Option<&'static str>,
}

impl Dialect {
    /// The columns by name, with commas between.
    pub(crate) fn columns<'a>(&self, table: &str, columns: impl IntoIterator<Item = &'a str>) -> String {
        let named = columns.into_iter().map(|column| match (kind(table, column), self.sequence) {
            (Some(ColumnKind::Sequence), Some(name)) => name.to_owned(),
            _ => format!("\"{column}\""),
        });
        named.collect::<Vec<_>>().join(", ")
    }

    /// So many parameters, with commas between.
    pub(crate) fn parameters(&self, count: usize) -> String {
        let numbered = (1..=count).map(|number| format!("{}{number}", self.parameter));
        numbered.collect::<Vec<_>>().join(", ")
    }

    /// Reads the next rows in the order of the key; after a key, if there is one, which is the parameter.
    pub(crate) fn select(&self, table: &Table, after: bool) -> String {
        let name = table.name;
        let key = self.columns(name, table.names().take(table.key));
        let beyond = after.then(|| format!("({key}) > ({})", self.parameters(table.key)));
        let conditions: Vec<_> = table.only.map(ToOwned::to_owned).into_iter().chain(beyond).collect();
        let conditions =
            if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
        let columns = self.columns(name, table.names());
        format!("SELECT {columns} FROM {name}{conditions} ORDER BY {key} LIMIT {ROWS}")
    }
}

/// Counts the rows.
pub(crate) fn count(table: &Table) -> String {
    let condition = table.only.map_or_else(String::new, |only| format!(" WHERE {only}"));
    format!("SELECT count(*) FROM {}{condition}", table.name)
}

/// For each table the question whether it has rows that a store which was never used does not have.
pub(crate) fn own_data_questions() -> impl Iterator<Item = (&'static str, String)> {
    let backed_up = TABLES.iter().map(|table| (table.name, table.unused));
    backed_up.chain(STAGED.map(|staged| (staged, None))).map(|(name, unused)| {
        let condition = unused.map_or_else(String::new, |unused| format!(" WHERE NOT ({unused})"));
        (name, format!("SELECT EXISTS (SELECT 1 FROM {name}{condition})"))
    })
}
