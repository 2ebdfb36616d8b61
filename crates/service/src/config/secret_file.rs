//! A secret that the environment gives as a file: `COMPANION_…_FILE`.

use std::fs::File;
use std::io::Read as _;

/// What the file of a secret holds, without the line break that editors put at its end.
pub(super) fn secret_file(path: &str) -> Result<String, String> {
    const LONGEST: u64 = 64 * 1024;
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST).read_to_string(&mut text));
    // A common slip is to give the secret itself where its file is asked for; none of ours begins with a slash.
    let shown = if path.starts_with('/') { format!("the file {path:?}") } else { "the file that it names".to_owned() };
    read.map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}
