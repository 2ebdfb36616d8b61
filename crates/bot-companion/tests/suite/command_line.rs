//! Commands that print something and exit, and `dev`.

use std::process::Command;

use runtime::clock::Clock;
use sandbox::people::HARBOUR;

use crate::harness::binary::{Running, command, config_file, run};
use crate::harness::{Folder, sandbox};

/// Exit code, standard output and standard error.
async fn outcome(arguments: &[&str]) -> (i32, String, String) {
    outcome_of(command(arguments)).await
}

async fn outcome_of(command: Command) -> (i32, String, String) {
    let output = run(command).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn wrong_options_are_named_with_their_place_and_remedy_and_no_secret() {
    let folder = Folder::new();
    let path = folder.path().join("wrong.toml");
    std::fs::write(
        &path,
        "[http]\nlisen = \"127.0.0.1:0\"\n[idp]\nclient_secret = [\"suite-client-secret\"]\n[sessions]\nidle = \"7 days\"\n",
    )
    .unwrap();
    let path = path.to_str().unwrap();
    for name in ["serve", "check"] {
        let (code, output, error) = outcome(&[name, "--config", path]).await;
        assert_eq!((code, output.as_str()), (78, ""), "{error}");
        assert!(
            error.contains(&format!("{path}:2: http.lisen is not an option; did you mean http.listen?")),
            "{error}"
        );
        assert!(error.contains(&format!("{path}:4: idp.client_secret: write one value, not a list")), "{error}");
        assert!(error.contains(&format!("{path}:6: sessions.idle = \"7 days\": write a number and a unit")), "{error}");
        assert!(!error.contains("suite-client-secret"), "a secret is shown");
    }
}

#[tokio::test]
async fn a_broken_file_and_a_missing_one_are_named_without_showing_what_is_in_them() {
    let folder = Folder::new();
    let path = folder.path().join("broken.toml");
    std::fs::write(&path, "[idp]\nclient_secret = \"suite-client-secret\nclient_id = 1\n").unwrap();
    let (code, _, error) = outcome(&["check", "--config", path.to_str().unwrap()]).await;
    assert_eq!(code, 78);
    assert!(error.contains(&format!("{}:2", path.display())), "{error}");
    assert!(!error.contains("suite-client-secret"), "a secret is shown");
    let (code, _, error) = outcome(&["check", "--config", "/absent/companion.toml"]).await;
    assert_eq!(code, 78);
    assert!(error.contains("/absent/companion.toml: cannot be read"), "{error}");
}

#[tokio::test]
async fn without_options_it_says_which_ones_it_needs() {
    for name in ["serve", "check"] {
        let (code, _, error) = outcome(&[name]).await;
        assert_eq!(code, 78);
        for variable in ["COMPANION_IDP_CLIENT_ID", "COMPANION_IDP_CLIENT_SECRET_FILE", "COMPANION_IDP_REDIRECT_URI"] {
            assert!(error.contains(variable), "{error}");
        }
    }
}

#[tokio::test]
async fn check_says_that_a_good_configuration_is_fine_and_leaves_nothing_behind() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let config = config_file(&folder, &provider, "");
    let said = outcome(&["check", "--config", config.to_str().unwrap()]).await;
    assert_eq!(said, (0, "The configuration is fine.\n".to_owned(), String::new()));
    assert!(!folder.file().exists());
}

#[tokio::test]
async fn check_looks_into_the_certificate_files() {
    let (folder, provider) = (Folder::new(), sandbox(Clock::system()));
    let file = folder.path().join("not-a-certificate.pem");
    std::fs::write(&file, "hello").unwrap();
    let config = config_file(&folder, &provider, &format!("tls = {{ cert = \"{0}\", key = \"{0}\" }}", file.display()));
    let (code, _, error) = outcome(&["check", "--config", config.to_str().unwrap()]).await;
    assert_eq!(code, 78);
    assert!(error.contains("not-a-certificate.pem") && error.contains("tls.cert must name a PEM file"), "{error}");
}

#[tokio::test]
async fn the_printed_configuration_loads_as_one() {
    let (code, printed, _) = outcome(&["config"]).await;
    assert_eq!((code, printed.as_str()), (0, service::config::DEFAULTS));
    let folder = Folder::new();
    let path = folder.path().join("printed.toml");
    std::fs::write(&path, printed).unwrap();
    let mut check = command(&["check", "--config", path.to_str().unwrap()]);
    check.envs([
        ("COMPANION_IDP_CLIENT_ID", "1"),
        ("COMPANION_IDP_CLIENT_SECRET", "x"),
        ("COMPANION_IDP_REDIRECT_URI", "https://a.example/b"),
        ("COMPANION_HTTP_ALLOWED_ORIGINS", "https://a.example"),
    ]);
    let output = run(check).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn the_printed_document_is_the_served_one() {
    let said = outcome(&["openapi"]).await;
    assert_eq!(said, (0, service::http::document(), String::new()));
}

#[tokio::test]
async fn the_help_of_every_command_reads_well() {
    let commands: [&[&str]; 40] = [
        &[],
        &["serve"],
        &["dev"],
        &["init"],
        &["check"],
        &["config"],
        &["openapi"],
        &["healthcheck"],
        &["completions"],
        &["man"],
        &["key"],
        &["key", "create"],
        &["key", "list"],
        &["key", "revoke"],
        &["team", "import"],
        &["team", "export"],
        &["feedback", "import"],
        &["announce"],
        &["announce", "list"],
        &["announce", "maintenance"],
        &["announce", "reschedule"],
        &["announce", "update"],
        &["announce", "incidents"],
        &["announce", "end"],
        &["announce", "remove"],
        &["users"],
        &["users", "block"],
        &["users", "unblock"],
        &["users", "blocked"],
        &["users", "show"],
        &["users", "forget"],
        &["secrets"],
        &["secrets", "status"],
        &["secrets", "reseal"],
        &["audit"],
        &["stats"],
        &["backup"],
        &["restore"],
        &["store"],
        &["store", "vacuum"],
    ];
    for words in commands {
        let (code, help, _) = outcome(&[words, &["--help"]].concat()).await;
        assert_eq!(code, 0);
        insta::assert_snapshot!(format!("help {}", words.join(" ")).trim_end().replace(' ', "-"), help);
    }
    let (code, version, _) = outcome(&["--version"]).await;
    assert_eq!((code, version), (0, format!("bot-companion {}\n", env!("CARGO_PKG_VERSION"))));
}

#[tokio::test]
async fn dev_listens_on_loopback_only() {
    let folder = Folder::new();
    let data = folder.path().join("dev");
    let (code, _, error) = outcome(&["dev", "--listen", "0.0.0.0:0", "--data", data.to_str().unwrap()]).await;
    assert_eq!(code, 64);
    assert!(error.contains("only listens on loopback: use --listen 127.0.0.1:PORT"), "{error}");
    assert!(!data.exists());
}

#[tokio::test]
async fn dev_does_what_its_banner_says() {
    let folder = Folder::new();
    let data = folder.path().join("dev");
    let dev = || command(&["dev", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()]);
    let mut service = Running::start(dev()).await;
    let banner = std::fs::read_to_string(&service.output).unwrap();
    let people = banner.lines().find_map(|line| line.trim().strip_prefix("people     ")).unwrap();
    let client = service.client();
    assert!(banner.contains(&format!("curl -s -X POST -H 'Idp-Code: owner' http://{}/auth", service.address)));
    assert!(banner.contains(&format!("curl -s -H \"Token: $TOKEN\" http://{}/guilds", service.address)));

    let harbour_id = HARBOUR.id.to_string();
    let mut roles = Vec::new();
    let mut last = None;
    for person in people.split(", ") {
        // A person's name works as a code any number of times.
        for _ in 0..2 {
            let answer = client.post("/auth").header("Idp-Code", person).send().await;
            assert_eq!(answer.status, 200, "{person}: {}", answer.text());
            let user = client.with_token(answer.data()["token"].as_str().unwrap());
            let guilds = user.guilds().await;
            let harbour = guilds.iter().find(|guild| guild["id"] == harbour_id.as_str());
            let role = harbour.map(|guild| guild["role"].as_str().unwrap_or("none").to_owned());
            last = Some((user, (person.to_owned(), role)));
        }
        roles.push(last.as_ref().unwrap().1.clone());
    }
    let role = |person: &str, role: &str| (person.to_owned(), Some(role.to_owned()));
    assert_eq!(
        roles,
        [
            role("owner", "Owner"),
            role("manager", "Manager"),
            role("administrator", "Administrator"),
            role("moderator", "Moderator"),
            role("member", "none"),
            ("newcomer".to_owned(), None),
            ("collector".to_owned(), None),
        ]
    );

    // The limit comes last: while it lasts, the provider is not called at all.
    for (code, status, error) in [
        ("refused", 401, "idp_code_rejected"),
        ("down", 502, "idp_unavailable"),
        ("rate-limited", 503, "idp_rate_limited"),
    ] {
        let answer = client.post("/auth").header("Idp-Code", code).send().await;
        assert_eq!((answer.status, answer.error().as_str()), (status, error), "{code}");
    }
    for path in ["/", "/team", "/feedback"] {
        assert_eq!(client.get(path).await.status, 200);
    }
    assert_eq!(client.get("/feedback").await.data().as_array().unwrap().len(), 5);

    service.terminate();
    assert!(service.ended().await.success());
    let again = Running::start(dev()).await;
    let (user, _) = last.unwrap();
    assert_eq!(
        again.client().with_token(user.token()).get("/sessions").await.status,
        200,
        "it still knows the session"
    );
}

#[tokio::test]
async fn the_options_that_count_are_shown_with_their_source_and_without_secrets() {
    let folder = Folder::new();
    let path = folder.path().join("companion.toml");
    std::fs::write(&path, "[http]\nlisten = \"127.0.0.1:1234\"\nallowed_origins = [\"https://a.example\"]\n[idp]\nclient_secret = \"hushhush\"\n").unwrap();
    let config = |extra: &[&str]| {
        let mut command = command(&[&["config", "--effective", "--config", path.to_str().unwrap()], extra].concat());
        command
            .env("COMPANION_STORE_URL", "postgres://me:hushhush@127.0.0.1/data")
            .env("COMPANION_SECRETS_KEYS", format!("one:{}=", "A".repeat(43)))
            .env("COMPANION_LIMITS_CONNECTIONS", "77");
        command
    };
    let (code, text, error) = outcome_of(config(&[])).await;
    assert_eq!(code, 0, "{error}");
    let width = |key: &str| text.lines().find(|line| line.starts_with(key)).unwrap().len();
    assert!(width("sessions.idle") + 20 < width("idp.authorize_url"), "a long value makes no other line long: {text}");
    let line = |key: &str| {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(key)).unwrap();
        line.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let file = path.to_str().unwrap();
    assert_eq!(line("http.listen"), ["http.listen", &format!("{file}:2"), "\"127.0.0.1:1234\""]);
    assert_eq!(line("idp.client_secret"), ["idp.client_secret", &format!("{file}:5"), "\"(hidden)\""]);
    assert_eq!(line("limits.connections"), ["limits.connections", "COMPANION_LIMITS_CONNECTIONS", "\"77\""]);
    assert_eq!(line("sessions.idle"), ["sessions.idle", "default", "\"7d\""]);
    assert_eq!(line("store.url")[1..], ["COMPANION_STORE_URL", "\"postgres://me:(hidden)@127.0.0.1/data\""]);
    assert_eq!(line("secrets.keys")[2], "\"(hidden)\"");

    let (code, json, _) = outcome_of(config(&["--json"])).await;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let entry = json.as_array().unwrap().iter().find(|entry| entry["option"] == "http.allowed_origins").unwrap();
    assert_eq!(
        (code, &entry["value"][0], &entry["source"]),
        (0, &"https://a.example".into(), &format!("{file}:3").into())
    );
    for shown in [text, json.to_string()] {
        assert!(!shown.contains("hush") && !shown.contains("AAAA"), "{shown}");
    }
    let (code, _, error) = outcome(&["config", "--json"]).await;
    assert!(code == 64 && error.contains("add --effective"), "{code} {error}");
}

#[test]
fn no_message_names_a_file_of_the_repository() {
    let binary = std::fs::read(env!("CARGO_BIN_EXE_bot-companion")).unwrap();
    let binary = String::from_utf8_lossy(&binary);
    for (start, _) in binary.match_indices("docs/").chain(binary.match_indices("deploy/")) {
        let path = binary[start..].split(|letter: char| !letter.is_ascii_alphanumeric() && !"/-_@.".contains(letter));
        let path = path.into_iter().next().unwrap_or_default().trim_end_matches('.');
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        // The dashboard's script is there to be copied, and its comments are for those who read it in the repository.
        assert!(
            path == "docs/dashboard.md" || !path.contains('.') || !std::path::Path::new(root).join(path).is_file(),
            "{path}"
        );
    }
}
