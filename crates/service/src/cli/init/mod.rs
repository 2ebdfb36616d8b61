//! `bot-companion init`: writes a configuration, asking for the values it needs.

mod answers;
mod template;

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use domain::token::random_text;
use runtime::random::secret_bytes;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use toml::Value;

use self::answers::Terminal;
use self::template::{default_of, render};
use super::exit::UsageError;
use super::output::OutputForm;
use super::print;
use crate::config::{Config, Layer, SecretKey, origin_of};

/// The variables for the application's secret, and those for the keys.
const SECRET_VARIABLES: [&str; 2] = ["COMPANION_IDP_CLIENT_SECRET", "COMPANION_IDP_CLIENT_SECRET_FILE"];
const KEYS_VARIABLES: [&str; 2] = ["COMPANION_SECRETS_KEYS", "COMPANION_SECRETS_KEYS_FILE"];
/// The configuration of the systemd unit.
const UNIT_CONFIG: &str = "/etc/bot-companion/companion.toml";
/// An application's secret is a few dozen characters.
const LONGEST_SECRET: u64 = 4_096;

#[derive(Debug, clap::Args)]
pub(super) struct Init {
    /// The file to write. Only you will be able to read it.
    #[arg(default_value = "companion.toml")]
    file: PathBuf,
    /// The ID of your application at the provider.
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// A file that contains your application's secret; `-` for standard input. The secret is written to the configuration.
    #[arg(long, value_name = "FILE")]
    client_secret_file: Option<PathBuf>,
    /// Leave the secret out of the file; set `COMPANION_IDP_CLIENT_SECRET` or `COMPANION_IDP_CLIENT_SECRET_FILE` instead.
    #[arg(long, conflicts_with = "client_secret_file")]
    secret_from_environment: bool,
    /// The public address of the service, like `https://bot.example`.
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// A redirect address, exactly as registered with the provider. Can be repeated. With --public-url, defaults to the
    /// service's own dashboard.
    #[arg(long, value_name = "URL")]
    redirect_uri: Vec<String>,
    /// Where the data lives: `sqlite:PATH` or `postgres://USER:PASSWORD@HOST/DATABASE`.
    #[arg(long, value_name = "URL")]
    store: Option<SecretString>,
    /// The address and port to listen on.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// The name of your bot, as shown on pages.
    #[arg(long)]
    name: Option<String>,
    /// Don't ask: use defaults for everything that isn't given.
    #[arg(long)]
    yes: bool,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    form: OutputForm,
}

#[derive(Debug, Default)]
struct Answers {
    client_id: Option<String>,
    client_secret: Option<SecretString>,
    /// Whether the secret comes from the environment.
    is_secret_elsewhere: bool,
    public_url: Option<String>,
    redirect_uris: Vec<String>,
    store: Option<SecretString>,
    listen: Option<SocketAddr>,
    name: Option<String>,
}

impl Answers {
    fn knows_secret(&self) -> bool {
        self.client_secret.is_some() || self.is_secret_elsewhere
    }

    /// The service's own page that the provider can send users back to.
    fn site_dashboard(&self) -> Option<String> {
        self.public_url.as_ref().map(|url| format!("{url}/site/dashboard"))
    }

    /// The options for required values that are missing.
    fn missing(&self) -> Vec<&'static str> {
        let needed = [
            (self.client_id.is_some(), "--client-id ID"),
            (self.knows_secret(), "--client-secret-file FILE or --secret-from-environment"),
            (!self.redirect_uris.is_empty() || self.public_url.is_some(), "--redirect-uri URL or --public-url URL"),
        ];
        needed.into_iter().filter(|(known, _)| !known).map(|(_, option)| option).collect()
    }
}

pub(super) fn run(init: Init) -> anyhow::Result<()> {
    let Init { file, force, yes, form, .. } = &init;
    let file = file.clone();
    let form = *form;
    let asks = !yes && io::stdin().is_terminal() && io::stderr().is_terminal();
    let force = *force;
    ensure!(
        force || !file.exists(),
        "{} already exists: name another file, or add --force to replace it",
        file.display()
    );
    let mut known = given(init)?;
    if asks {
        known = answers::complete(known, &mut Terminal)?;
    } else if !known.missing().is_empty() {
        let options = known.missing().join("\n  ");
        return Err(UsageError(format!(
            "can't ask without a terminal, so nothing was written. Pass these options:\n  {options}"
        ))
        .into());
    }
    let new_key = needs_key(&known).then(new_key);
    let text = SecretString::from(render(&options(&known, new_key.as_ref())));
    check(&file, &text, &known)?;
    let is_replaced = write(&file, &text, force).with_context(|| format!("cannot write {}", file.display()))?;
    let value = json!({
        "file": file.display().to_string(),
        "secret": if known.is_secret_elsewhere { "environment" } else { "file" },
        "store": store::kind(&store_url(&known)),
        "key_made": new_key.is_some(),
    });
    print(&form.one(&value, || said(&file, &known, new_key.is_some(), is_replaced)))
}

/// The values given as options.
fn given(init: Init) -> anyhow::Result<Answers> {
    let wrong = |option: &str, checked: Result<(), String>| {
        checked.map_err(|problem| UsageError(format!("{option}: {problem}")))
    };
    if let Some(url) = &init.public_url {
        wrong("--public-url", check_public_url(url))?;
    }
    if !init.redirect_uri.is_empty() {
        wrong("--redirect-uri", check_redirects(&init.redirect_uri))?;
    }
    if let Some(url) = &init.store {
        wrong("--store", check_store(url.expose_secret()))?;
    }
    let client_secret = init.client_secret_file.as_deref().map(read_secret).transpose()?;
    let from_environment = SECRET_VARIABLES.iter().any(|name| std::env::var_os(name).is_some());
    Ok(Answers {
        client_id: init.client_id.filter(|id| !id.trim().is_empty()),
        is_secret_elsewhere: client_secret.is_none() && (init.secret_from_environment || from_environment),
        client_secret,
        public_url: init.public_url.map(|url| url.trim_end_matches('/').to_owned()),
        redirect_uris: init.redirect_uri,
        store: init.store,
        listen: init.listen,
        name: init.name,
    })
}

fn read_secret(path: &Path) -> anyhow::Result<SecretString> {
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        io::stdin().lock().take(LONGEST_SECRET).read_to_string(&mut text)
    } else {
        fs::File::open(path).and_then(|file| file.take(LONGEST_SECRET).read_to_string(&mut text))
    };
    read.with_context(|| format!("cannot read the secret from {}", path.display()))?;
    let secret = SecretString::from(text.trim().to_owned());
    ensure!(!secret.expose_secret().is_empty(), "{} contains no secret", path.display());
    Ok(secret)
}

fn check_public_url(url: &str) -> Result<(), String> {
    match origin_of(url) {
        Some(origin) if origin == url.trim_end_matches('/') => Ok(()),
        _ => Err("Write the address without a path, like https://bot.example.".to_owned()),
    }
}

fn check_redirects(addresses: &[String]) -> Result<(), String> {
    let is_right = !addresses.is_empty() && addresses.iter().all(|address| origin_of(address).is_some());
    if is_right { Ok(()) } else { Err("Write the full address, like https://dashboard.example/callback.".to_owned()) }
}

fn check_store(url: &str) -> Result<(), String> {
    store::check(&url.into()).map_err(|problem| format!("That isn't a valid database URL: {problem}."))
}

fn check_listen(text: &str) -> Result<(), String> {
    text.parse::<SocketAddr>().map(drop).map_err(|_| "Write an address and a port, like 127.0.0.1:8080.".to_owned())
}

fn store_url(known: &Answers) -> SecretString {
    known.store.clone().unwrap_or_else(|| default_of("store.url").into())
}

/// Whether the configuration needs a key for the provider's tokens, because none is created next to the database.
fn needs_key(known: &Answers) -> bool {
    store::needs_shared_keys(&store_url(known)) && KEYS_VARIABLES.iter().all(|name| std::env::var_os(name).is_none())
}

fn new_key() -> SecretKey {
    let mut bytes = [0; SecretKey::LENGTH];
    secret_bytes(&mut bytes);
    SecretKey::new(random_text(8, secret_bytes), bytes)
}

fn options(known: &Answers, key: Option<&SecretKey>) -> Vec<(&'static str, Value)> {
    let mut redirects = known.redirect_uris.clone();
    if redirects.is_empty() {
        redirects.extend(known.site_dashboard());
    }
    let mut origins: Vec<String> = Vec::new();
    for origin in redirects.iter().filter_map(|address| origin_of(address)) {
        if !origins.contains(&origin) {
            origins.push(origin);
        }
    }
    let text = |text: Option<&str>| text.map(Value::from);
    let listen = known.listen.map(|listen| listen.to_string());
    let key = key.map(SecretKey::to_text);
    let set = [
        ("http.listen", text(Some(&listen.unwrap_or_else(|| default_of("http.listen"))))),
        ("http.allowed_origins", Some(origins.into())),
        ("store.url", text(Some(store_url(known).expose_secret()))),
        ("idp.client_id", text(known.client_id.as_deref())),
        ("idp.client_secret", text(known.client_secret.as_ref().map(SecretString::expose_secret))),
        ("idp.redirect_uri", Some(redirects.into())),
        ("secrets.keys", key.map(|key| vec![key.expose_secret().to_owned()].into())),
        ("site.url", text(known.public_url.as_deref())),
        ("site.name", text(known.name.as_deref())),
    ];
    set.into_iter().filter_map(|(option, value)| Some((option, value?))).collect()
}

/// The same as `check`, before anything is written.
fn check(file: &Path, text: &SecretString, known: &Answers) -> anyhow::Result<()> {
    let layer = Layer::new(file.display().to_string(), text.expose_secret());
    let is_set = SECRET_VARIABLES.iter().any(|name| std::env::var_os(name).is_some());
    let stand_in = (known.is_secret_elsewhere && !is_set).then(|| (SECRET_VARIABLES[0].into(), "later".into()));
    let environment: Vec<(OsString, OsString)> = std::env::vars_os().chain(stand_in).collect();
    let config = Config::load_over(&[layer], None, environment)?;
    Ok(config.require_idp()?)
}

/// Writes the file completely or not at all, and returns whether it replaced one. Only the owner can read a new file; a
/// replaced one keeps its owner, group and mode.
fn write(file: &Path, text: &SecretString, force: bool) -> io::Result<bool> {
    // A link is followed, so that it stays one.
    let file = if force { fs::canonicalize(file).unwrap_or_else(|_| file.to_owned()) } else { file.to_owned() };
    let replaced = fs::metadata(&file).ok().filter(|_| force);
    let mut part = file.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
    let written = out.write_all(text.expose_secret().as_bytes()).and_then(|()| out.sync_all());
    let owned = written.and_then(|()| replaced.as_ref().map_or(Ok(()), |replaced| keep_access(&part, replaced)));
    let named = owned.and_then(|()| if force { fs::rename(&part, &file) } else { publish(&part, &file, text) });
    // After a rename it is already gone.
    let _ = fs::remove_file(&part);
    named.map(|()| replaced.is_some())
}

/// Copies the owner, group and mode of the file it replaces, but gives no access to others: it may contain a secret.
fn keep_access(part: &Path, replaced: &fs::Metadata) -> io::Result<()> {
    std::os::unix::fs::chown(part, Some(replaced.uid()), Some(replaced.gid()))?;
    fs::set_permissions(part, fs::Permissions::from_mode(replaced.mode() & 0o770))
}

/// Gives the file its name, unless another one appeared there in the meantime. Unlike a rename, a link never replaces it.
fn publish(part: &Path, file: &Path, text: &SecretString) -> io::Result<()> {
    match fs::hard_link(part, file) {
        // Some file systems have no links.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
            out.write_all(text.expose_secret().as_bytes()).and_then(|()| out.sync_all())
        }
        linked => linked,
    }
}

fn said(file: &Path, known: &Answers, has_new_key: bool, is_replaced: bool) -> String {
    let shown = file.display();
    let access = if is_replaced { "with the owner and group it had" } else { "and only you can read it" };
    let mut lines = vec![format!("{shown} is written, {access}.")];
    if known.is_secret_elsewhere {
        lines.push(format!(
            "It doesn't contain the client secret: set {} or {}.",
            SECRET_VARIABLES[0], SECRET_VARIABLES[1]
        ));
    }
    if has_new_key {
        lines.push(
            "It contains a new key for the provider's tokens. Every replica needs the same one; keep a copy of it."
                .to_owned(),
        );
    }
    // Started by root, the service would create a database that its unit can't open.
    let start = if file == Path::new(UNIT_CONFIG) {
        "systemctl enable --now bot-companion".to_owned()
    } else {
        format!("bot-companion serve --config {shown}")
    };
    lines.push(format!("Next:\n  bot-companion check --live --config {shown}\n  {start}\n"));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_units_configuration_is_started_by_its_unit() {
        let said = |file: &str| said(Path::new(file), &Answers::default(), false, false);
        assert!(said(UNIT_CONFIG).ends_with("\n  systemctl enable --now bot-companion\n"));
        assert!(said("companion.toml").ends_with("\n  bot-companion serve --config companion.toml\n"));
    }
}
