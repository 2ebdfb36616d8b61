//! Invalid configurations, with the exact messages that their authors see.

type Problems = &'static [&'static str];
type Variables = &'static [(&'static str, &'static str)];

pub(super) const FILES: &[(&str, Problems)] = &[
    ("\n\n\n\n\n[http]\nlisen = \"x\"", &["companion.toml:7: http.lisen is not an option; did you mean http.listen?"]),
    (
        "[sessions]\n\nidle = \"7 days\"",
        &["companion.toml:3: sessions.idle = \"7 days\": write a number and a unit, like \"7d\""],
    ),
    ("sessions.idle = 7", &["companion.toml:1: sessions.idle = 7: write a number and a unit, like \"7d\""]),
    ("sessions.idle = \"1s\"", &["companion.toml:1: sessions.idle = \"1s\": write a duration from 1m to 365d"]),
    ("[htpp]\nlisten = 1", &["companion.toml:1: htpp is not an option; did you mean http?"]),
    ("listen = 1", &["companion.toml:1: listen is not an option; did you mean http.listen?"]),
    (
        "[http]\nconnections = 1",
        &["companion.toml:2: http.connections is not an option; did you mean limits.connections?"],
    ),
    ("wholly.different = 1", &["companion.toml:1: wholly is not an option"]),
    ("http = 1", &["companion.toml:1: http is a section: write [http] with its options below it"]),
    ("[[http]]\nlisten = 1", &["companion.toml:1: http is a section: write [http] with its options below it"]),
    (
        "[http]\nlisten = 8080",
        &[
            "companion.toml:2: http.listen = 8080: write an IP address (not a name) and a port, like \"127.0.0.1:8080\", or \"unix:\" and the path of a socket",
        ],
    ),
    ("idp.client_id = 123", &["companion.toml:1: idp.client_id = 123: put the value in quotes"]),
    ("log.format = [\"text\"]", &["companion.toml:1: log.format = [\"text\"]: write one value, not a list"]),
    ("log.format = \"xml\"", &["companion.toml:1: log.format = \"xml\": write \"text\" or \"json\""]),
    (
        "log.filter = \"a=b=c\"",
        &[
            "companion.toml:1: log.filter = \"a=b=c\": \"c\" is not a level; write a level like \"info\", or directives \
             like \"info,bot_companion=debug\"",
        ],
    ),
    ("limits.connections = 0", &["companion.toml:1: limits.connections = 0: write a whole number from 1 to 1000000"]),
    (
        "limits.requests_burst = -1",
        &["companion.toml:1: limits.requests_burst = -1: write a whole number from 1 to 1000000"],
    ),
    (
        "limits.requests_burst = \"5\"",
        &["companion.toml:1: limits.requests_burst = \"5\": write a whole number from 1 to 1000000"],
    ),
    (
        "limits.requests_burst = 1.5",
        &["companion.toml:1: limits.requests_burst = 1.5: write a whole number from 1 to 1000000"],
    ),
    (
        "[limits]\nexempt = [\n  \"10.0.0.0/8\",\n  \"10.0.0.1/8\",\n  7,\n]",
        &[
            "companion.toml:4: limits.exempt = \"10.0.0.1/8\": the address has bits set after the prefix; write \"10.0.0.0/8\"",
            "companion.toml:5: limits.exempt = 7: write a network like \"10.0.0.0/8\" or \"2001:db8::/32\", or an address",
        ],
    ),
    (
        "http.allowed_origins = [\"https://a.example/\"]",
        &["companion.toml:1: http.allowed_origins = \"https://a.example/\": write an exact origin, like \
             \"https://dashboard.example\", without a path, a trailing slash or \"*\""],
    ),
    (
        "http.allowed_headers = [\"X-Trace\", \"*\", \"a b\"]",
        &[
            "companion.toml:1: http.allowed_headers = \"*\": write the name of a header, like \"traceparent\"",
            "companion.toml:1: http.allowed_headers = \"a b\": write the name of a header, like \"traceparent\"",
        ],
    ),
    (
        "idp.base_url = \"http://provider.example\"",
        &[
            "companion.toml:1: idp.base_url = \"http://provider.example\": use https: over http, tokens would be sent in the clear",
        ],
    ),
    (
        "store.url = \"mysql://user:hush@host/x\"",
        &[
            "companion.toml:1: store.url: write \"sqlite:\" and the path of the database, like \"sqlite:bot-companion.db\", \
             or \"postgres://USER:PASSWORD@HOST/DATABASE\"",
        ],
    ),
    (
        "store.url = \"postgres://user:hush@host/x\"",
        &[
            "companion.toml:1: store.url names PostgreSQL: set secrets.keys to a key that all replicas share: the contents of \
             the .key file if you moved from SQLite, or \"main:\" and the output of `openssl rand -base64 32`",
        ],
    ),
    ("tls.cert = \"a.pem\"", &["companion.toml:1: tls.cert is set without tls.key: set both, or neither"]),
    ("tls.key = \"a.pem\"", &["companion.toml:1: tls.key is set without tls.cert: set both, or neither"]),
    (
        "guilds.stale_while_revalidate = \"2h\"",
        &["companion.toml:1: guilds.stale_while_revalidate must not be longer than guilds.max_stale"],
    ),
    ("sessions.absolute = \"1h\"", &["sessions.idle must not be longer than sessions.absolute"]),
    (
        "idp.redirect_uri = \"https://a.example/callback\"",
        &["companion.toml:1: idp.redirect_uri: add its origin \"https://a.example\" to http.allowed_origins"],
    ),
    (
        "http.allowed_origins = \"https://a.example\"\nidp.redirect_uri = [\"https://a.example/x\", \"https://A.example:443/y\"]",
        &["companion.toml:2: idp.redirect_uri: two addresses have the origin \"https://a.example\": keep one of them"],
    ),
    (
        "http.base_path = \"/api\"\nsite.url = \"https://api/\"",
        &[
            "companion.toml:2: site.url: the pages are below http.base_path, so write \"https://api/api\", or change http.base_path",
        ],
    ),
    (
        "idp.redirect_uri = \"a.example/callback\"",
        &[
            "companion.toml:1: idp.redirect_uri = \"a.example/callback\": the scheme is missing: write \"https://\" before it, or \"http://\" if it is on this machine",
        ],
    ),
    ("idp.client_secret = \"  \"", &["companion.toml:1: idp.client_secret: it is blank: write the secret"]),
    (
        "idp.client_id = \"abc\"",
        &[
            "companion.toml:1: idp.client_id = \"abc\": write the application's ID, which consists of digits; Discord's \
             developer portal shows it",
        ],
    ),
    (
        "idp.redirect_uri = \"/callback\"",
        &["companion.toml:1: idp.redirect_uri = \"/callback\": write the full address, like \
             \"https://dashboard.example/callback\""],
    ),
    (
        "secrets.keys = [\"a:aHVzaA==\"]",
        &["companion.toml:1: secrets.keys: the part after the colon is 4 bytes in base64, not 32"],
    ),
    ("idp.client_secret = 12345", &["companion.toml:1: idp.client_secret: put the value in quotes"]),
    (
        "[http]\nlisten = \"x\"\nlisen = 1\n[log]\nformat = \"\"",
        &[
            "companion.toml:2: http.listen = \"x\": write an IP address (not a name) and a port, like \"127.0.0.1:8080\", or \"unix:\" and the path of a socket",
            "companion.toml:3: http.lisen is not an option; did you mean http.listen?",
            "companion.toml:5: log.format = \"\": write \"text\" or \"json\"",
        ],
    ),
];

pub(super) const ENVIRONMENTS: &[(Variables, Problems)] = &[
    (
        &[("COMPANION_HTTP_LISTEN", "8080")],
        &[
            "COMPANION_HTTP_LISTEN: http.listen = \"8080\": write an IP address (not a name) and a port, like \"127.0.0.1:8080\", or \"unix:\" and the path of a socket",
        ],
    ),
    (
        &[("COMPANION_HTTP_LISEN", "x")],
        &["COMPANION_HTTP_LISEN: there is no such option; did you mean COMPANION_HTTP_LISTEN?"],
    ),
    (&[("COMPANION_LISTEN", "x")], &["COMPANION_LISTEN: there is no such option; did you mean COMPANION_HTTP_LISTEN?"]),
    (&[("COMPANION_GUILDS_FRESH_FILE", "x")], &["COMPANION_GUILDS_FRESH_FILE: there is no such option"]),
    (&[("COMPANION_WHATEVER_ELSE", "x")], &["COMPANION_WHATEVER_ELSE: there is no such option"]),
    (
        &[("COMPANION_LIMITS_REQUESTS_BURST", "many"), ("COMPANION_GUILDS_FRESH", "1")],
        &[
            "COMPANION_GUILDS_FRESH: guilds.fresh = \"1\": write a number and a unit, like \"60s\"",
            "COMPANION_LIMITS_REQUESTS_BURST: limits.requests_burst = \"many\": write a whole number from 1 to 1000000",
        ],
    ),
    (
        &[("COMPANION_LIMITS_EXEMPT", "10.0.0.0/8,here")],
        &[
            "COMPANION_LIMITS_EXEMPT: limits.exempt = \"here\": write a network like \"10.0.0.0/8\" or \"2001:db8::/32\", or an address",
        ],
    ),
    (
        &[("COMPANION_SECRETS_KEYS", "hush")],
        &["COMPANION_SECRETS_KEYS: secrets.keys: write an ID, a colon and 32 bytes in base64"],
    ),
    (
        &[("COMPANION_IDP_CLIENT_SECRET", "hush"), ("COMPANION_IDP_CLIENT_SECRET_FILE", "/x")],
        &[
            "COMPANION_IDP_CLIENT_SECRET_FILE: idp.client_secret_file: idp.client_secret is set too; set only one of the two",
        ],
    ),
    (
        &[("COMPANION_IDP_CLIENT_SECRET_FILE", "/absent/secret")],
        &[
            "COMPANION_IDP_CLIENT_SECRET_FILE: idp.client_secret_file: the file /absent/secret cannot be read: No such file or directory (os error 2)",
        ],
    ),
    (
        &[("COMPANION_IDP_CLIENT_SECRET_FILE", "hush")],
        &[
            "COMPANION_IDP_CLIENT_SECRET_FILE: idp.client_secret_file: the file that it names cannot be read: No such file or directory (os error 2)",
        ],
    ),
];
