//! `bot-companion feedback import`: feedback from a file, for bots that do not send it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Subcommand;
use domain::audit::AuditKind;
use domain::{Change, Feedback, feed};
use serde_json::{Value, json};

use super::database::{self, Missing};
use super::output::{counted, progress};
use super::{CommandOptions, print};
use crate::app::App;

/// Entries per write.
const BATCH: usize = 1_000;
/// The longest line, as in the feed.
const LINE: u64 = 1 << 20;
/// How many refused lines are shown.
const SHOWN: usize = 20;

#[derive(Debug, Subcommand)]
pub(super) enum FeedbackCommand {
    /// Import feedback from a file. Entries with a known ID are replaced.
    ///
    /// NDJSON files have one object per line, like the feed's `feedback` event. CSV files start with a header line: id,
    /// feedback, rating, timestamp, `submitter_id`, `submitter_username`, and optionally `submitter_name` and
    /// `submitter_avatar`.
    Import {
        /// The file: CSV if its name ends in `.csv`, otherwise NDJSON.
        file: PathBuf,
        /// Check the file without importing it.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        options: CommandOptions,
    },
}

pub(super) fn run(command: FeedbackCommand) -> anyhow::Result<()> {
    let FeedbackCommand::Import { file, dry_run, options } = command;
    let report = if dry_run {
        import(None, &file)
    } else {
        database::with(&options.config, Missing::Refuse, async |app| {
            let (app, file) = (Arc::clone(app), file.clone());
            let runtime = tokio::runtime::Handle::current();
            // Reading a file blocks, while the store answers on the runtime.
            app.sources.audit.command(AuditKind::Command, "feedback import", None, None);
            tokio::task::spawn_blocking(move || import(Some((&app, &runtime)), &file)).await?
        })
    }?;
    print(&options.form.one(&report.value(dry_run), || report.text(dry_run)))?;
    if report.refused > 0 {
        bail!("refused {}", counted(report.refused, "line"));
    }
    Ok(())
}

#[derive(Debug, Default, PartialEq, Eq)]
struct ImportReport {
    taken: u64,
    refused: u64,
    shown: Vec<String>,
}

impl ImportReport {
    fn refuse(&mut self, line: u64, reason: &impl std::fmt::Display) {
        self.refused += 1;
        if self.shown.len() < SHOWN {
            self.shown.push(format!("line {line}: {reason}"));
        }
    }

    fn value(&self, dry_run: bool) -> Value {
        json!({ "changed": !dry_run, "taken": self.taken, "refused": self.refused, "first_refused": self.shown })
    }

    fn text(&self, dry_run: bool) -> String {
        let mut lines = self.shown.clone();
        let more = self.refused - self.shown.len() as u64;
        if more > 0 {
            lines.push(format!("… and {more} more"));
        }
        let taken = if dry_run { "would be imported; nothing was changed" } else { "imported" };
        let (entries, lines_refused) = (counted(self.taken, "entry"), counted(self.refused, "line"));
        lines.push(format!("{entries} {taken}, {lines_refused} refused.\n"));
        lines.join("\n")
    }
}

/// Reads a file to its end, and writes it to the store if there is one.
fn import(store: Option<(&Arc<App>, &tokio::runtime::Handle)>, path: &Path) -> anyhow::Result<ImportReport> {
    let named = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(named)?;
    let bar = progress(file.metadata().with_context(named)?.len(), "{bar:40} {bytes} of {total_bytes}, {eta} left");
    let reader = bar.wrap_read(file);
    let csv = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
    let report = read(reader, csv, |batch| match store {
        None => Ok(()),
        Some((app, runtime)) => {
            let changes = batch.into_iter().map(Change::Feedback).collect();
            Ok(runtime.block_on(app.sources.store.apply(changes))?)
        }
    })
    .with_context(|| path.display().to_string());
    bar.finish_and_clear();
    report
}

fn read(
    reader: impl Read,
    csv: bool,
    mut write: impl FnMut(Vec<Feedback>) -> anyhow::Result<()>,
) -> anyhow::Result<ImportReport> {
    let mut report = ImportReport::default();
    let mut batch = Vec::new();
    let mut take = |line: u64, text: &[u8]| -> anyhow::Result<()> {
        match feed::feedback_line(text, &provider::RULES) {
            Ok(entry) => batch.push(entry),
            Err(reason) => report.refuse(line, &reason),
        }
        if batch.len() == BATCH {
            report.taken += batch.len() as u64;
            write(std::mem::take(&mut batch))?;
        }
        Ok(())
    };
    if csv {
        rows(reader, &mut take)?;
    } else {
        lines(reader, &mut take)?;
    }
    report.taken += batch.len() as u64;
    if !batch.is_empty() {
        write(batch)?;
    }
    Ok(report)
}

fn lines(reader: impl Read, mut take: impl FnMut(u64, &[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut reader = BufReader::with_capacity(1 << 16, reader);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if reader.by_ref().take(LINE + 1).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.len() as u64 > LINE && line.last() != Some(&b'\n') {
            bail!("line {number} is longer than 1 MiB; shorten it and import the file again");
        }
        // Some editors start a file with a byte order mark.
        let text = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&line).trim_ascii();
        if !text.is_empty() {
            take(number, text)?;
        }
    }
    Ok(())
}

fn rows(reader: impl Read, mut take: impl FnMut(u64, &[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
    const NEEDED: [&str; 6] = ["id", "feedback", "rating", "timestamp", "submitter_id", "submitter_username"];
    let mut rows = csv::ReaderBuilder::new().flexible(true).trim(csv::Trim::Headers).from_reader(reader);
    let names = rows.headers()?.clone();
    let missing: Vec<_> = NEEDED.into_iter().filter(|needed| !names.iter().any(|name| name == *needed)).collect();
    if !missing.is_empty() {
        bail!("the header line is missing these columns: {}", missing.join(", "));
    }
    let (mut row, mut line) = (csv::ByteRecord::new(), 1);
    while rows.read_byte_record(&mut row)? {
        // Rows as a spreadsheet numbers them: an entry may span several lines.
        line += 1;
        let cell = |wanted: &str| {
            let place = names.iter().position(|name| name == wanted)?;
            let text = String::from_utf8_lossy(row.get(place)?);
            (!text.is_empty()).then(|| text.into_owned())
        };
        // Anything that isn't a number stays text, and is refused as text.
        let number = |wanted| {
            cell(wanted)
                .map(|text| text.trim().parse::<serde_json::Number>().map_or(Value::String(text), Value::Number))
        };
        let entry = json!({
            "id": cell("id"), "feedback": cell("feedback"), "rating": number("rating"), "timestamp": number("timestamp"),
            "submitter": {"id": cell("submitter_id"), "username": cell("submitter_username"),
                "name": cell("submitter_name"), "avatar": cell("submitter_avatar")},
        });
        take(line, entry.to_string().as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imported(text: &str, csv: bool) -> (Vec<Feedback>, ImportReport) {
        let mut all = Vec::new();
        let report = read(text.as_bytes(), csv, |batch| {
            all.extend(batch);
            Ok(())
        });
        (all, report.unwrap())
    }

    #[test]
    fn lines_and_rows_give_the_same_entries() {
        let ndjson = r#"{"id":"a","feedback":"good, \"really\"","rating":5,"timestamp":1700000000,"submitter":{"id":"7","username":"u"}}

            {"id":"b","feedback":"x","rating":9,"timestamp":1,"submitter":{"id":"7","username":"u"}}
            nonsense"#;
        let csv = "id, feedback,rating,timestamp,submitter_id,submitter_username,extra\r\n\
            a,\"good, \"\"really\"\"\",5,1700000000,7,u,\r\nb,x,9,1,7,u\r\nc\r\n";
        let (entries, report) = imported(ndjson, false);
        assert_eq!((report.taken, report.refused), (1, 2));
        assert_eq!(report.shown[0], "line 3: `rating` must be a whole number from 1 to 5.");
        assert!(report.shown[1].starts_with("line 4: The line is not valid JSON"));
        let (same, of_rows) = imported(csv, true);
        assert_eq!(same, entries);
        assert_eq!(of_rows.shown[0], report.shown[0]);
        assert_eq!((of_rows.taken, of_rows.refused), (1, 2));
    }

    #[test]
    fn many_entries_come_in_batches_and_many_refusals_are_counted() {
        let line = |number| {
            format!(
                "{{\"id\":\"{number}\",\"feedback\":\"x\",\"rating\":4,\"timestamp\":1,\"submitter\":{{\"id\":\"7\",\"username\":\"u\"}}}}\n"
            )
        };
        let text: String = (0..2_500).map(line).chain((0..30).map(|_| "{}\n".to_owned())).collect();
        let mut sizes = Vec::new();
        let report = read(text.as_bytes(), false, |batch| {
            sizes.push(batch.len());
            Ok(())
        })
        .unwrap();
        assert_eq!(sizes, [1_000, 1_000, 500]);
        assert_eq!((report.taken, report.refused, report.shown.len()), (2_500, 30, 20));
        assert!(report.text(false).ends_with("… and 10 more\n2500 entries imported, 30 lines refused.\n"));
    }

    #[test]
    fn fuzz_imports() {
        const SAMPLES: &[&[u8]] = &[
            b"id,feedback,rating,timestamp,submitter_id,submitter_username\r\na,\"good, \"\"really\"\"\",5,1700000000,7,u\r\n",
            b"{\"id\":\"a\",\"feedback\":\"x\",\"rating\":4,\"timestamp\":1,\"submitter\":{\"id\":\"7\",\"username\":\"u\"}}\n\nnonsense",
        ];
        let generator = (test_support::inputs::near(SAMPLES), 0..2_u8);
        bolero::check!().with_iterations(test_support::inputs::ITERATIONS).with_generator(generator).for_each(
            |(input, csv)| {
                let mut written = 0;
                let report = read(&input[..], *csv == 1, |batch| {
                    written += batch.len() as u64;
                    Ok(())
                });
                // A table without the required columns is refused as a whole.
                if let Ok(report) = report {
                    assert_eq!(report.taken, written);
                    assert_eq!(report.shown.len() as u64, report.refused.min(SHOWN as u64));
                }
            },
        );
    }

    #[test]
    fn a_table_without_its_columns_is_refused_as_a_whole() {
        let error = read(&b"id,rating\n1,2\n"[..], true, |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("feedback, timestamp, submitter_id, submitter_username"), "{error}");
    }
}
