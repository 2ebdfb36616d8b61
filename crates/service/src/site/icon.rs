//! The bot's picture, from a file that the operator names.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::views::tagged::TaggedBody;

/// The largest file.
const LARGEST: u64 = 256 * 1024;

/// A picture in memory.
pub(super) struct Icon {
    pub(super) media_type: &'static str,
    pub(super) body: TaggedBody,
}

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum IconError {
    #[error("site.icon: {0} cannot be read: {1}; correct the path, or let the service's user read it")]
    Unreadable(PathBuf, std::io::Error),
    #[error("site.icon: {0} has more than 256 KB: make it smaller, such as 256 pixels square")]
    TooLarge(PathBuf),
    /// It isn't a picture that browsers can show.
    #[error("site.icon: {0} is no PNG, JPEG, WebP or GIF: save it as one of these")]
    Unknown(PathBuf),
}

impl Icon {
    pub(super) fn read(path: &Path) -> Result<Self, IconError> {
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes));
        let read = read.map_err(|error| IconError::Unreadable(path.to_owned(), error))?;
        if read as u64 > LARGEST {
            return Err(IconError::TooLarge(path.to_owned()));
        }
        let media_type = media_type(&bytes).ok_or_else(|| IconError::Unknown(path.to_owned()))?;
        Ok(Self { media_type, body: TaggedBody::new(bytes.into()) })
    }
}

/// Whether the file can be shown as the bot's picture.
pub fn check(path: &Path) -> Result<(), IconError> {
    Icon::read(path).map(drop)
}

/// The type according to the first bytes; a file's name may be wrong.
fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_known_by_its_first_bytes() {
        for (bytes, expected) in [
            (&b"\x89PNG\r\n\x1a\n"[..], Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\0\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"<svg onload='alert(1)'/>", None),
            (b"", None),
        ] {
            assert_eq!(media_type(bytes), expected);
        }
    }
}
