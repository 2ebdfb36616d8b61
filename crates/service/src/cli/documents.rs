//! `bot-companion completions` and `bot-companion man`: the commands, described for shells and for `man`.

use std::path::Path;

use anyhow::Context as _;
use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use clap_mangen::Man;
use telemetry::Version;

use super::exit::UsageError;
use super::{Cli, print};

const NAME: &str = "bot-companion";

pub(super) fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), NAME, &mut text);
    print(&String::from_utf8(text)?)
}

/// Prints the page of one command, or writes the pages of all commands to a folder.
pub(super) fn man(words: &[String], folder: Option<&Path>) -> anyhow::Result<()> {
    let mut command = without_help(Cli::command());
    // Gives each command its full name and the options it inherits.
    command.build();
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder)
            .and_then(|()| write_pages(command, folder))
            .with_context(|| format!("cannot write the manual pages to {}", folder.display()))?;
        return Ok(());
    }
    for word in words {
        let found = command.find_subcommand(word).cloned();
        command =
            found.ok_or_else(|| UsageError(format!("there is no command `{}`; see --help", word.escape_debug())))?;
    }
    let mut text = Vec::new();
    page(command).render(&mut text)?;
    print(&String::from_utf8(text)?)
}

/// Pages list every command they know, so `help`, which has no page, has to go.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

fn page(command: Command) -> Man {
    // By default it would be the name of the subcommand.
    Man::new(command).source(format!("{NAME} {}", Version::NAME))
}

fn write_pages(command: Command, folder: &Path) -> std::io::Result<()> {
    for below in command.get_subcommands() {
        write_pages(below.clone(), folder)?;
    }
    page(command).generate_to(folder).map(drop)
}

#[cfg(test)]
mod tests {
    use test_support::TestFolder;

    use super::*;

    #[test]
    fn every_page_that_a_page_refers_to_is_written_and_names_the_release() {
        let folder = TestFolder::new();
        man(&[], Some(&folder.path("man"))).unwrap();
        let mut references = 0;
        for entry in std::fs::read_dir(folder.path("man")).unwrap() {
            let path = entry.unwrap().path();
            let page = std::fs::read_to_string(&path).unwrap().replace("\\-", "-");
            let title = format!(".TH {} 1  \"{NAME} {}\"", path.file_stem().unwrap().display(), Version::NAME);
            assert!(page.lines().any(|line| line.trim_end() == title), "{title} is not in {page}");
            for name in page.lines().filter_map(|line| line.strip_suffix("(1)")) {
                references += 1;
                assert!(folder.path("man").join(format!("{name}.1")).exists(), "{name}, which {title} refers to");
            }
        }
        assert!(references > 35, "{references}");
    }
}
