//! `bot-companion init`: writes a configuration, asking for the values it needs.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{self, Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use domain::token::random_text;
use runtime::random::secret_bytes;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use toml::{Table, Value};

use super::exit::UsageError;
use super::output::OutputForm;
use super::print;
use crate::config::{self, Config, Layer, ListenAddress, SecretKey, origin_of};

const HEAD: &str = "\
# The configuration of bot-companion, written by `bot-companion init`. All other options have their defaults: `bot-companion config`
# lists and explains them. `bot-companion check` finds mistakes in this file.

";
const SECRET_VARIABLES: [&str; 2] = ["COMPANION_IDP_CLIENT_SECRET", "COMPANION_IDP_CLIENT_SECRET_FILE"];
const KEYS_VARIABLES: [&str; 2] = ["COMPANION_SECRETS_KEYS", "COMPANION_SECRETS_KEYS_FILE"];
/// The configuration and the database of the systemd unit.
const UNIT_CONFIG: &str = "/etc/bot-companion/companion.toml";
const UNIT_STORE: &str = "sqlite:/var/lib/bot-companion/companion.db";

#[derive(Debug, clap::Args)]
pub(super) struct Init {
    /// The file to write. Only you will be able to read a new one.
    #[arg(default_value = "companion.toml")]
    file: PathBuf,
    /// The public address of the service, like `https://bot.example`.
    #[arg(long, value_name = "URL", value_parser = config::site_url)]
    public_url: Option<String>,
    /// A redirect address, exactly as registered with the provider. Can be repeated. With --public-url, defaults to the
    /// service's own dashboard.
    #[arg(long, value_name = "URL", value_parser = config::redirect_uri)]
    redirect_uri: Vec<String>,
    /// The ID of your application at the provider.
    #[arg(long, value_name = "ID", value_parser = config::discord_id)]
    client_id: Option<String>,
    /// The file for your application's secret; it doesn't have to exist yet. Defaults to `client-secret` next to the configuration.
    #[arg(long, value_name = "FILE", value_parser = secret_file)]
    client_secret_file: Option<PathBuf>,
    /// Don't name a file for the secret: set `COMPANION_IDP_CLIENT_SECRET` or `COMPANION_IDP_CLIENT_SECRET_FILE` instead.
    #[arg(long, conflicts_with = "client_secret_file")]
    secret_from_environment: bool,
    /// The name of your bot, as shown on pages.
    #[arg(long, value_parser = config::site_name)]
    name: Option<String>,
    /// Where the data lives: `sqlite:PATH` or `postgres://USER:PASSWORD@HOST/DATABASE`.
    #[arg(long, value_name = "URL")]
    store: Option<SecretString>,
    /// The address and port to listen on, or `unix:` and the path of a socket.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<ListenAddress>,
    /// Don't ask: use defaults for everything that isn't given.
    #[arg(long)]
    yes: bool,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    form: OutputForm,
}

pub(super) fn run(mut init: Init) -> anyhow::Result<()> {
    let shown = init.file.display().to_string();
    let folder = path::absolute(&init.file)?.parent().map(Path::to_path_buf).unwrap_or_default();
    ensure!(folder.is_dir(), "there is no folder {}: create it first", folder.display());
    ensure!(!init.file.is_dir(), "{shown} is a folder: name a file in it");
    ensure!(
        init.force || !init.file.exists(),
        "{shown} already exists: name another file, or add --force to replace it"
    );
    if init.client_secret_file.is_none() {
        init.secret_from_environment |= SECRET_VARIABLES.iter().any(|name| std::env::var_os(name).is_some());
    }
    if !init.yes && io::stdin().is_terminal() && io::stderr().is_terminal() {
        init.ask()?;
    }
    if init.client_id.is_none() || init.public_url.is_none() && init.redirect_uri.is_empty() {
        let problem = "nothing was written. Without a terminal, or with --yes, pass --client-id ID, and --public-url URL or \
                       --redirect-uri URL";
        return Err(UsageError(problem.to_owned()).into());
    }
    if !init.secret_from_environment {
        let beside = || init.file.with_file_name("client-secret");
        init.client_secret_file = Some(path::absolute(init.client_secret_file.clone().unwrap_or_else(beside))?);
    }
    if init.store.is_none() && init.is_of_unit() {
        init.store = Some(UNIT_STORE.into());
    }
    let needs_key = init.store.as_ref().is_some_and(store::needs_shared_keys)
        && KEYS_VARIABLES.iter().all(|name| std::env::var_os(name).is_none());
    let new_key = needs_key.then(new_key);
    let text = SecretString::from(init.configuration(new_key.as_ref()));
    let config = check(&shown, &text).context("nothing was written, because `check` would refuse it")?;
    write(&init.file, &text, init.force).with_context(|| format!("cannot write {shown}"))?;
    let value = json!({
        "file": shown,
        "secret": if init.secret_from_environment { "environment" } else { "file" },
        "store": store::kind(&config.store.url),
        "key_made": new_key.is_some(),
    });
    print(&init.form.one(&value, || init.next_steps(new_key.is_some())))
}

impl Init {
    /// Asks for what isn't given.
    fn ask(&mut self) -> anyhow::Result<()> {
        if self.public_url.is_none() && self.redirect_uri.is_empty() {
            self.public_url =
                Some(answer("Public address of this service, like https://bot.example", "", config::site_url)?);
        }
        if self.client_id.is_none() {
            let question = "Application (client) ID, from https://discord.com/developers/applications";
            self.client_id = Some(answer(question, "", config::discord_id)?);
        }
        if self.client_secret_file.is_none() && !self.secret_from_environment {
            let default = path::absolute(self.file.with_file_name("client-secret"))?.display().to_string();
            let question = "File for the client secret (you can create it later)";
            self.client_secret_file = Some(answer(question, &default, secret_file)?);
        }
        if self.name.is_none() {
            self.name = Some(answer("Your bot's name", "The bot", config::site_name)?);
        }
        Ok(())
    }

    /// Whether it writes the configuration of the systemd unit.
    fn is_of_unit(&self) -> bool {
        let folder = path::absolute(&self.file).ok().and_then(|file| file.parent()?.canonicalize().ok());
        folder.zip(self.file.file_name()).is_some_and(|(folder, name)| folder.join(name) == Path::new(UNIT_CONFIG))
    }

    fn redirects(&self) -> Vec<String> {
        if self.redirect_uri.is_empty() {
            self.public_url.iter().map(|url| format!("{url}/site/dashboard")).collect()
        } else {
            self.redirect_uri.clone()
        }
    }

    fn configuration(&self, new_key: Option<&SecretKey>) -> String {
        let redirects = self.redirects();
        let mut origins: Vec<String> = redirects.iter().filter_map(|address| origin_of(address)).collect();
        origins.dedup();
        let is_public = self.public_url.as_ref().is_some_and(|url| url.starts_with("https:"));
        let is_behind_proxy = is_public && self.listen.as_ref().is_none_or(ListenAddress::is_local);
        let base_path = self.public_url.as_ref().and_then(|url| Some(url.splitn(4, '/').nth(3)?.to_owned()));
        let secret_file = self.client_secret_file.as_ref().map(|path| path.display().to_string());
        let text = |text: Option<&str>| text.map(Value::from);
        let set = [
            ("http.listen", self.listen.as_ref().map(|listen| listen.to_string().into())),
            ("http.allowed_origins", Some(origins.into())),
            ("http.base_path", base_path.map(|path| format!("/{path}").into())),
            ("http.trusted_proxies", is_behind_proxy.then(|| vec!["127.0.0.1", "::1"].into())),
            ("store.url", text(self.store.as_ref().map(SecretString::expose_secret))),
            ("idp.client_id", text(self.client_id.as_deref())),
            ("idp.client_secret_file", text(secret_file.as_deref())),
            ("idp.redirect_uri", Some(redirects.into())),
            ("secrets.keys", new_key.map(|key| vec![key.to_text().expose_secret().to_owned()].into())),
            ("site.url", text(self.public_url.as_deref())),
            ("site.name", text(self.name.as_deref())),
        ];
        let mut sections = Table::new();
        for (option, value) in set {
            if let (Some((section, key)), Some(value)) = (option.split_once('.'), value)
                && let Value::Table(section) = sections.entry(section).or_insert(Table::new().into())
            {
                section.insert(key.to_owned(), value);
            }
        }
        format!("{HEAD}{sections}")
    }

    /// What to do next, in this order.
    fn next_steps(&self, has_new_key: bool) -> String {
        let (file, is_unit) = (quoted(&self.file), self.is_of_unit());
        let mut lines = vec![format!("{} is written.", self.file.display())];
        if self.secret_from_environment {
            lines.push(format!(
                "The client secret isn't in it: set {} or {}.",
                SECRET_VARIABLES[0], SECRET_VARIABLES[1]
            ));
        }
        if has_new_key {
            let new =
                "It contains a new key for the provider's tokens. Every replica needs the same one; keep a copy of it.";
            lines.push(new.to_owned());
        }
        let redirects = self.redirects().join(" and ");
        lines.push(format!("Register {redirects} as a redirect at the provider, under OAuth2."));
        lines.push("Next:".to_owned());
        if let Some(secret) = self.client_secret_file.as_ref().filter(|file| !file.exists()) {
            let access = if is_unit { "-m 640 -g bot-companion" } else { "-m 600" };
            let how = "paste the client secret, then press Enter and Ctrl-D";
            let folder = if secret.parent().is_some_and(Path::is_dir) { "" } else { "-D " };
            lines.push(format!("  install {folder}{access} /dev/stdin {}    # {how}", quoted(secret)));
        }
        if is_unit && fs::metadata(&self.file).is_ok_and(|file| file.gid() == 0) {
            lines.push(format!("  chgrp bot-companion {file} && chmod 640 {file}"));
        }
        // As root, a command would create a database that the unit can't open.
        let (user, start) = if is_unit {
            ("runuser -u bot-companion -- ", "systemctl enable --now bot-companion".to_owned())
        } else {
            ("", format!("bot-companion serve --config {file}"))
        };
        lines.push(format!("  {user}bot-companion check --live --config {file}\n  {start}\n"));
        lines.join("\n")
    }
}

/// Where a secret can be.
fn secret_file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if text.is_empty() || path.is_dir() {
        return Err("write the name of a file, not of a folder".to_owned());
    }
    if text.starts_with('~') {
        return Err("write the whole path: \"~\" isn't expanded here".to_owned());
    }
    Ok(path)
}

/// A path as a shell reads it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-:@%+=,".contains(letter);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

fn new_key() -> SecretKey {
    let mut bytes = [0; SecretKey::LENGTH];
    secret_bytes(&mut bytes);
    SecretKey::new(random_text(8, secret_bytes), bytes)
}

/// Asks until the answer is valid. Standard output is reserved for what the command prints.
fn answer<T>(question: &str, default: &str, parse: impl Fn(&str) -> Result<T, String>) -> anyhow::Result<T> {
    let brackets = if default.is_empty() { String::new() } else { format!(" [{default}]") };
    loop {
        write!(io::stderr(), "{question}{brackets}: ")?;
        let mut line = String::new();
        if io::stdin().read_line(&mut line)? == 0 {
            writeln!(io::stderr())?;
            bail!("the input ended early; nothing was written");
        }
        let text = if line.trim().is_empty() { default } else { line.trim() };
        match parse(text) {
            Ok(value) => return Ok(value),
            Err(advice) => writeln!(io::stderr(), "  {advice}")?,
        }
    }
}

/// The same as `check`, before anything is written. The client secret may not exist yet.
fn check(file: &str, text: &SecretString) -> anyhow::Result<Config> {
    let others = std::env::vars_os().filter(|(name, _)| SECRET_VARIABLES.iter().all(|variable| name != variable));
    let environment = others.chain([(SECRET_VARIABLES[0].into(), OsString::from("later"))]);
    let config = Config::load_over(&[Layer::new(file, text.expose_secret())], None, environment)?;
    config.require_idp()?;
    Ok(config)
}

/// Only the owner can read a new file; a replaced one keeps its owner, group and mode, but gives no access to others.
fn write(file: &Path, text: &SecretString, force: bool) -> io::Result<()> {
    let mut out =
        OpenOptions::new().write(true).create_new(!force).create(force).truncate(force).mode(0o600).open(file)?;
    let mode = out.metadata()?.mode();
    if mode & 0o007 != 0 {
        out.set_permissions(fs::Permissions::from_mode(mode & 0o770))?;
    }
    out.write_all(text.expose_secret().as_bytes()).and_then(|()| out.sync_all())
}
