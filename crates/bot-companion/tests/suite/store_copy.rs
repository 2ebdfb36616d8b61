//! `bot-companion store copy`, as run by an operator.

use runtime::clock::Clock;

use crate::harness::binary::{command, config_file, run};
use crate::harness::{Folder, sandbox};

/// Exit code, standard output and standard error.
async fn outcome(arguments: &[&str], environment: &[(&str, &str)]) -> (i32, String, String) {
    let mut asked = command(arguments);
    asked.envs(environment.iter().copied());
    let output = run(asked).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// A key that services on different stores share; it encodes `suite-key-material-of-32-bytes!!`.
const SECRET: (&str, &str) = ("COMPANION_SECRETS_KEYS", "suite:c3VpdGUta2V5LW1hdGVyaWFsLW9mLTMyLWJ5dGVzISE=");

/// Creates two bot keys in this store, and lists them.
async fn keys(config: &str, url: &str) -> String {
    for label in ["first", "second"] {
        let arguments = ["key", "create", "--label", label, "--config", config];
        let (code, _, error) = outcome(&arguments, &[("COMPANION_STORE_URL", url), SECRET]).await;
        assert_eq!(code, 0, "{error}");
    }
    listed(config, url).await
}

async fn listed(config: &str, url: &str) -> String {
    let environment = [("COMPANION_STORE_URL", url), SECRET];
    let (code, said, error) = outcome(&["key", "list", "--config", config], &environment).await;
    assert_eq!(code, 0, "{error}");
    assert_eq!(said.lines().count(), 2, "{said}");
    said
}

/// The lines about the tables.
fn sums(said: &str) -> Vec<&str> {
    said.lines().take_while(|line| !line.is_empty()).collect()
}

#[tokio::test]
async fn a_store_moves_to_another_file_and_the_old_one_stays() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let config = config.to_str().unwrap();
    let from = format!("sqlite:{}", folder.path().join("old.db").display());
    let to = format!("sqlite:{}", folder.path().join("deep").join("new.db").display());
    let before = keys(config, &from).await;
    let key = folder.path().join("old.db.key");
    std::fs::write(&key, "").unwrap();
    let (code, said, error) = outcome(&["store", "copy", "--from", &from, "--to", &to], &[]).await;
    assert_eq!((code, error.as_str()), (0, ""), "{said}");
    assert!(
        said.starts_with("table                        rows  checksum\nusers                           0  "),
        "{said}"
    );
    assert!(said.contains("\nbot_keys                        2  "), "{said}");
    assert!(said.contains("Both stores were read again and match: "), "{said}");
    assert!(said.contains(&format!("COMPANION_SECRETS_KEYS_FILE={}.", key.display())), "{said}");
    assert!(
        said.ends_with(
            "Copied from SQLite to SQLite. Now set store.url to the value of --to, and start the service.\n"
        )
    );
    assert_eq!(listed(config, &to).await, before);
    assert_eq!(listed(config, &from).await, before);
    // The second time, nothing happens.
    let (code, said, error) = outcome(&["store", "copy", "--from", &from, "--to", &to], &[]).await;
    assert_eq!((code, said.as_str()), (1, ""));
    assert!(error.starts_with("bot-companion: the destination already has data"), "{error}");
}

#[tokio::test]
async fn a_store_moves_to_postgresql_and_back_with_its_address_in_the_environment() {
    let Some(database) = Database::new() else {
        println!("skipped: BOT_COMPANION_TEST_POSTGRES is not set");
        return;
    };
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let config = config.to_str().unwrap();
    let file = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
    let (old, new) = (file("old.db"), file("new.db"));
    let before = keys(config, &old).await;
    let copy = async |from: &str, to: &str| {
        let (code, said, error) =
            outcome(&["store", "copy"], &[("COMPANION_COPY_FROM", from), ("COMPANION_COPY_TO", to)]).await;
        assert_eq!((code, error.as_str()), (0, ""), "{said}");
        said
    };
    let there = copy(&old, &database.url).await;
    assert!(there.contains("Copied from SQLite to PostgreSQL."), "{there}");
    assert_eq!(listed(config, &database.url).await, before);
    let back = copy(&database.url, &new).await;
    assert_eq!(sums(&back), sums(&there));
    assert_eq!(listed(config, &new).await, before);
}

/// Its own database, removed with the test.
struct Database {
    maintenance: String,
    name: String,
    url: String,
}

impl Database {
    fn new() -> Option<Self> {
        let maintenance = std::env::var("BOT_COMPANION_TEST_POSTGRES").ok().filter(|url| !url.is_empty())?;
        let name = format!("suite_copy_{}", std::process::id());
        let (address, query) = maintenance.split_once('?').unwrap_or((&maintenance, ""));
        let url = format!("{}/{name}?{query}", address.rsplit_once('/').unwrap().0);
        ask(&maintenance, &format!("CREATE DATABASE {name}"));
        Some(Self { url: url.trim_end_matches('?').to_owned(), maintenance, name })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        ask(&self.maintenance, &format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

/// Runs a statement on the server, on its own runtime.
fn ask(url: &str, sql: &str) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
                tokio::spawn(connection);
                client.batch_execute(sql).await.unwrap();
            });
        });
    });
}

#[tokio::test]
async fn a_copy_that_cannot_be_made_says_why_without_a_password() {
    let folder = Folder::new();
    let absent = format!("sqlite:{}", folder.path().join("absent.db").display());
    let new = format!("sqlite:{}", folder.path().join("new.db").display());
    let cases: [(&str, &str, &str); 4] = [
        (&absent, &new, "--from: there is no database at "),
        ("postgres://me:hush@127.0.0.1:1/data", &new, "the source is unavailable: no connection to the database"),
        (&absent, "postgres://me:hush@:hush/data", "--to: the URL cannot be read"),
        ("hush", &new, "--from: write `sqlite:PATH` or `postgres://"),
    ];
    for (from, to, reason) in cases {
        for (arguments, environment) in [
            (vec!["store", "copy", "--start-wait", "0s", "--from", from, "--to", to], vec![]),
            (
                vec!["store", "copy"],
                vec![("COMPANION_COPY_FROM", from), ("COMPANION_COPY_TO", to), ("COMPANION_STORE_START_WAIT", "0s")],
            ),
        ] {
            let (code, said, error) = outcome(&arguments, &environment).await;
            assert_eq!((code, said.as_str()), (1, ""));
            assert!(error.starts_with(&format!("bot-companion: {reason}")), "{error}");
            assert!(!error.contains("hush"), "{error}");
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let (_, help, _) = outcome(&["store", "copy", "--help"], &[("COMPANION_COPY_TO", "postgres://me:hush@b/c")]).await;
    assert!(help.contains("COMPANION_COPY_TO") && !help.contains("hush"), "{help}");
}
