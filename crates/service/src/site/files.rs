//! Files that the operator names: pictures, a style sheet, a page. They are read once, at the start.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SiteFileError {
    #[error("{setting}: {path} cannot be read: {problem}; correct the path, or let the service's user read it")]
    Unreadable { setting: &'static str, path: PathBuf, problem: std::io::Error },
    #[error("{setting}: {path} has more than {kilobytes} KB: make it smaller")]
    TooLarge { setting: &'static str, path: PathBuf, kilobytes: u64 },
    /// Another kind of picture, or none.
    #[error("{setting}: {path} is no {kinds}: save it as one of these")]
    NotAPicture { setting: &'static str, path: PathBuf, kinds: &'static str },
    #[error("site.preview: {path} has {width} × {height} pixels: make it 1200 × 630, which is what chat apps show")]
    PreviewSize { path: PathBuf, width: u32, height: u32 },
    #[error("{setting}: {path} is no text in UTF-8: save it as that")]
    NotText { setting: &'static str, path: PathBuf },
}

impl SiteFileError {
    /// Whether it is about a picture.
    pub fn is_picture(&self) -> bool {
        let (Self::Unreadable { setting, .. } | Self::TooLarge { setting, .. } | Self::NotText { setting, .. }) = self
        else {
            return true;
        };
        matches!(*setting, super::icon::SETTING | super::preview::SETTING)
    }
}

/// The content of a file with at most this many kilobytes.
pub(super) fn read(setting: &'static str, path: &Path, kilobytes: u64) -> Result<Vec<u8>, SiteFileError> {
    let largest = kilobytes * 1024;
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(largest + 1).read_to_end(&mut bytes));
    let read = read.map_err(|problem| SiteFileError::Unreadable { setting, path: path.to_owned(), problem })?;
    if read as u64 > largest {
        return Err(SiteFileError::TooLarge { setting, path: path.to_owned(), kilobytes });
    }
    Ok(bytes)
}

/// The same for a text.
pub(super) fn read_text(setting: &'static str, path: &Path, kilobytes: u64) -> Result<String, SiteFileError> {
    let bytes = read(setting, path, kilobytes)?;
    String::from_utf8(bytes).map_err(|_| SiteFileError::NotText { setting, path: path.to_owned() })
}
