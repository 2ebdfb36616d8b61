//! The OpenAPI document as far as the page shows it. What the page does not know is refused, so that a test notices.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Number, Value};

/// The whole document.
#[derive(Deserialize)]
pub(super) struct ApiDocument {
    pub(super) info: DocumentInfo,
    pub(super) tags: Vec<DocumentTag>,
    paths: Ordered<Ordered<Operation>>,
    components: Components,
}

#[derive(Deserialize)]
pub(super) struct DocumentInfo {
    pub(super) description: String,
}

/// A group of operations.
#[derive(Deserialize)]
pub(super) struct DocumentTag {
    pub(super) name: String,
    pub(super) description: String,
}

/// A method of a path.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Operation {
    #[serde(rename = "operationId")]
    pub(super) id: String,
    /// In capitals; added when the document was read.
    #[serde(skip)]
    pub(super) method: String,
    /// Added when the document was read.
    #[serde(skip)]
    pub(super) path: String,
    pub(super) tags: Vec<String>,
    pub(super) summary: String,
    pub(super) description: String,
    #[serde(default)]
    pub(super) parameters: Vec<Parameter>,
    #[serde(default)]
    pub(super) request_body: Option<DocumentedBody>,
    responses: Ordered<DocumentedResponse>,
    security: Vec<Ordered<IgnoredAny>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameter {
    pub(super) name: String,
    #[serde(rename = "in")]
    pub(super) place: ParameterPlace,
    pub(super) description: String,
    pub(super) required: bool,
    pub(super) schema: Schema,
    pub(super) example: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ParameterPlace {
    Header,
    Path,
    Query,
}

/// What a request carries.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DocumentedBody {
    pub(super) description: String,
    pub(super) content: Ordered<Content>,
    #[serde(default, rename = "required")]
    _required: bool,
}

/// An answer, or where it stands.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct DocumentedResponse {
    #[serde(rename = "$ref")]
    reference: Option<String>,
    pub(super) description: String,
    pub(super) headers: Ordered<DocumentedHeader>,
    pub(super) content: Ordered<Content>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct DocumentedHeader {
    #[serde(rename = "$ref")]
    reference: Option<String>,
    pub(super) description: String,
    #[serde(rename = "schema")]
    _schema: IgnoredAny,
    #[serde(rename = "example")]
    _example: IgnoredAny,
    #[serde(rename = "required")]
    _required: bool,
}

/// A body of one media type.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Content {
    pub(super) schema: Schema,
    #[serde(default)]
    examples: Ordered<Example>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Example {
    #[serde(rename = "$ref")]
    reference: Option<String>,
    value: Value,
}

/// What a value may be, or where that stands; a description beside a reference goes first.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Schema {
    #[serde(rename = "$ref")]
    pub(super) reference: Option<String>,
    #[serde(rename = "type")]
    pub(super) kinds: Kinds,
    pub(super) description: String,
    pub(super) properties: Ordered<Schema>,
    pub(super) required: Vec<String>,
    pub(super) items: Option<Box<Schema>>,
    pub(super) additional_properties: Option<AdditionalProperties>,
    #[serde(rename = "enum")]
    pub(super) values: Vec<Value>,
    #[serde(rename = "const")]
    pub(super) constant: Option<Value>,
    pub(super) minimum: Option<Number>,
    pub(super) maximum: Option<Number>,
    pub(super) min_length: Option<u64>,
    pub(super) max_length: Option<u64>,
    pub(super) max_items: Option<u64>,
    pub(super) pattern: Option<String>,
    pub(super) format: Option<String>,
    pub(super) deprecated: bool,
    #[serde(rename = "example")]
    _example: IgnoredAny,
    #[serde(rename = "propertyNames")]
    _property_names: IgnoredAny,
}

/// The JSON types that a value may have.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Kinds {
    One(String),
    Many(Vec<String>),
}

impl Default for Kinds {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Kinds {
    pub(super) fn names(&self) -> &[String] {
        match self {
            Self::One(kind) => std::slice::from_ref(kind),
            Self::Many(kinds) => kinds,
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum AdditionalProperties {
    /// Anything, or nothing: the page says neither.
    Any(#[expect(dead_code, reason = "it only has to be read")] bool),
    Each(Box<Schema>),
}

#[derive(Deserialize)]
struct Components {
    schemas: Ordered<Schema>,
    responses: Ordered<DocumentedResponse>,
    examples: Ordered<Example>,
    headers: Ordered<DocumentedHeader>,
}

/// Who may call an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiAccess {
    /// Everybody.
    Public,
    /// Who has a session: the header `Token`.
    Session,
    /// A bot: its key, as `Authorization: Bearer`.
    BotKey,
}

/// An error that an operation may answer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DocumentedError<'a> {
    pub(super) status: u64,
    pub(super) code: &'a str,
    pub(super) sentence: &'a str,
}

impl ApiDocument {
    pub(super) fn read(text: &str) -> Result<Self, serde_json::Error> {
        let mut document: Self = serde_json::from_str(text)?;
        for (path, methods) in &mut document.paths.0 {
            for (method, operation) in &mut methods.0 {
                operation.path.clone_from(path);
                operation.method = method.to_uppercase();
            }
        }
        Ok(document)
    }

    /// All operations, in the order of the document.
    pub(super) fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.paths.iter().flat_map(|(_, methods)| methods.iter().map(|(_, operation)| operation))
    }

    /// What a schema stands for: itself, or what it refers to.
    pub(super) fn schema<'a>(&'a self, schema: &'a Schema) -> &'a Schema {
        resolve(schema, schema.reference.as_deref(), &self.components.schemas)
    }

    pub(super) fn header<'a>(&'a self, header: &'a DocumentedHeader) -> &'a DocumentedHeader {
        resolve(header, header.reference.as_deref(), &self.components.headers)
    }

    /// The answer with this status.
    pub(super) fn response<'a>(&'a self, operation: &'a Operation, status: &str) -> Option<&'a DocumentedResponse> {
        let response = operation.responses.get(status)?;
        Some(resolve(response, response.reference.as_deref(), &self.components.responses))
    }

    /// The examples of a body.
    pub(super) fn examples<'a>(&'a self, content: &'a Content) -> impl Iterator<Item = &'a Value> {
        let examples = &self.components.examples;
        content.examples.iter().map(|(_, example)| &resolve(example, example.reference.as_deref(), examples).value)
    }

    /// The errors that an operation may answer with, by status.
    pub(super) fn errors<'a>(&'a self, operation: &'a Operation) -> Vec<DocumentedError<'a>> {
        let mut errors = Vec::new();
        for (status, _) in operation.responses.iter() {
            let Some(response) = self.response(operation, status) else { continue };
            for example in response.content.iter().flat_map(|(_, content)| self.examples(content)) {
                let code = example["data"]["error"].as_str();
                if let (Some(status), Some(code), Some(sentence)) =
                    (example["code"].as_u64(), code, example["message"].as_str())
                {
                    errors.push(DocumentedError { status, code, sentence });
                }
            }
        }
        errors.sort_unstable();
        errors
    }

    /// The errors that most operations may answer with, so that they need to be explained only once.
    pub(super) fn common_errors(&self) -> Vec<DocumentedError<'_>> {
        let mut all: Vec<_> = self.operations().flat_map(|operation| self.errors(operation)).collect();
        let most = self.operations().count() / 2;
        all.sort_unstable();
        all.chunk_by(|one, other| one == other).filter(|same| same.len() > most).map(|same| same[0]).collect()
    }

    /// The headers that every success has.
    pub(super) fn common_headers(&self) -> Vec<(&str, &DocumentedHeader)> {
        let successes: Vec<_> = self.operations().filter_map(|operation| self.response(operation, "200")).collect();
        let Some(first) = successes.first() else { return Vec::new() };
        let is_everywhere = |name: &str| successes.iter().all(|success| success.headers.get(name).is_some());
        let common = first.headers.iter().filter(|(name, _)| is_everywhere(name));
        common.map(|(name, header)| (name, self.header(header))).collect()
    }
}

impl DocumentTag {
    /// Its name as a heading: with a capital.
    pub(super) fn title(&self) -> String {
        let mut letters = self.name.chars();
        letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    }
}

impl Operation {
    pub(super) fn access(&self) -> ApiAccess {
        let is_needed = |scheme: &str| self.security.iter().any(|schemes| schemes.get(scheme).is_some());
        match () {
            () if is_needed("session") => ApiAccess::Session,
            () if is_needed("bot") => ApiAccess::BotKey,
            () => ApiAccess::Public,
        }
    }

    /// Whether the answer is a stream of events.
    pub(super) fn is_stream(&self) -> bool {
        self.responses.get("200").is_some_and(|response| response.content.get("text/event-stream").is_some())
    }
}

impl Schema {
    /// The name of what it refers to.
    pub(super) fn name(&self) -> Option<&str> {
        self.reference.as_deref().map(last_segment)
    }
}

fn resolve<'a, T>(part: &'a T, reference: Option<&str>, named: &'a Ordered<T>) -> &'a T {
    reference.and_then(|reference| named.get(last_segment(reference))).unwrap_or(part)
}

fn last_segment(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or(reference)
}

/// A JSON object whose order is kept.
pub(super) struct Ordered<T>(Vec<(String, T)>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Ordered<T> {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub(super) fn get(&self, name: &str) -> Option<&T> {
        self.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Ordered<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Ordered(entries))
            }
        }

        deserializer.deserialize_map(Entries(PhantomData))
    }
}
