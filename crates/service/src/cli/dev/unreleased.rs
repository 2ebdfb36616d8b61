//! Demo data that an unreleased version made, and that no release can use.

use std::path::Path;

use anyhow::Context;
use tracing::warn;

use super::DATABASE;

/// Moves such data into a folder of its own, so that the service starts with new data.
pub(super) fn move_aside(data: &Path) -> anyhow::Result<()> {
    if !store::is_unreleased(&data.join(DATABASE)) {
        return Ok(());
    }
    let aside = data.join("unreleased");
    std::fs::create_dir(&aside).with_context(|| format!("cannot create the folder {}", aside.display()))?;
    for file in std::fs::read_dir(data)? {
        let name = file?.file_name();
        if name.to_string_lossy().starts_with(DATABASE) {
            std::fs::rename(data.join(&name), aside.join(&name))?;
        }
    }
    warn!(
        "the demo data was made by an unreleased version: moved it to {}, and starting with new data",
        aside.display()
    );
    Ok(())
}
