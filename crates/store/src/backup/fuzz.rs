//! Fuzz tests of backup files, because someone may send an operator a malicious one.

use std::sync::LazyLock;

use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use bolero::check;
use test_support::inputs::{ITERATIONS, near};

use super::format::{BackupHeader, BackupReader, BackupWriter, TableHeader};
use super::tables::TABLES;
use super::value::{self, CellValue, ColumnKind, Row};
use super::{BackupError, numbers};
use crate::migrations::{NEWEST, STEPS};

/// A complete backup with a row in each table, and one without any.
static SAMPLES: LazyLock<[&'static [u8]; 2]> = LazyLock::new(|| [1, 0].map(|rows| backup(rows).leak() as &[u8]));

fn backup(rows: u64) -> Vec<u8> {
    let header = BackupHeader {
        release: "0.1.0".to_owned(),
        taken: 1_800_000_000_000,
        store: "SQLite".to_owned(),
        schema: NEWEST,
        counter: 5,
        tables: TABLES.iter().map(|table| TableHeader::new(table, rows)).collect(),
    };
    let mut writer = BackupWriter::begin(Vec::new(), &header).unwrap();
    for table in TABLES.iter().filter(|_| rows > 0) {
        let row: Row = table.columns.iter().map(|column| cell(column.kind)).collect();
        writer.row(&row).unwrap();
    }
    writer.finish().unwrap()
}

fn cell(kind: ColumnKind) -> CellValue {
    match kind {
        ColumnKind::Integer | ColumnKind::Sequence => CellValue::Integer(7),
        ColumnKind::Real => CellValue::Real(0.5),
        ColumnKind::Text => CellValue::Text("ä".to_owned()),
        ColumnKind::Bytes => CellValue::Bytes(vec![0, 255]),
        ColumnKind::Boolean => CellValue::Boolean(true),
    }
}

/// Reads the header and all rows.
fn read(bytes: &[u8]) -> Result<(BackupHeader, Vec<(usize, Row)>), BackupError> {
    let (mut reader, mut rows) = (BackupReader::begin(bytes, STEPS)?, Vec::new());
    while let Some(row) = reader.next()? {
        rows.push(row);
    }
    Ok((reader.header, rows))
}

/// With the right checksum at the end, so that damage is not caught by that alone.
fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len().saturating_sub(SHA256_OUTPUT_LEN));
    let checksum = digest(&SHA256, &bytes);
    bytes.extend_from_slice(checksum.as_ref());
    bytes
}

#[test]
fn fuzz_backups() {
    assert!(SAMPLES.iter().all(|sample| read(sample).is_ok()));
    check!().with_iterations(ITERATIONS).with_generator((near(&*SAMPLES), 0..2_u8)).for_each(|(input, is_sealed)| {
        let input = if *is_sealed == 1 { seal(input.clone()) } else { input.clone() };
        let Ok((header, rows)) = read(&input) else { return };
        assert!(*is_sealed == 1 || SAMPLES.contains(&&*input), "a damaged backup was taken");
        assert_eq!(header.rows(), rows.len() as u64);
        assert!(numbers::is_plausible(header.counter));
        for (table, row) in &rows {
            assert_eq!(row.len(), header.tables[*table].columns.len());
        }
    });
}

#[test]
fn fuzz_backup_rows() {
    static ROWS: LazyLock<[&'static [u8]; 1]> = LazyLock::new(|| {
        let kinds = [ColumnKind::Integer, ColumnKind::Real, ColumnKind::Text, ColumnKind::Bytes, ColumnKind::Boolean];
        let row: Row = kinds.into_iter().map(cell).chain([CellValue::Null]).collect();
        [value::encode(&row).leak()]
    });
    check!().with_iterations(ITERATIONS).with_generator(near(&*ROWS)).for_each(|input| {
        let Some(row) = value::decode(input, 6) else { return };
        assert!(row.len() <= 6);
        // Compared as bytes: no number equals "not a number".
        let encoded = value::encode(&row);
        let again = value::decode(&encoded, 6).unwrap();
        assert_eq!(value::encode(&again), encoded);
    });
}
