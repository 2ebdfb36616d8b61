use super::*;

fn parsed(url: &str) -> Result<Vec<Config>, String> {
    Address::parse(&url.into()).map(|address| address.hosts.into_iter().map(|host| host.config).collect())
}

#[tokio::test]
async fn a_host_that_says_nothing_does_not_keep_the_next_from_being_tried() {
    type Try = futures_util::future::BoxFuture<'static, Result<u8, (String, Problem)>>;
    let silent = || -> Try { Box::pin(std::future::pending()) };
    let failing = |name: &str| -> Try {
        let problem = (name.to_owned(), Problem::Silent(READY));
        Box::pin(std::future::ready(Err(problem)))
    };
    let good = |number: u8| -> Try { Box::pin(std::future::ready(Ok(number))) };
    let pause = Duration::from_millis(1);
    assert_eq!(race([silent(), good(1)].into_iter(), pause).await.unwrap(), 1);
    assert_eq!(race([failing("a"), good(1)].into_iter(), READY * 1000).await.unwrap(), 1, "that one is not waited for");
    let slow: Try = Box::pin(async {
        // Longer than the pause: the next one is tried too, and this one still counts.
        tokio::time::sleep(Duration::from_millis(20)).await;
        Ok(2)
    });
    assert_eq!(race([slow, failing("b")].into_iter(), pause).await.unwrap(), 2);
    let failed = race([failing("a:1"), failing("b:2")].into_iter(), pause).await.unwrap_err();
    let said = "a:1: it accepted the connection but sent nothing for 10s; b:2: it accepted the connection but sent nothing for 10s";
    assert_eq!(failed.to_string(), said);
}

#[test]
fn the_hosts_are_named_and_nothing_else_of_the_url() {
    let named = |url: &str| Address::parse(&url.into()).unwrap().hosts();
    assert_eq!(named("postgres://me:secret@one:5433,two/data"), "one:5433, two:5432");
    assert_eq!(named("postgres://me:secret@%2Frun%2Fpostgresql/data"), "/run/postgresql/.s.PGSQL.5432");
    let limits = |url: &str| {
        let host = Address::parse(&url.into()).unwrap().hosts.remove(0);
        (host.config.get_connect_timeout().copied(), host.ready)
    };
    assert_eq!(limits("postgres://me@one/data"), (Some(ACCEPT), READY));
    let seven = Duration::from_secs(7);
    assert_eq!(limits("postgres://me@one/data?connect_timeout=7"), (Some(seven), seven));
}

#[test]
fn a_connection_over_the_network_that_is_not_verified_is_known() {
    for (url, open) in [
        ("postgres://me@db.example/data", "db.example:5432"),
        ("postgres://me@10.0.0.7:6432,db.example/data?sslmode=require", "10.0.0.7:6432, db.example:5432"),
        ("postgres://me@db.example/data?sslmode=disable", "db.example:5432"),
        ("postgres://me@db.example/data?sslmode=verify-ca", "db.example:5432"),
        ("postgres://me@db.example/data?sslmode=verify-full", ""),
        ("postgres://me@localhost,127.0.0.1,[::1]/data", ""),
        ("postgres://me@%2Frun%2Fpostgresql/data", ""),
    ] {
        assert_eq!(Address::parse(&url.into()).unwrap().unverified_hosts().join(", "), open, "{url}");
    }
    let location = |url: &str| Address::parse(&url.into()).unwrap().location();
    assert_eq!(location("postgres://me:secret@one:5433,two/data"), "database `data` at one:5433, two:5432");
    assert_eq!(location("postgres://me:secret@one"), "database `me` at one:5432");
}

#[test]
fn a_url_says_where_and_we_say_how() {
    let hosts = parsed("postgres://me:se,cret@one:5433,two:5434/data").unwrap();
    let ports: Vec<_> = hosts.iter().map(|host| (host.get_hosts().len(), host.get_ports().to_vec())).collect();
    assert_eq!(ports, [(1, vec![5433]), (1, vec![5434])]);
    let config = &hosts[1];
    assert_eq!((config.get_user(), config.get_dbname()), (Some("me"), Some("data")));
    assert_eq!(config.get_password(), Some(&b"se,cret"[..]));
    assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
    assert_eq!(config.get_connect_timeout(), Some(&ACCEPT));
    assert_eq!(config.get_tcp_user_timeout(), Some(&UNACKNOWLEDGED));
    let own = parsed("postgres://me@one/data?connect_timeout=7&sslmode=disable").unwrap().remove(0);
    assert_eq!(own.get_connect_timeout(), Some(&Duration::from_secs(7)));
    assert_eq!(own.get_ssl_mode(), SslMode::Disable);
    assert!(parsed("postgres://me@%2Frun%2Fpostgresql/data").is_ok());
    assert!(parsed("postgres:///data?host=/run/postgresql&user=me").is_ok());
    assert_eq!(parsed("postgres://me@one/data?sslmode=verify-full").unwrap()[0].get_ssl_mode(), SslMode::Require);
}

#[test]
fn what_is_wrong_is_said_without_the_password() {
    for url in [
        "postgres:///data",
        "postgres://one/data",
        "postgres://me:secret@one/data?sslmode=sometimes",
        "postgres://me:secret@one/data?colour=secret",
        "postgres://me:secret@one:secret/data",
        "postgres://me:pa@secret@one/data",
        "postgres://me:secret@one@two,three/data",
        "postgres://me:secret@one/data?sslrootcert=/x",
        "postgres://me:secret@one/data?sslmode=verify-full&sslrootcert=/there/is/none",
    ] {
        let problem = parsed(url).unwrap_err();
        assert!(!problem.contains("secret"), "{problem}");
    }
}
