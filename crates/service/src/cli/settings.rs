//! `bot-companion config`: the default settings, or the ones in use.

use serde_json::json;

use super::exit::UsageError;
use super::output::OutputForm;
use super::{ConfigFile, print};
use crate::config::{Config, DEFAULTS, EffectiveSetting};

pub(super) fn run(effective: bool, form: OutputForm, file: &ConfigFile) -> anyhow::Result<()> {
    if !effective {
        let advice = "the default configuration is commented TOML: for JSON, add --effective";
        return if form.json { Err(UsageError(advice.to_owned()).into()) } else { print(DEFAULTS) };
    }
    let settings = Config::effective(file.file.as_deref(), std::env::vars_os())?;
    let value = |setting: &EffectiveSetting| json!({ "setting": setting.key, "value": setting.value, "source": setting.source });
    let cells =
        |setting: &EffectiveSetting| vec![setting.key.clone(), setting.value.to_string(), setting.source.clone()];
    print(&form.list(&settings, "There are no settings.", value, cells))
}
