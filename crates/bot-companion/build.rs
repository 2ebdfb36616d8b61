//! Records what is being built: from git, or from the environment if there is none (a source archive, a container build).

use std::process::Command;

fn main() {
    let facts = [
        ("BRANCH", vec!["rev-parse", "--abbrev-ref", "HEAD"]),
        ("SHA", vec!["log", "-1", "--format=%H"]),
        ("MESSAGE", vec!["log", "-1", "--format=%s"]),
        ("AUTHOR", vec!["log", "-1", "--format=%an"]),
        ("TIMESTAMP", vec!["log", "-1", "--format=%ct"]),
    ];
    for (name, arguments) in facts {
        let variable = format!("COMPANION_BUILD_{name}");
        println!("cargo::rerun-if-env-changed={variable}");
        let value = std::env::var(&variable).ok().or_else(|| git(&arguments)).unwrap_or_else(|| "unknown".to_owned());
        assert!(
            name != "TIMESTAMP" || value == "unknown" || value.parse::<u64>().is_ok(),
            "{variable} is not a number of seconds since 1970: {value:?}"
        );
        println!("cargo::rustc-env={variable}={}", value.replace(['\n', '\r'], " "));
    }
    for watched in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", watched]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
