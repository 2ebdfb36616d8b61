//! Asks for the values that a configuration needs.

use std::io::{self, BufRead as _, Write as _};

use anyhow::bail;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use secrecy::{ExposeSecret as _, SecretString};

use super::template::default_of;
use super::{Answers, check_listen, check_public_url, check_redirects, check_store};

/// The exit code that shells report for a process ended by SIGINT.
const INTERRUPTED: i32 = 130;

/// Someone to ask.
pub(super) trait Respondent {
    /// Shows the question. `None` if there will be no more answers.
    fn ask(&mut self, question: &str) -> io::Result<Option<String>>;
    /// The same, without showing the answer.
    fn ask_secretly(&mut self, question: &str) -> io::Result<Option<String>>;
    fn tell(&mut self, text: &str) -> io::Result<()>;
}

/// The person at the terminal. Standard output is reserved for what the command prints.
pub(super) struct Terminal;

impl Respondent for Terminal {
    fn ask(&mut self, question: &str) -> io::Result<Option<String>> {
        let mut out = io::stderr().lock();
        write!(out, "{question}: ")?;
        out.flush()?;
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line)?;
        Ok((read > 0).then(|| line.trim().to_owned()))
    }

    fn ask_secretly(&mut self, question: &str) -> io::Result<Option<String>> {
        let before = tcgetattr(io::stdin())?;
        restore_at_interrupt(before.clone());
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        let answer = self.ask(question);
        tcsetattr(io::stdin(), OptionalActions::Now, &before)?;
        // The Enter key was not shown either.
        self.tell("")?;
        answer
    }

    fn tell(&mut self, text: &str) -> io::Result<()> {
        writeln!(io::stderr(), "{text}")
    }
}

/// Makes the terminal show input again if the user presses Ctrl-C while it is hidden.
fn restore_at_interrupt(before: Termios) {
    let wait = move || {
        let Ok(runtime) = crate::cli::runtime() else { return };
        if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
            std::process::exit(INTERRUPTED);
        }
    };
    // Without the thread, Ctrl-C ends the process as usual.
    let _ = std::thread::Builder::new().name("interrupt".to_owned()).spawn(wait);
}

/// Asks for everything that is still missing.
pub(super) fn complete(mut answers: Answers, person: &mut impl Respondent) -> anyhow::Result<Answers> {
    person.tell("Press Enter to accept the default in [brackets].")?;
    if answers.client_id.is_none() {
        let question = "Application (client) ID, from https://discord.com/developers/applications";
        answers.client_id = Some(until_right(person, question, "", |text| {
            if text.is_empty() { Err("The service needs the ID.".to_owned()) } else { Ok(()) }
        })?);
    }
    if !answers.knows_secret() {
        let question = "Client secret (not shown; Enter to set it through the environment later)";
        let secret = person.ask_secretly(question)?.map(SecretString::from);
        answers.client_secret = secret.filter(|secret| !secret.expose_secret().is_empty());
        answers.is_secret_elsewhere = answers.client_secret.is_none();
    }
    if answers.public_url.is_none() {
        let question = "Public address of this service, like https://bot.example (Enter for none)";
        let url =
            until_right(person, question, "", |text| if text.is_empty() { Ok(()) } else { check_public_url(text) })?;
        answers.public_url = Some(url.trim_end_matches('/').to_owned()).filter(|url| !url.is_empty());
    }
    if answers.redirect_uris.is_empty() {
        let question = "Redirect URL, exactly as registered with the provider (separate several with commas)";
        let dashboard = answers.site_dashboard().unwrap_or_default();
        let given = until_right(person, question, &dashboard, |text| check_redirects(&split(text)))?;
        answers.redirect_uris = split(&given);
    }
    if answers.store.is_none() {
        let question = "Database: sqlite:PATH, or postgres://USER:PASSWORD@HOST/DATABASE (shown as you type)";
        answers.store = Some(until_right(person, question, &default_of("store.url"), check_store)?.into());
    }
    if answers.listen.is_none() {
        let listen = until_right(person, "Listen on", &default_of("http.listen"), check_listen)?;
        answers.listen = listen.parse().ok();
    }
    if answers.name.is_none() {
        answers.name = Some(until_right(person, "Your bot's name", &default_of("site.name"), |_| Ok(()))?);
    }
    Ok(answers)
}

fn split(text: &str) -> Vec<String> {
    text.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// Asks until the answer is valid, saying what is wrong with each one that isn't.
fn until_right(
    person: &mut impl Respondent,
    question: &str,
    default: &str,
    check: impl Fn(&str) -> Result<(), String>,
) -> anyhow::Result<String> {
    let question = if default.is_empty() { question.to_owned() } else { format!("{question} [{default}]") };
    loop {
        let Some(answer) = person.ask(&question)? else { bail!("the input ended early; nothing was written") };
        let answer = if answer.is_empty() { default.to_owned() } else { answer };
        match check(&answer) {
            Ok(()) => return Ok(answer),
            Err(problem) => person.tell(&problem)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Gives these answers, and records the questions.
    struct Script {
        answers: VecDeque<&'static str>,
        questions: Vec<String>,
    }

    impl Respondent for Script {
        fn ask(&mut self, question: &str) -> io::Result<Option<String>> {
            self.questions.push(question.to_owned());
            Ok(self.answers.pop_front().map(str::to_owned))
        }

        fn ask_secretly(&mut self, question: &str) -> io::Result<Option<String>> {
            self.ask(&format!("hidden {question}"))
        }

        fn tell(&mut self, text: &str) -> io::Result<()> {
            self.questions.push(text.to_owned());
            Ok(())
        }
    }

    fn asked(answers: &[&'static str]) -> (anyhow::Result<Answers>, String) {
        let mut person = Script { answers: answers.iter().copied().collect(), questions: Vec::new() };
        let completed = complete(Answers::default(), &mut person);
        (completed, person.questions.join("\n"))
    }

    #[test]
    fn a_wrong_answer_is_asked_for_again_and_enter_takes_the_default() {
        let answers =
            ["", "123", "hush", "bot.example", "https://bot.example", "", "mysql://x", "", "nowhere", "[::1]:9", ""];
        let (completed, questions) = asked(&answers);
        let completed = completed.unwrap();
        assert_eq!(completed.client_id.as_deref(), Some("123"));
        assert_eq!(completed.client_secret.as_ref().unwrap().expose_secret(), "hush");
        assert_eq!(completed.redirect_uris, ["https://bot.example/site/dashboard"]);
        assert_eq!(completed.store.unwrap().expose_secret(), "sqlite:bot-companion.db");
        assert_eq!(
            (completed.listen.unwrap().to_string().as_str(), completed.name.as_deref()),
            ("[::1]:9", Some("The bot"))
        );
        for part in ["needs the ID", "hidden Client secret", "[https://bot.example/site/dashboard]", "[127.0.0.1:8080]"]
        {
            assert!(questions.contains(part), "{part}: {questions}");
        }
    }

    #[test]
    fn an_end_in_the_middle_writes_nothing() {
        let (completed, _) = asked(&["123", "hush"]);
        assert!(completed.err().unwrap().to_string().contains("nothing was written"));
    }
}
