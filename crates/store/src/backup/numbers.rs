//! The numbers in a backup that only ever grow. Anyone who can write a backup can set them, and a number near the end of its
//! range would leave the store no next one.

use super::format::TableHeader;
use super::value::{CellValue, ColumnKind, Row};

/// No store gets this far on its own: at a million numbers per second it would take 285 years.
pub(super) const LARGEST: i64 = 1 << 53;

/// Columns with numbers of the store's counter.
const COUNTED: [(&str, &str); 7] = [
    ("users", "grant_version"),
    ("users", "list_version"),
    ("feed_shards", "snapshot"),
    ("feed_shards", "committed"),
    ("feed_sweeps", "snapshot"),
    ("guilds", "snapshot"),
    ("guild_staff", "snapshot"),
];
/// Columns whose next number is the largest plus one.
const NUMBERED: [(&str, &str); 3] = [("incidents", "id"), ("announcements", "id"), ("history_updates", "id")];

/// Whether a store can have drawn this number.
pub(super) fn is_plausible(number: i64) -> bool {
    (0..=LARGEST).contains(&number)
}

/// The column of a row whose number no store can have drawn, if any.
pub(super) fn find_absurd<'a>(table: &'a TableHeader, kinds: &[Option<ColumnKind>], row: &Row) -> Option<&'a str> {
    let mut columns = table.columns.iter().zip(kinds).zip(row);
    let absurd = columns.find(|((column, kind), value)| {
        let name = (table.name.as_str(), column.as_str());
        matches!(value, CellValue::Integer(number) if *number > LARGEST)
            && (**kind == Some(ColumnKind::Sequence) || COUNTED.contains(&name) || NUMBERED.contains(&name))
    });
    absurd.map(|((column, _), _)| column.as_str())
}

/// The largest number of the store's counter in a row; 0 if there is none.
pub(super) fn largest_counted(table: &TableHeader, row: &Row) -> i64 {
    let counted = COUNTED.iter().filter(|(name, _)| *name == table.name);
    counted.fold(0, |largest, (_, column)| match table.cell(row, column) {
        Some(CellValue::Integer(number)) => largest.max(*number),
        _ => largest,
    })
}

/// Where counting continues after a restore: above the backup and, so that no number is drawn twice, above what the store has
/// counted so far. A counter that no store reaches on its own came from a tampered backup, and a good one repairs it.
pub(super) fn counter_after(backup: i64, current: i64) -> i64 {
    if is_plausible(current) { backup.max(current) } else { backup }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::tables::{TABLES, kind};

    fn row(name: &str, of: &str, number: i64) -> (TableHeader, Row) {
        let table = TABLES.iter().find(|table| table.name == name).unwrap();
        let value = |column: &str| if column == of { CellValue::Integer(number) } else { CellValue::Null };
        (TableHeader::new(table, 1), table.names().map(value).collect())
    }

    fn absurd((table, row): &(TableHeader, Row)) -> Option<String> {
        let kinds: Vec<_> = table.columns.iter().map(|column| kind(&table.name, column)).collect();
        find_absurd(table, &kinds, row).map(ToOwned::to_owned)
    }

    #[test]
    fn a_counter_only_grows_unless_it_is_absurd() {
        for (backup, current, expected) in [
            (5, 3, 5),
            (3, 5, 5),
            (LARGEST, 0, LARGEST),
            (5, LARGEST, LARGEST),
            (5, LARGEST + 1, 5),
            (5, i64::MAX, 5),
            (5, -1, 5),
        ] {
            assert_eq!(counter_after(backup, current), expected, "{backup} over {current}");
        }
    }

    #[test]
    fn each_number_that_only_grows_has_a_bound_and_others_have_none() {
        let sequences = [("sessions", "ordinal"), ("bot_keys", "ordinal"), ("audit", "id")];
        for (table, column) in COUNTED.into_iter().chain(NUMBERED).chain(sequences) {
            let absurd = |number| absurd(&row(table, column, number));
            let named = Some(column.to_owned());
            assert_eq!((absurd(LARGEST), absurd(LARGEST + 1), absurd(i64::MAX)), (None, named.clone(), named));
        }
        for (table, column) in [("users", "id"), ("team", "discord_id"), ("feedback", "timestamp"), ("guilds", "id")] {
            assert_eq!(absurd(&row(table, column, i64::MAX)), None, "{table}.{column} is not drawn by a store");
        }
    }

    #[test]
    fn rows_tell_how_far_their_store_has_counted() {
        for (table, column, expected) in [("guilds", "snapshot", 7), ("users", "list_version", 7), ("users", "id", 0)] {
            let (table, row) = row(table, column, 7);
            assert_eq!(largest_counted(&table, &row), expected, "{}.{column}", table.name);
        }
    }
}
