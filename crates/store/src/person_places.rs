//! Every place in the store that can mention a person, and what happens to it when they are forgotten. `users forget`, a
//! restore over a tombstone, `users show` and `docs/privacy.md` all use this one list; a test compares it with the columns of
//! both schemas.

use domain::Snowflake;
use domain::forgotten::UserHash;

use super::backup::value::CellValue;
use super::columns::Column as _;

/// A table that mentions people.
#[derive(Debug)]
pub(super) struct PersonPlace {
    pub(super) table: &'static str,
    /// The column that says whose row it is.
    pub(super) id: &'static str,
    /// The format of the ID there.
    pub(super) form: IdForm,
    /// All columns that say something about the person.
    #[cfg_attr(not(test), expect(dead_code, reason = "for the tests of the schemas and of docs/privacy.md"))]
    pub(super) columns: &'static [&'static str],
    /// What is counted, if a person's rows are several versions of one thing.
    pub(super) distinct: Option<&'static str>,
    pub(super) on_forget: OnForget,
}

/// The format of a user's ID in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IdForm {
    Number,
    Text,
    /// As the `id` of a JSON object, as text.
    InJson,
    /// As the hash that is left of someone who was forgotten.
    Hash,
}

/// What happens to a person's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnForget {
    /// They are deleted with the account, whose grant moves to `revocations`.
    EndAccount,
    Delete,
    /// These columns are cleared, and the rest stays.
    Clear(&'static [(&'static str, Cleared)]),
    /// They stay until the provider was told.
    UntilRevoked,
    /// They stay: a block, a tombstone.
    Keep,
}

/// The value of a cleared column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cleared {
    /// The ID of nobody.
    Nobody,
    Empty,
    Null,
    Hash,
}

/// All places; rows come after what refers to them.
pub(super) const PLACES: &[PersonPlace] = &[
    place("users", "id", &["id", "username", "name", "avatar", "list", "grant_sealed"], OnForget::EndAccount),
    place("sessions", "user_id", &["user_id", "agent", "created", "last_seen"], OnForget::EndAccount),
    place("revocations", "user_id", &["user_id", "grant_sealed"], OnForget::UntilRevoked),
    PersonPlace {
        form: IdForm::InJson,
        ..place("code_claims", "user", &["user"], OnForget::Clear(&[("user", Cleared::Null)]))
    },
    place("blocked_users", "user_id", &["user_id", "reason"], OnForget::Keep),
    PersonPlace { form: IdForm::Hash, ..place("forgotten_users", "user_hash", &["user_hash"], OnForget::Keep) },
    PersonPlace {
        form: IdForm::Text,
        ..place("audit", "person", &["person", "address"], OnForget::Clear(&[("person", Cleared::Hash)]))
    },
    PersonPlace {
        distinct: Some("id"),
        ..place("guilds", "owner", &["owner"], OnForget::Clear(&[("owner", Cleared::Nobody)]))
    },
    PersonPlace { distinct: Some("guild"), ..place("guild_staff", "user", &["user", "roles"], OnForget::Delete) },
    place("subscription_guilds", "userid", &["userid"], OnForget::Delete),
    place("subscriptions", "userid", &["userid", "slots", "active_until"], OnForget::Delete),
    place("staged_subscriptions", "userid", &["userid", "slots", "active_until", "guilds"], OnForget::Delete),
    place("team", "discord_id", &["username", "name", "avatar", "discord_id", "role"], OnForget::Delete),
    place(
        "feedback",
        "submitter_id",
        &["feedback", "submitter_id", "submitter_username", "submitter_name", "submitter_avatar"],
        OnForget::Clear(&[
            ("submitter_id", Cleared::Nobody),
            ("submitter_username", Cleared::Empty),
            ("submitter_name", Cleared::Empty),
            ("submitter_avatar", Cleared::Empty),
        ]),
    ),
];

const fn place(
    table: &'static str,
    id: &'static str,
    columns: &'static [&'static str],
    on_forget: OnForget,
) -> PersonPlace {
    PersonPlace { table, id, form: IdForm::Number, columns, distinct: None, on_forget }
}

/// The place for this table, if it mentions people.
pub(super) fn in_table(table: &str) -> Option<&'static PersonPlace> {
    PLACES.iter().find(|place| place.table == table)
}

impl PersonPlace {
    /// Whose row it is, going by its `id` column; `None` if that is not an ID.
    pub(super) fn person(&self, id: &CellValue) -> Option<Snowflake> {
        match (self.form, id) {
            (IdForm::Number, CellValue::Integer(number)) => u64::try_from(*number).ok().and_then(Snowflake::new),
            (IdForm::Text, CellValue::Text(text)) => text.parse().ok(),
            (IdForm::InJson, CellValue::Text(text)) => {
                let json: serde_json::Value = serde_json::from_str(text).ok()?;
                json.get("id")?.as_str()?.parse().ok()
            }
            _ => None,
        }
    }

    /// The value for this user in the `id` column.
    fn written(&self, user: Snowflake) -> CellValue {
        match self.form {
            IdForm::Number => CellValue::Integer(user.stored()),
            IdForm::Text | IdForm::InJson => CellValue::Text(user.to_string()),
            IdForm::Hash => CellValue::Bytes(UserHash::of(user).0.to_vec()),
        }
    }

    /// The rows of the user in this parameter. `to_json` converts text to JSON.
    fn of_person(&self, parameter: usize, to_json: &str) -> String {
        let Self { id, form, .. } = self;
        let column = match form {
            IdForm::InJson => format!("\"{id}\"{to_json} ->> 'id'"),
            _ => format!("\"{id}\""),
        };
        format!("{column} = ?{parameter}")
    }

    /// The statement that forgets a user in one place, and its parameters; `None` if there is nothing to do, or something else
    /// does it.
    pub(super) fn forget(&self, user: Snowflake, to_json: &str) -> Option<(String, Vec<CellValue>)> {
        let (table, rows) = (self.table, self.of_person(1, to_json));
        let mut values = vec![self.written(user)];
        let sql = match self.on_forget {
            OnForget::Delete => format!("DELETE FROM {table} WHERE {rows}"),
            OnForget::Clear(columns) => {
                let cleared = columns.iter().map(|(column, cleared)| {
                    let value = match cleared {
                        Cleared::Nobody => Snowflake::NOBODY.to_string(),
                        Cleared::Empty => "''".to_owned(),
                        Cleared::Null => "NULL".to_owned(),
                        Cleared::Hash => {
                            values.push(CellValue::Text(UserHash::of(user).in_audit()));
                            format!("?{}", values.len())
                        }
                    };
                    format!("\"{column}\" = {value}")
                });
                let cleared: Vec<_> = cleared.collect();
                format!("UPDATE {table} SET {} WHERE {rows}", cleared.join(", "))
            }
            OnForget::EndAccount | OnForget::UntilRevoked | OnForget::Keep => return None,
        };
        Some((sql, values))
    }
}

/// How many rows about a user there are in each place, in order; and the parameters.
pub(super) fn counts(user: Snowflake, to_json: &str) -> (String, Vec<CellValue>) {
    let counts = PLACES.iter().map(|place| {
        let counted = place.distinct.map_or_else(|| "*".to_owned(), |column| format!("DISTINCT \"{column}\""));
        let parameter = match place.form {
            IdForm::Number => 1,
            IdForm::Text | IdForm::InJson => 2,
            IdForm::Hash => 3,
        };
        format!("(SELECT count({counted}) FROM {} WHERE {})", place.table, place.of_person(parameter, to_json))
    });
    let counts: Vec<_> = counts.collect();
    let forms = [IdForm::Number, IdForm::Text, IdForm::Hash];
    let values = forms.map(|form| PersonPlace { form, ..place("", "", &[], OnForget::Keep) }.written(user));
    (format!("SELECT {}", counts.join(", ")), values.into())
}
