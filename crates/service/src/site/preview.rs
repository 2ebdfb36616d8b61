//! The picture that chat apps show with a link: PNG or JPEG, 1200 × 630 pixels.

use std::path::Path;

use super::icon::{Icon, media_type};
use super::{SiteFileError, files};
use crate::views::tagged::TaggedBody;

pub(super) const OPTION: &str = "site.preview";
const LARGEST_KILOBYTES: u64 = 1024;
pub(super) const WIDTH: u32 = 1200;
pub(super) const HEIGHT: u32 = 630;

/// Reads the file and checks its kind and size.
pub(super) fn read(path: &Path) -> Result<Icon, SiteFileError> {
    let bytes = files::read(OPTION, path, LARGEST_KILOBYTES)?;
    let media_type = media_type(&bytes).filter(|kind| matches!(*kind, "image/png" | "image/jpeg"));
    match (media_type, size(&bytes)) {
        (Some(media_type), Some((WIDTH, HEIGHT))) => Ok(Icon { media_type, body: TaggedBody::new(bytes.into()) }),
        (Some(_), Some((width, height))) => Err(SiteFileError::PreviewSize { path: path.to_owned(), width, height }),
        _ => Err(SiteFileError::NotAPicture { option: OPTION, path: path.to_owned(), kinds: "PNG or JPEG" }),
    }
}

/// Width and height of a PNG or JPEG.
fn size(bytes: &[u8]) -> Option<(u32, u32)> {
    if let Some(header) = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n") {
        // The first chunk: length, name, width, height.
        let sides = header.strip_prefix(b"\0\0\0\x0dIHDR")?;
        return Some((big_endian(sides.get(..4)?), big_endian(sides.get(4..8)?)));
    }
    jpeg_size(bytes.strip_prefix(b"\xff\xd8")?)
}

/// The size in the frame header of a JPEG, after the segments that come before it.
fn jpeg_size(mut segments: &[u8]) -> Option<(u32, u32)> {
    loop {
        let [0xff, marker, rest @ ..] = segments else { return None };
        match marker {
            // Padding before a marker.
            0xff => segments = &segments[1..],
            // A frame header; 0xc4, 0xc8 and 0xcc are something else.
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                // Length, precision, height, width.
                return Some((big_endian(rest.get(5..7)?), big_endian(rest.get(3..5)?)));
            }
            _ => {
                let length = usize::try_from(big_endian(rest.get(..2)?)).ok().filter(|length| *length >= 2)?;
                segments = rest.get(length..)?;
            }
        }
    }
}

fn big_endian(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, byte| (sum << 8) | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pictures_size_is_read_and_nothing_else_is_taken_for_one() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x04\xb0\0\0\x02\x76\x08\x06";
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc4\0\x03a\xff\xc2\0\x11\x08\x02\x76\x04\xb0\x03";
        assert_eq!((size(png), size(jpeg)), (Some((1200, 630)), Some((1200, 630))));
        for length in 0..png.len() - 2 {
            assert_eq!(size(&png[..length]), None, "{length} bytes");
        }
        for length in 0..jpeg.len() - 1 {
            assert_eq!(size(&jpeg[..length]), None, "{length} bytes");
        }
        for odd in [&b""[..], b"<svg/>", b"GIF89a", b"\xff\xd8\xff\xe0\0\0", b"\xff\xd8\xff\xda\0\x01", b"\xff\xd8abc"]
        {
            assert_eq!(size(odd), None, "{odd:?}");
        }
    }
}
