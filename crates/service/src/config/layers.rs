//! The options as written: which layer set what, and everything that is wrong with it.

mod effective;
mod environment;
mod secret_sources;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::load::{ConfigError, Layer};
use super::reloadable::{WrittenValue, WrittenValues};
use super::suggest::suggest;
use super::value::{Advice, duration};
pub use effective::EffectiveValue;
pub use secret_sources::SecretFile;

/// The options whose values are never shown.
pub(super) const SECRETS: [&str; 3] = ["idp.client_secret", "secrets.keys", "store.url"];
/// The options that name a file for each of them.
const SECRET_FILES: [&str; 3] = ["idp.client_secret_file", "secrets.keys_file", "store.url_file"];

/// Every option by name, with the value from each layer, defaults first.
#[derive(Default)]
pub(super) struct Layers {
    given: BTreeMap<String, Vec<GivenValue>>,
    problems: Vec<ConfigProblem>,
    count: usize,
}

struct GivenValue {
    value: RawValue,
    location: SourceLocation,
}

/// A value before it is parsed.
enum RawValue {
    Text(String),
    Number(Option<u64>, Shown),
    List(Vec<GivenValue>),
    Other(Shown),
    /// From the environment, where numbers and lists are text too.
    Plain(String),
}

/// A value as it is written in the file.
type Shown = String;

#[derive(Clone, Default)]
struct SourceLocation {
    /// The order in which problems are reported.
    order: (usize, usize),
    /// Empty for a default, which nobody has to look up.
    text: String,
    /// The file that it was read from, if any.
    file: Option<PathBuf>,
}

struct ConfigProblem {
    /// The option, if it is one.
    key: Option<&'static str>,
    location: SourceLocation,
    text: String,
}

pub(super) fn variable(key: &str) -> String {
    format!("COMPANION_{}", key.replace('.', "_").to_uppercase())
}

impl Layers {
    /// Takes the first layers, which define the options.
    pub(super) fn new(documented: &Layer, undocumented: &Layer) -> Self {
        let mut layers = Self::default();
        layers.read(documented, true);
        layers.read(undocumented, true);
        layers
    }

    /// Whether the reference has this option: messages and lists only name those.
    fn is_documented(&self, key: &str) -> bool {
        self.given.get(key).and_then(|given| given.first()).is_some_and(|default| default.location.order.0 == 0)
    }

    /// Whether any layer other than the defaults sets it.
    pub(super) fn is_set(&self, key: &str) -> bool {
        self.given.get(key).is_some_and(|given| given.len() > 1)
    }

    /// Adds a layer, which overrides the earlier ones.
    pub(super) fn layer(&mut self, layer: &Layer) {
        self.read(layer, false);
    }

    fn read(&mut self, layer: &Layer, defaults: bool) {
        let order = self.count;
        self.count += 1;
        let location = |span: Range<usize>| {
            let (line, _) = position(&layer.text, span.start);
            let text = if defaults { String::new() } else { format!("{}:{line}", layer.name) };
            SourceLocation { order: (order, line), text, file: layer.file.clone() }
        };
        let (table, errors) = DeTable::parse_recoverable(&layer.text);
        for error in &errors {
            let (line, column) = position(&layer.text, error.span().unwrap_or_default().start);
            let text = format!("{}:{line}:{column}", layer.name);
            let location = SourceLocation { order: (order, line), text, file: None };
            self.problem(None, location, error.message().replace('\n', ", "));
        }
        if !errors.is_empty() {
            return;
        }
        for (section, content) in table.get_ref() {
            let here = location(section.span());
            let known_section = defaults || self.given.keys().any(|key| part_of(key, section.get_ref()));
            match content.get_ref() {
                _ if !known_section => self.unknown(section.get_ref(), here),
                DeValue::Table(entries) => {
                    for (name, value) in entries {
                        let key = format!("{}.{}", section.get_ref(), name.get_ref());
                        if defaults || self.given.contains_key(&key) {
                            let value = RawValue::from_toml(value, &layer.text, &location);
                            let given = GivenValue { value, location: location(name.span()) };
                            self.given.entry(key).or_default().push(given);
                        } else {
                            self.unknown(&key, location(name.span()));
                        }
                    }
                }
                _ => {
                    let section = section.get_ref();
                    self.problem(
                        None,
                        here,
                        format!("{section} is a section: write [{section}] with its options below it"),
                    );
                }
            }
        }
    }

    fn unknown(&mut self, name: &str, location: SourceLocation) {
        let sections = self.given.keys().filter_map(|key| key.split_once('.').map(|(section, _)| section));
        let sections = sections.filter(|_| !name.contains('.'));
        let candidates = self.given.keys().map(String::as_str).filter(|key| self.is_documented(key));
        let tail = format!(".{}", name.rsplit('.').next().unwrap_or(name));
        let similar = suggest(name, &tail, sections.chain(candidates));
        let similar = similar.map(|similar| format!("; did you mean {similar}?")).unwrap_or_default();
        let text = format!("{} is not an option{similar}", shorten(&name.escape_debug().to_string()));
        self.problem(None, location, text);
    }

    fn problem(&mut self, key: Option<&'static str>, location: SourceLocation, text: String) {
        self.problems.push(ConfigProblem { key, location, text });
    }

    /// Reports that an option conflicts with another one.
    pub(super) fn conflict(&mut self, key: &'static str, text: impl Into<String>) {
        let last = self.given.get(key).and_then(|given| given.last());
        let location = last.map(|given| given.location.clone()).unwrap_or_default();
        self.problem(Some(key), location, text.into());
    }

    /// Whether all these options are valid, so that they can be compared.
    pub(super) fn are_valid(&self, keys: &[&str]) -> bool {
        !self.problems.iter().any(|problem| problem.key.is_some_and(|key| keys.contains(&key)))
    }

    /// A hash of each option's value as written.
    pub(super) fn written(&self) -> WrittenValues {
        let of = |given: &[GivenValue]| {
            let mut hasher = DefaultHasher::new();
            given.last().map(|given| given.value.show()).hash(&mut hasher);
            WrittenValue { hash: hasher.finish(), is_set: given.len() > 1 }
        };
        WrittenValues(self.given.iter().map(|(name, given)| (name.clone(), of(given))).collect())
    }

    /// All problems, in the order of the layers and their lines.
    pub(super) fn finish(&mut self) -> Result<(), ConfigError> {
        let mut problems = std::mem::take(&mut self.problems);
        problems.sort_by_key(|problem| problem.location.order);
        let lines = problems.into_iter().map(|ConfigProblem { location, text, .. }| match location.text.as_str() {
            "" => text,
            location => format!("{location}: {text}"),
        });
        ConfigError::of(lines.collect())
    }

    /// The text of an option, parsed by `parse`. A layer with an invalid value is reported and skipped.
    pub(super) fn text<T>(&mut self, key: &'static str, parse: impl Fn(&str) -> Result<T, Advice>) -> Option<T> {
        self.each(key, |given| one(given, &parse).map_err(|wrong| vec![wrong]))
    }

    /// The duration of an option. The advice shows its default as an example.
    pub(super) fn duration(&mut self, key: &'static str, range: RangeInclusive<Duration>) -> Option<Duration> {
        let default = match &self.given.get(key)?.first()?.value {
            RawValue::Text(text) => text.clone(),
            _ => return None,
        };
        self.text(key, duration(&default, range))
    }

    pub(super) fn number<T: TryFrom<u64>>(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<T> {
        let advice = format!("write a whole number from {} to {}", range.start(), range.end());
        self.each(key, |given| {
            let number = match &given.value {
                RawValue::Number(number, _) => *number,
                RawValue::Plain(text) => text.trim().parse().ok(),
                _ => None,
            };
            let number = number.filter(|number| range.contains(number)).and_then(|number| T::try_from(number).ok());
            number.ok_or_else(|| vec![given.wrong(&advice)])
        })
    }

    pub(super) fn switch(&mut self, key: &'static str) -> Option<bool> {
        self.each(key, |given| {
            let switch = match &given.value {
                RawValue::Other(text) | RawValue::Plain(text) => text.parse().ok(),
                _ => None,
            };
            switch.ok_or_else(|| vec![given.wrong("write true or false")])
        })
    }

    /// The list of an option, with each element parsed by `parse`. A single text is a list of one, an empty text an empty list.
    pub(super) fn list<T>(&mut self, key: &'static str, parse: impl Fn(&str) -> Result<T, Advice>) -> Option<Vec<T>> {
        self.each(key, |given| match &given.value {
            RawValue::List(items) => collect(items.iter().map(|item| one(item, &parse))),
            RawValue::Plain(text) => {
                let items = text.split([',', '\n']).map(str::trim).filter(|item| !item.is_empty());
                let wrong = |item, advice| (given.location.clone(), format!("{item:?}"), advice);
                collect(items.map(|item| parse(item).map_err(|advice| wrong(item, advice))))
            }
            RawValue::Text(text) if text.is_empty() => Ok(Vec::new()),
            _ => collect(std::iter::once(one(given, &parse))),
        })
    }

    /// Parses the value from every layer, so that a mistake is found even if a later layer hides it.
    fn each<T>(&mut self, key: &'static str, read: impl Fn(&GivenValue) -> Result<T, Vec<Wrong>>) -> Option<T> {
        let mut result = None;
        let mut wrong = Vec::new();
        for given in self.given.get(key).into_iter().flatten() {
            match read(given) {
                Ok(value) => result = Some(value),
                Err(found) => wrong.extend(found),
            }
        }
        if result.is_none() && wrong.is_empty() {
            self.conflict(key, format!("{key} has no default"));
        }
        for (location, shown, advice) in wrong {
            // People sometimes write the secret itself where its file belongs.
            let hidden = SECRETS.contains(&key) || SECRET_FILES.contains(&key) || shown.contains('@');
            let shown = if hidden { String::new() } else { format!(" = {}", shorten(&shown)) };
            self.problem(Some(key), location, format!("{key}{shown}: {advice}"));
        }
        result
    }
}

/// Where a wrong value is, how it is written, and what to write instead.
type Wrong = (SourceLocation, Shown, Advice);

impl GivenValue {
    fn wrong(&self, advice: &str) -> Wrong {
        (self.location.clone(), self.value.show(), advice.to_owned())
    }
}

fn one<T>(given: &GivenValue, parse: &impl Fn(&str) -> Result<T, Advice>) -> Result<T, Wrong> {
    let parsed = match &given.value {
        RawValue::Text(text) | RawValue::Plain(text) => parse(text),
        RawValue::List(_) => Err("write one value, not a list".into()),
        // Its own advice says more than the general one, if the value would be wrong in quotes too.
        RawValue::Number(_, shown) | RawValue::Other(shown) => {
            parse(shown).and_then(|_| Err("put the value in quotes".into()))
        }
    };
    parsed.map_err(|advice| given.wrong(&advice))
}

/// All values, or everything that is wrong with them.
fn collect<T>(items: impl Iterator<Item = Result<T, Wrong>>) -> Result<Vec<T>, Vec<Wrong>> {
    let (values, wrong): (Vec<_>, Vec<_>) = items.partition(Result::is_ok);
    if wrong.is_empty() {
        Ok(values.into_iter().flatten().collect())
    } else {
        Err(wrong.into_iter().filter_map(Result::err).collect())
    }
}

impl RawValue {
    fn from_toml(value: &Spanned<DeValue<'_>>, text: &str, location: &impl Fn(Range<usize>) -> SourceLocation) -> Self {
        let shown = || text.get(value.span()).unwrap_or_default().to_owned();
        match value.get_ref() {
            DeValue::String(text) => Self::Text(text.clone().into_owned()),
            DeValue::Integer(number) => {
                Self::Number(u64::from_str_radix(number.as_str(), number.radix()).ok(), shown())
            }
            DeValue::Array(items) => {
                let item = |item: &Spanned<DeValue<'_>>| GivenValue {
                    value: Self::from_toml(item, text, location),
                    location: location(item.span()),
                };
                Self::List(items.iter().map(item).collect())
            }
            _ => Self::Other(shown()),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) | Self::Plain(text) => text.is_empty(),
            Self::List(items) => items.is_empty(),
            Self::Number(..) | Self::Other(_) => false,
        }
    }

    fn show(&self) -> Shown {
        match self {
            Self::Text(text) | Self::Plain(text) => format!("{text:?}"),
            Self::Number(_, shown) | Self::Other(shown) => shown.escape_debug().to_string(),
            Self::List(items) => {
                let items: Vec<_> = items.iter().map(|item| item.value.show()).collect();
                format!("[{}]", items.join(", "))
            }
        }
    }
}

fn part_of(key: &str, section: &str) -> bool {
    key.split_once('.').is_some_and(|(of, _)| of == section)
}

/// Line and column of a byte, both starting at 1; a column is a character.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// Keeps a message on one line, however long the value is.
fn shorten(text: &str) -> String {
    const LONGEST: usize = 80;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
