//! The output of commands: lines for people, or with `--json` one JSON document for programs.

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(super) struct OutputForm {
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

impl OutputForm {
    /// A list. For people: a line of aligned cells per row, or the sentence `none` if there are no rows. For programs: an array
    /// with one value per row.
    pub(super) fn list<T>(
        self,
        rows: &[T],
        none: &str,
        value: impl Fn(&T) -> Value,
        cells: impl Fn(&T) -> Vec<String>,
    ) -> String {
        if self.json {
            return pretty(&Value::Array(rows.iter().map(value).collect()));
        }
        if rows.is_empty() {
            return format!("{none}\n");
        }
        columns(&rows.iter().map(cells).collect::<Vec<_>>()).into_iter().map(|line| line + "\n").collect()
    }

    /// One thing: its value for programs, its text for people.
    pub(super) fn one(self, value: &Value, text: impl FnOnce() -> String) -> String {
        if self.json { pretty(value) } else { text() }
    }
}

/// A number and its noun: `1 grant`, `2 grants`, `0 entries`.
pub(super) fn counted(count: u64, one: &str) -> String {
    match one.strip_suffix('y') {
        _ if count == 1 => format!("1 {one}"),
        Some(stem) => format!("{count} {stem}ies"),
        None => format!("{count} {one}s"),
    }
}

/// A progress bar. Only shown if standard error is a terminal.
pub(super) fn progress(total: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::new(total);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Lines of aligned columns with two spaces between them. Empty columns are left out.
pub(super) fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let line = |row: &Vec<String>| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = width(column);
            if width == 0 { String::new() } else { format!("{cell:<width$}  ") }
        });
        cells.collect::<String>().trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_and_its_noun_agree() {
        let said =
            [(0, "grant"), (1, "grant"), (2, "grant"), (1, "entry"), (5_210, "entry")].map(|(n, one)| counted(n, one));
        assert_eq!(said, ["0 grants", "1 grant", "2 grants", "1 entry", "5210 entries"]);
    }

    #[test]
    fn a_list_is_lines_or_an_array() {
        let list = |json, rows: &[u8]| {
            OutputForm { json }.list(
                rows,
                "There is nothing.",
                |row| json!({ "n": row }),
                |row| vec!["number".to_owned(), row.to_string()],
            )
        };
        assert_eq!(list(false, &[1, 2]), "number  1\nnumber  2\n");
        assert_eq!(list(false, &[]), "There is nothing.\n");
        assert_eq!(list(true, &[]), "[]\n");
        let read: Value = serde_json::from_str(&list(true, &[1, 2])).unwrap();
        assert_eq!(read, json!([{ "n": 1 }, { "n": 2 }]));
    }

    #[test]
    fn columns_are_aligned_by_characters() {
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect();
        let lines =
            columns(&[row(&["ä", "1", "", "x"]), row(&["long", "22", "", "a long last one"]), row(&["", "", "", ""])]);
        assert_eq!(lines, ["ä     1   x", "long  22  a long last one", ""]);
    }
}
