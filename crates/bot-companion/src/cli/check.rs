//! `bot-companion check`: is the configuration fine? With `--live`, also what it names.

use anyhow::bail;

use super::live_check::{self, CheckLine};
use super::output::OutputForm;
use super::{ConfigFile, cautions, print, runtime};
use crate::server;

pub(super) fn run(live: bool, form: OutputForm, file: &ConfigFile) -> anyhow::Result<()> {
    let config = file.load()?;
    config.require_idp()?;
    if let Some(tls) = &config.tls {
        server::acceptor(tls)?;
    }
    let mut lines: Vec<_> =
        cautions::of(&config).into_iter().map(|caution| CheckLine::warning("safety", caution)).collect();
    if live {
        lines.extend(runtime()?.block_on(live_check::run(&config)));
    } else {
        let unreadable = runtime()?.block_on(live_check::unreadable_grants(&config));
        lines.extend(unreadable.map(|text| CheckLine::warning("keys", text)));
    }
    if live || form.json {
        print(&form.list(&lines, "", CheckLine::value, CheckLine::cells))?;
    } else {
        let warnings = lines.iter().map(|line| format!("Warning: {}", line.text()));
        print(&warnings.chain(["The configuration is fine.\n".to_owned()]).collect::<Vec<_>>().join("\n"))?;
    }
    let failed = lines.iter().filter(|line| line.has_failed()).count();
    if failed > 0 {
        bail!("{failed} of {} checks failed", lines.len());
    }
    Ok(())
}
