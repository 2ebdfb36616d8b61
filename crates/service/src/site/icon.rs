//! The bot's picture, from a file that the operator names.

use std::path::Path;

use super::SiteFileError;
use super::files;
use crate::views::tagged::TaggedBody;

pub(super) const OPTION: &str = "site.icon";
const LARGEST_KILOBYTES: u64 = 256;

/// A picture in memory.
pub(super) struct Icon {
    pub(super) media_type: &'static str,
    pub(super) body: TaggedBody,
}

impl Icon {
    pub(super) fn read(path: &Path) -> Result<Self, SiteFileError> {
        let bytes = files::read(OPTION, path, LARGEST_KILOBYTES)?;
        let kinds = "PNG, JPEG, WebP or GIF";
        let unknown = || SiteFileError::NotAPicture { option: OPTION, path: path.to_owned(), kinds };
        let media_type = media_type(&bytes).ok_or_else(unknown)?;
        Ok(Self { media_type, body: TaggedBody::new(bytes.into()) })
    }
}

/// The type according to the first bytes; a file's name may be wrong.
pub(super) fn media_type(bytes: &[u8]) -> Option<&'static str> {
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
