//! `bot-companion check`: checks the configuration, and with `--live` everything it refers to.

use super::check_line::{CheckLine, require_all};
use super::{CommandOptions, live_check, print, runtime, start_checks};

pub(super) fn run(live: bool, options: &CommandOptions) -> anyhow::Result<()> {
    let form = options.form;
    let config = options.config.load()?;
    config.require_idp()?;
    let mut lines = start_checks::of_configuration(&config);
    if live {
        lines.extend(start_checks::of_machine(&config, false));
        lines.extend(runtime()?.block_on(live_check::run(&config)));
    } else {
        let unreadable = runtime()?.block_on(live_check::unreadable_grants(&config));
        lines.extend(unreadable.map(|text| CheckLine::warning("keys", text)));
    }
    if live || form.json {
        print(&form.list(&lines, "", CheckLine::value, CheckLine::cells))?;
        return Ok(require_all(&lines)?);
    }
    for line in &lines {
        line.require()?;
    }
    let warnings = lines.iter().filter(|line| line.is_warning()).map(|line| format!("Warning: {}", line.text));
    print(&warnings.chain(["The configuration is fine.\n".to_owned()]).collect::<Vec<_>>().join("\n"))
}
