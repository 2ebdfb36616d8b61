//! `bot-companion config`: the default configuration, or the one in use.

use serde_json::json;

use super::exit::UsageError;
use super::{CommandOptions, print};
use crate::config::{Config, DEFAULTS, EffectiveValue};

pub(super) fn run(effective: bool, CommandOptions { form, config }: &CommandOptions) -> anyhow::Result<()> {
    if !effective {
        let advice = "the default configuration is commented TOML: for JSON, add --effective";
        return if form.json { Err(UsageError(advice.to_owned()).into()) } else { print(DEFAULTS) };
    }
    let values = Config::effective(config.file.as_deref(), std::env::vars_os())?;
    let value =
        |entry: &EffectiveValue| json!({ "option": entry.option, "value": entry.value, "source": entry.source });
    // The value comes last, because some are long.
    let cells = |entry: &EffectiveValue| vec![entry.option.clone(), entry.source.clone(), entry.value.to_string()];
    print(&form.list(&values, "There are no options.", value, cells))
}
