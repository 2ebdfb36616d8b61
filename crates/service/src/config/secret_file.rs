//! A secret that the environment passes as a file: `COMPANION_…_FILE`.

use std::fs::File;
use std::io::Read as _;

/// The contents of a secret's file, without the line break that editors add at the end.
pub(super) fn secret_file(path: &str) -> Result<String, String> {
    const LONGEST: u64 = 64 * 1024;
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST).read_to_string(&mut text));
    // People sometimes pass the secret itself instead of its file; none of ours starts with a slash.
    let shown = if path.starts_with('/') { format!("the file {path:?}") } else { "the file that it names".to_owned() };
    read.map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}
