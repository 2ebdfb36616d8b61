//! Files named in the configuration: pictures, a style sheet, a page. They are read once, at startup.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SiteFileError {
    #[error("{option}: {path} cannot be read: {problem}; correct the path, or let the service's user read it")]
    Unreadable { option: &'static str, path: PathBuf, problem: std::io::Error },
    #[error("{option}: {path} is larger than {kilobytes} KB: make it smaller")]
    TooLarge { option: &'static str, path: PathBuf, kilobytes: u64 },
    /// A different type, or not a picture at all.
    #[error("{option}: {path} isn't a {kinds} file: save it as one of these")]
    NotAPicture { option: &'static str, path: PathBuf, kinds: &'static str },
    #[error("site.preview: {path} is {width} × {height} pixels: make it 1200 × 630, the size that chat apps show")]
    PreviewSize { path: PathBuf, width: u32, height: u32 },
    #[error("{option}: {path} isn't UTF-8 text: save it as UTF-8")]
    NotText { option: &'static str, path: PathBuf },
}

impl SiteFileError {
    /// Whether the file should be a picture.
    pub fn is_picture(&self) -> bool {
        let (Self::Unreadable { option, .. } | Self::TooLarge { option, .. } | Self::NotText { option, .. }) = self
        else {
            return true;
        };
        matches!(*option, super::icon::OPTION | super::preview::OPTION)
    }
}

/// Reads a file, unless it's larger than this.
pub(super) fn read(option: &'static str, path: &Path, kilobytes: u64) -> Result<Vec<u8>, SiteFileError> {
    let largest = kilobytes * 1024;
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(largest + 1).read_to_end(&mut bytes));
    let read = read.map_err(|problem| SiteFileError::Unreadable { option, path: path.to_owned(), problem })?;
    if read as u64 > largest {
        return Err(SiteFileError::TooLarge { option, path: path.to_owned(), kilobytes });
    }
    Ok(bytes)
}

/// Reads a text file, without the mark that some editors put at its start.
pub(super) fn read_text(option: &'static str, path: &Path, kilobytes: u64) -> Result<String, SiteFileError> {
    let bytes = read(option, path, kilobytes)?;
    let text = String::from_utf8(bytes).map_err(|_| SiteFileError::NotText { option, path: path.to_owned() })?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}
