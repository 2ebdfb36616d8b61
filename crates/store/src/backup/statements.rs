//! SQL that both stores understand, except for how they write a parameter and name the column of a sequence.

use super::tables::{STAGED, TABLES, Table, kind};
use super::value::ColumnKind;

/// How many rows are read or written at a time, at most.
pub(super) const ROWS: usize = 4_000;
/// Roughly how many bytes are read or written at a time, at most.
pub(crate) const BYTES: usize = 4 << 20;

/// Keeps the record of the last backup while the tables are recreated, and restores it.
pub(crate) const KEEP_PROBE: &str = "CREATE TABLE probe_kept AS SELECT id, at FROM probe";
pub(crate) const BRING_PROBE_BACK: &str =
    "INSERT INTO probe (id, at) SELECT id, at FROM probe_kept; DROP TABLE probe_kept";

/// Where the SQL of the two stores differs.
pub(crate) struct Dialect {
    /// The prefix of a parameter's number.
    pub(crate) parameter: char,
    /// The name of a column of the kind `Sequence`, if it isn't its own.
    pub(crate) sequence: Option<&'static str>,
}

impl Dialect {
    /// The column names, separated by commas.
    pub(crate) fn columns<'a>(&self, table: &str, columns: impl IntoIterator<Item = &'a str>) -> String {
        let named = columns.into_iter().map(|column| match (kind(table, column), self.sequence) {
            (Some(ColumnKind::Sequence), Some(name)) => name.to_owned(),
            _ => format!("\"{column}\""),
        });
        named.collect::<Vec<_>>().join(", ")
    }

    /// This many parameters, separated by commas.
    pub(crate) fn parameters(&self, count: usize) -> String {
        let numbered = (1..=count).map(|number| format!("{}{number}", self.parameter));
        numbered.collect::<Vec<_>>().join(", ")
    }

    /// Reads the next rows in key order; with `after`, those after the key given as a parameter.
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

pub(crate) fn count(table: &Table) -> String {
    let condition = table.only.map_or_else(String::new, |only| format!(" WHERE {only}"));
    format!("SELECT count(*) FROM {}{condition}", table.name)
}

/// A query per table that asks whether it has rows that an unused store does not have.
pub(crate) fn own_data_questions() -> impl Iterator<Item = (&'static str, String)> {
    let backed_up = TABLES.iter().map(|table| (table.name, table.unused));
    backed_up.chain(STAGED.map(|staged| (staged, None))).map(|(name, unused)| {
        let condition = unused.map_or_else(String::new, |unused| format!(" WHERE NOT ({unused})"));
        (name, format!("SELECT EXISTS (SELECT 1 FROM {name}{condition})"))
    })
}
