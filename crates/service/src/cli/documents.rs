//! `bot-companion completions` and `bot-companion man`: what the shell and `man` want to know of the commands.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::exit::UsageError;
use super::{Cli, print};

const NAME: &str = "bot-companion";

pub(super) fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), NAME, &mut text);
    print(&String::from_utf8(text)?)
}

pub(super) fn man(words: &[String]) -> anyhow::Result<()> {
    let (mut command, mut name) = (Cli::command(), NAME.to_owned());
    // Each command inherits what its page has to show.
    command.build();
    for word in words {
        let found = command.find_subcommand(word).cloned();
        command =
            found.ok_or_else(|| UsageError(format!("there is no command `{}`; see --help", word.escape_debug())))?;
        name = format!("{name}-{}", command.get_name());
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command).title(&name).render(&mut page)?;
    print(&String::from_utf8(page)?)
}
