//! Avatars and icons, so that nothing is broken without a network: small PNG images, drawn from their names.

use std::io::Write as _;

use aws_lc_rs::digest::{SHA256, digest};
use domain::{Snowflake, picture};
use flate2::Compression;
use flate2::write::ZlibEncoder;

/// The default size of an image, and the allowed range: powers of two, like the provider's.
const USUAL_SIZE: usize = 128;
const SIZES: std::ops::RangeInclusive<usize> = 16..=512;
/// An image is this many cells wide and high, and its right half mirrors the left one.
const CELLS: usize = 6;

/// The provider's extensions. The result is always PNG, and says so.
const EXTENSIONS: [&str; 5] = ["png", "webp", "jpg", "jpeg", "gif"];

/// The image at this path, if it is the path of one.
pub(super) fn find(path: &str, size: Option<&str>) -> Option<Vec<u8>> {
    let (name, extension) = path.rsplit_once('.')?;
    if !EXTENSIONS.contains(&extension) {
        return None;
    }
    match *name.split('/').collect::<Vec<_>>() {
        ["", "avatars" | "icons", id, hash] if picture::is_hash(hash) => id.parse::<Snowflake>().ok().map(drop)?,
        ["", "embed", "avatars", number] => drop(number.parse::<u8>().ok().filter(|number| *number < 6)?),
        _ => return None,
    }
    let asked = size.and_then(|size| size.parse::<usize>().ok());
    let size = asked.filter(|size| size.is_power_of_two() && SIZES.contains(size)).unwrap_or(USUAL_SIZE);
    draw(name, size)
}

/// A pattern in one colour, both taken from the name.
fn draw(name: &str, size: usize) -> Option<Vec<u8>> {
    let seed = digest(&SHA256, name.as_bytes());
    let [red, green, blue, pattern @ ..] = seed.as_ref() else { return None };
    let set = |row: usize, column: usize| {
        let column = column.min(CELLS - 1 - column);
        pattern.get(row * CELLS / 2 + column).is_some_and(|byte| byte % 2 == 1)
    };
    // One bit per pixel; each row starts with the number of its filter, which is none.
    let mut rows = Vec::with_capacity(size * (size / 8 + 1));
    for y in 0..size {
        rows.push(0);
        for byte in 0..size / 8 {
            let bits = (0..8).map(|bit| set(y * CELLS / size, (byte * 8 + bit) * CELLS / size));
            rows.push(bits.fold(0, |byte, bit| byte << 1 | u8::from(bit)));
        }
    }
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&rows).ok()?;

    let length = u32::try_from(size).ok()?.to_be_bytes();
    // One bit per pixel, which is an index into the palette.
    let header = [&length[..], &length[..], &[1, 3, 0, 0, 0]].concat();
    // Half as bright as it could be, so that it is visible on the light background.
    let palette = [0xE8, 0xEA, 0xF2, red / 2 + 40, green / 2 + 40, blue / 2 + 40];
    let mut image = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, data) in
        [(b"IHDR", header.as_slice()), (b"PLTE", &palette), (b"IDAT", &packed.finish().ok()?), (b"IEND", &[])]
    {
        image.extend(u32::try_from(data.len()).ok()?.to_be_bytes());
        let chunk = [kind.as_slice(), data].concat();
        image.extend_from_slice(&chunk);
        image.extend(crc32fast::hash(&chunk).to_be_bytes());
    }
    Some(image)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn pictures_are_where_the_provider_has_them_and_nowhere_else() {
        for path in ["/avatars/1/abc.png", "/icons/80351110224678912/a_b1.webp", "/embed/avatars/5.png"] {
            assert!(find(path, None).is_some(), "{path}");
        }
        for path in [
            "/avatars/x/abc.png",
            "/avatars/1/a.b.png",
            "/avatars/1/.png",
            "/icons/1/abc",
            "/icons/1/abc.svg",
            "/embed/avatars/6.png",
            "/avatars/1/2/abc.png",
            "avatars/1/abc.png",
            "/.png",
        ] {
            assert!(find(path, None).is_none(), "{path}");
        }
        assert_ne!(find("/avatars/1/abc.png", None), find("/avatars/2/abc.png", None));
    }

    #[test]
    fn a_picture_is_a_whole_png_of_the_size_that_was_asked_for() {
        for (asked, size) in [(None, 128), (Some("16"), 16), (Some("512"), 512), (Some("4096"), 128), (Some("17"), 128)]
        {
            let image = find("/avatars/1/abc.png", asked).unwrap();
            assert!(image.len() < 4096, "{} bytes", image.len());
            let (magic, mut rest) = image.split_at(8);
            assert_eq!(magic, b"\x89PNG\r\n\x1a\n");
            let mut kinds = Vec::new();
            while let Some((length, after)) = rest.split_first_chunk::<4>() {
                let length = u32::from_be_bytes(*length) as usize;
                let (chunk, after) = after.split_at(length + 4);
                let (sum, after) = after.split_first_chunk::<4>().unwrap();
                assert_eq!(u32::from_be_bytes(*sum), crc32fast::hash(chunk));
                let (kind, data) = chunk.split_at(4);
                if kind == b"IHDR" {
                    let length = u32::try_from(size).unwrap().to_be_bytes();
                    assert_eq!(data, [&length[..], &length[..], &[1, 3, 0, 0, 0]].concat());
                }
                if kind == b"IDAT" {
                    let mut pixels = Vec::new();
                    flate2::read::ZlibDecoder::new(data).read_to_end(&mut pixels).unwrap();
                    assert_eq!(pixels.len(), size * (size / 8 + 1));
                }
                kinds.push(String::from_utf8(kind.to_vec()).unwrap());
                rest = after;
            }
            assert_eq!(kinds, ["IHDR", "PLTE", "IDAT", "IEND"]);
        }
    }
}
