//! The pages' files. They are part of the binary. Each address contains a hash of the content, so that browsers can cache
//! them forever.

use std::sync::LazyLock;

use aws_lc_rs::digest;

use crate::views::compressible::CompressibleBody;

/// The default picture, for apps that can't show SVG.
pub(super) const ICON: &[u8] = include_bytes!("assets/icon.png");

/// Name, media type and content of each file.
const FILES: [(&str, &str, &[u8]); 11] = [
    ("style.css", "text/css; charset=utf-8", include_bytes!("assets/style.css")),
    ("times.js", "text/javascript; charset=utf-8", include_bytes!("assets/times.js")),
    ("live.js", "text/javascript; charset=utf-8", include_bytes!("assets/live.js")),
    ("retry.js", "text/javascript; charset=utf-8", include_bytes!("assets/retry.js")),
    ("dashboard.js", "text/javascript; charset=utf-8", include_bytes!("assets/dashboard.js")),
    // `@bot-companion/web` and its `/tabs`, as `sdk/web` builds them for pages without a bundler.
    ("companion.js", "text/javascript; charset=utf-8", include_bytes!("assets/companion.js")),
    ("tabs.js", "text/javascript; charset=utf-8", include_bytes!("assets/tabs.js")),
    ("reference.js", "text/javascript; charset=utf-8", include_bytes!("assets/reference.js")),
    ("theme.js", "text/javascript; charset=utf-8", include_bytes!("assets/theme.js")),
    ("icon.png", "image/png", ICON),
    ("icon.svg", "image/svg+xml", include_bytes!("assets/icon.svg")),
];

/// A file that is ready to send.
pub struct Asset {
    name: &'static str,
    /// The last part of its address.
    file: String,
    pub media_type: &'static str,
    pub body: CompressibleBody,
}

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let asset = |(name, media_type, content): (&'static str, &'static str, &'static [u8])| {
        let body = CompressibleBody::new(bytes::Bytes::from_static(content));
        Asset { name, file: hashed_name(name, content), media_type, body }
    };
    FILES.into_iter().map(asset).collect()
});

/// A file's name with a hash of its content: `style.0123abcd.css`.
pub(super) fn hashed_name(name: &str, content: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA256, content);
    let hash = digest.as_ref().first_chunk().map_or(0, |first| u64::from_be_bytes(*first));
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    format!("{stem}.{hash:016x}.{extension}")
}

/// The file with this address; other versions don't exist.
pub fn find(file: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.file == file)
}

/// The path of a file by its name, under the base path.
pub(super) fn path(name: &str) -> String {
    let asset = ASSETS.iter().find(|asset| asset.name == name);
    debug_assert!(asset.is_some(), "there is no asset {name}");
    format!("/site/assets/{}", asset.map_or("", |asset| &asset.file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_one_version_of_a_file() {
        let path = path("style.css");
        let file = path.strip_prefix("/site/assets/").unwrap();
        let hash = file.strip_prefix("style.").and_then(|rest| rest.strip_suffix(".css")).unwrap();
        assert_eq!(hash.len(), 16, "{file}");
        assert_eq!(find(file).unwrap().media_type, "text/css; charset=utf-8");
        for other in ["style.css", "style.0000000000000000.css", "", "../Cargo.toml"] {
            assert!(find(other).is_none(), "{other}");
        }
    }
}
