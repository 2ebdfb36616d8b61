//! `bot-companion team …`: the roster as a file, for bots that do not send it.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use api::picture::PictureHost;
use api::team::TeamMemberData;
use clap::{Subcommand, ValueEnum};
use domain::audit::AuditKind;
use domain::team::RosterEntry;
use domain::{Change, Permission, Roster, feed};
use provider::picture::{CDN, DEFAULT_PATH};
use serde::Serialize;
use serde_json::{Value, json};
use telemetry::untrusted::Untrusted;

use super::database::{self, Missing};
use super::output::counted;
use super::{CommandOptions, ConfigFile, print};
use crate::config::suggest;

#[derive(Debug, Subcommand)]
pub(super) enum Team {
    /// Replace the whole team with the one in a file (TOML or JSON, as written by `team export`).
    Import {
        /// The file: `[[members]]` in TOML, or {"members": […]} in JSON.
        file: PathBuf,
        /// Check the file without importing it.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        options: CommandOptions,
    },
    /// Print the team in a format that `team import` accepts.
    Export {
        /// The format.
        #[arg(long, value_enum, default_value_t = Form::Toml)]
        format: Form,
        #[command(flatten)]
        config: ConfigFile,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    Toml,
    Json,
}

/// The team as written in a file.
#[derive(Serialize)]
struct TeamFile {
    members: Vec<TeamFileMember>,
}

#[derive(Serialize)]
struct TeamFileMember {
    #[serde(flatten)]
    member: TeamMemberData,
    permissions: Vec<&'static str>,
}

pub(super) fn run(team: Team) -> anyhow::Result<()> {
    match team {
        Team::Import { file, dry_run, options } => {
            let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let (roster, notes) = read(&text, form(&file, &text)).with_context(|| file.display().to_string())?;
            let count = roster.0.len();
            let members = counted(count as u64, "member");
            if !dry_run {
                let change = vec![Change::Team(roster)];
                database::with(&options.config, Missing::Refuse, async |app| {
                    app.sources.store.apply(change).await?;
                    app.sources.audit.command(AuditKind::Command, "team import", None, None);
                    Ok(())
                })?;
            }
            print(&options.form.one(&json!({ "changed": !dry_run, "members": count, "notes": notes }), || {
                let done = if dry_run {
                    format!("The file is fine: {members}. Nothing was changed.\n")
                } else {
                    format!("Replaced the team: {members}.\n")
                };
                let notes = notes.iter().map(|note| format!("Note: {note}"));
                notes.chain([done]).collect::<Vec<_>>().join("\n")
            }))
        }
        Team::Export { format, config } => {
            let roster = database::reading(&config, async |reading| Ok(reading.store.team().await?))?;
            print(&write(&roster, format)?)
        }
    }
}

/// From the file's name or, if that doesn't tell, its first character.
fn form(file: &Path, text: &str) -> Form {
    let json = match file.extension().and_then(|extension| extension.to_str()) {
        Some("toml") => false,
        Some("json") => true,
        _ => text.trim_start().starts_with(['{', '[']) && !text.trim_start().starts_with("[["),
    };
    if json { Form::Json } else { Form::Toml }
}

/// The team in a file, with notes on what was ignored. The error lists everything that is wrong.
fn read(text: &str, form: Form) -> anyhow::Result<(Roster, Vec<String>)> {
    let mut value: Value = match form {
        Form::Toml => serde_json::to_value(toml::from_str::<toml::Table>(text)?)?,
        Form::Json => serde_json::from_str(text)?,
    };
    if value.is_array() {
        value = json!({"members": value});
    }
    let unknown = unknown_fields(&value);
    let read = feed::roster(&serde_json::to_vec(&value)?, &provider::RULES);
    let wrong = read.as_ref().err().into_iter().flatten().map(ToString::to_string);
    let reasons: Vec<String> = unknown.into_iter().chain(wrong).collect();
    match read {
        Ok(read) if reasons.is_empty() => Ok(read),
        _ => {
            let lines: Vec<String> = reasons.iter().map(|reason| format!("\n  {reason}")).collect();
            bail!("{}, nothing was changed:{}", counted(reasons.len() as u64, "problem"), lines.concat())
        }
    }
}

const FIELDS: [&str; 9] =
    ["username", "name", "avatar", "discord_id", "role", "color", "category", "position", "permissions"];

/// Fields that would be ignored: in a file that a person wrote, they are typos.
fn unknown_fields(value: &Value) -> Vec<String> {
    let members = value["members"].as_array().into_iter().flatten();
    let of_members =
        (1..).zip(members).flat_map(|(number, member)| unknown_in(member, &format!("Member {number}: "), &FIELDS));
    unknown_in(value, "", &["members"]).into_iter().chain(of_members).collect()
}

fn unknown_in(value: &Value, place: &str, known: &[&'static str]) -> Vec<String> {
    let names = value.as_object().into_iter().flat_map(|fields| fields.keys());
    let unknown = names.filter(|name| !known.contains(&name.as_str()));
    let refused = unknown.map(|name| {
        let remedy = match suggest(name, name, known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("there are {}", known.join(", ")),
        };
        let name: String = name.chars().take(64).collect();
        format!("{place}`{}` is not a field; {remedy}", Untrusted(&name))
    });
    refused.collect()
}

fn write(roster: &Roster, form: Form) -> anyhow::Result<String> {
    let as_stored = PictureHost::new(CDN, DEFAULT_PATH, CDN);
    let written = roster.0.iter().map(|RosterEntry { member, permissions }| {
        let permissions = permissions.keys().map(Permission::name).collect();
        TeamFileMember { member: TeamMemberData::new(member.clone(), &as_stored), permissions }
    });
    let team = TeamFile { members: written.collect() };
    Ok(match form {
        Form::Toml => toml::to_string_pretty(&team)?,
        Form::Json => serde_json::to_string_pretty(&team)? + "\n",
    })
}

#[cfg(test)]
mod tests {
    use domain::{PermissionSet, Snowflake, TeamMember};

    use super::*;

    fn roster() -> Roster {
        let id = Snowflake::new(301_557_200_914_883_072).unwrap();
        let member = |name: &str, position| RosterEntry {
            member: TeamMember {
                username: "u.1".to_owned(),
                name: name.to_owned(),
                avatar: provider::picture::avatar(id, None),
                discord_id: id,
                role: "Head of \"things\"".to_owned(),
                color: "#E0A030".to_owned(),
                category: "leadership".to_owned(),
                position,
            },
            permissions: PermissionSet::of(&[Permission::Founder, Permission::Executive]),
        };
        Roster(vec![member("سميرة 🎉\\", 1), member("Ann\nLee", -5)])
    }

    #[test]
    fn what_is_exported_can_be_imported() {
        for form in [Form::Toml, Form::Json] {
            for roster in [roster(), Roster::default()] {
                let text = write(&roster, form).unwrap();
                assert_eq!(read(&text, form).unwrap(), (roster, Vec::new()), "{text}");
            }
        }
    }

    #[test]
    fn every_problem_is_listed() {
        let text = "[[members]]\nusername = 'a'\n[[members]]\ndiscord_id = 5";
        let error = read(text, Form::Toml).unwrap_err().to_string();
        assert!(error.contains("2 problems") && error.contains("\n  Member 1:") && error.contains("\n  Member 2:"));
        assert!(read("nonsense", Form::Toml).is_err() && read("nonsense", Form::Json).is_err());
    }

    #[test]
    fn unknown_fields_are_refused_with_what_was_meant() {
        let member = "username = 'a'\nname = 'A'\ndiscord_id = '7'\nrole = 'R'\ncolor = '#5865F2'\ncategory = 'x'\nposition = 1\n";
        assert!(read(&format!("[[members]]\n{member}"), Form::Toml).is_ok());
        for (text, said) in [
            (
                format!("[[members]]\n{member}permisions = []"),
                "\n  Member 1: `permisions` is not a field; did you mean `permissions`?",
            ),
            (
                format!("[[members]]\n{member}[[members]]\n{member}zodiac = 1"),
                "Member 2: `zodiac` is not a field; there are username, name",
            ),
            (format!("[[member]]\n{member}"), "`member` is not a field; did you mean `members`?"),
            (format!("members = []\n[other]\n{member}"), "`other` is not a field; there are members"),
        ] {
            let error = read(&text, Form::Toml).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("nothing was changed"), "{error}");
        }
    }

    #[test]
    fn the_form_comes_from_the_name_or_the_text() {
        let of = |name: &str, text| form(Path::new(name), text);
        assert_eq!(of("a.json", ""), Form::Json);
        assert_eq!(of("a.toml", "{"), Form::Toml);
        assert_eq!(of("a", " {}"), Form::Json);
        assert_eq!(of("a", "[[members]]"), Form::Toml);
    }
}
