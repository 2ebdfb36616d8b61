//! The OpenAPI document as the page reads it.

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::openapi::header::Header;
use utoipa::openapi::path::{self, Parameter};
use utoipa::openapi::request_body::RequestBody;
use utoipa::openapi::schema::{Components, Schema};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::tag::Tag;
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Response};

#[derive(Clone, Copy)]
pub(super) struct ApiDocument<'a>(pub(super) &'a OpenApi);

#[derive(Clone, Copy)]
pub(super) struct Operation<'a> {
    /// In capitals.
    pub(super) method: &'static str,
    pub(super) path: &'a str,
    pub(super) id: &'a str,
    pub(super) summary: &'a str,
    described: &'a path::Operation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiAccess {
    Public,
    /// The `Token` header.
    Session,
    /// `Authorization: Bearer`.
    BotKey,
}

/// An error that an operation may answer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DocumentedError<'a> {
    pub(super) status: u64,
    pub(super) code: &'a str,
    pub(super) sentence: &'a str,
}

impl<'a> ApiDocument<'a> {
    pub(super) fn description(self) -> &'a str {
        self.0.info.description.as_deref().unwrap_or_default()
    }

    pub(super) fn tags(self) -> &'a [Tag] {
        self.0.tags.as_deref().unwrap_or_default()
    }

    /// All operations, in the order of the document.
    pub(super) fn operations(self) -> impl Iterator<Item = Operation<'a>> {
        self.0.paths.paths.iter().flat_map(|(path, item)| {
            let methods = [("GET", &item.get), ("PUT", &item.put), ("POST", &item.post), ("DELETE", &item.delete)];
            methods.into_iter().filter_map(move |(method, described)| {
                let described = described.as_ref()?;
                let id = described.operation_id.as_deref()?;
                Some(Operation { method, path, id, summary: described.summary.as_deref()?, described })
            })
        })
    }

    pub(super) fn operations_of(self, tag: &Tag) -> impl Iterator<Item = Operation<'a>> {
        self.operations().filter(|operation| operation.described.tags.iter().flatten().any(|name| *name == tag.name))
    }

    pub(super) fn schema(self, schema: &'a RefOr<Schema>) -> Option<&'a Schema> {
        self.resolve(schema, |components| &components.schemas)
    }

    pub(super) fn header_description(self, header: &'a RefOr<Header>) -> &'a str {
        let header = self.resolve(header, |components| &components.headers);
        header.and_then(|header| header.description.as_deref()).unwrap_or_default()
    }

    /// The response with this status.
    pub(super) fn response(self, operation: Operation<'a>, status: &str) -> Option<&'a Response> {
        self.resolve(operation.described.responses.responses.get(status)?, |components| &components.responses)
    }

    pub(super) fn examples(self, content: &'a Content) -> impl Iterator<Item = &'a Value> {
        let examples = content.examples.values();
        examples.filter_map(move |example| self.resolve(example, |components| &components.examples)?.value.as_ref())
    }

    /// The schema of `data`, if this is the envelope.
    pub(super) fn data(self, content: &'a Content) -> Option<&'a RefOr<Schema>> {
        let Schema::Object(whole) = self.schema(content.schema.as_ref()?)? else { return None };
        whole.properties.get("code").and(whole.properties.get("data"))
    }

    /// The errors that an operation may answer with, by status.
    pub(super) fn errors(self, operation: Operation<'a>) -> Vec<DocumentedError<'a>> {
        let statuses = operation.described.responses.responses.keys();
        let responses = statuses.filter_map(|status| self.response(operation, status));
        let contents = responses.flat_map(|response| response.content.values().filter_map(inline));
        let mut errors: Vec<_> = contents
            .flat_map(|content| self.examples(content))
            .filter_map(|example| {
                Some(DocumentedError {
                    status: example["code"].as_u64()?,
                    code: example["data"]["error"].as_str()?,
                    sentence: example["message"].as_str()?,
                })
            })
            .collect();
        errors.sort_unstable();
        errors
    }

    /// The errors that most operations may answer with, so that they need to be explained only once.
    pub(super) fn common_errors(self) -> Vec<DocumentedError<'a>> {
        let mut all: Vec<_> = self.operations().flat_map(|operation| self.errors(operation)).collect();
        let most = self.operations().count() / 2;
        all.sort_unstable();
        all.chunk_by(|one, other| one == other).filter(|same| same.len() > most).map(|same| same[0]).collect()
    }

    /// The headers that every success has, each with its description.
    pub(super) fn common_headers(self) -> Vec<(&'a str, &'a str)> {
        let successes: Vec<_> = self.operations().filter_map(|operation| self.response(operation, "200")).collect();
        let Some(first) = successes.first() else { return Vec::new() };
        let is_everywhere = |name: &str| successes.iter().all(|success| success.headers.contains_key(name));
        let common = first.headers.iter().filter(|(name, _)| is_everywhere(name));
        common.map(|(name, header)| (name.as_str(), self.header_description(header))).collect()
    }

    /// What a part stands for: itself, or what it refers to.
    fn resolve<T>(self, part: &'a RefOr<T>, named: fn(&Components) -> &BTreeMap<String, RefOr<T>>) -> Option<&'a T> {
        match part {
            RefOr::T(part) => Some(part),
            RefOr::Ref(reference) => inline(named(self.0.components.as_ref()?).get(name(reference))?),
        }
    }
}

impl<'a> Operation<'a> {
    pub(super) fn description(self) -> &'a str {
        self.described.description.as_deref().unwrap_or_default()
    }

    pub(super) fn parameters(self) -> impl Iterator<Item = &'a Parameter> {
        self.described.parameters.iter().flatten().filter_map(inline)
    }

    pub(super) fn request_body(self) -> Option<&'a RequestBody> {
        self.described.request_body.as_ref().and_then(inline)
    }

    pub(super) fn access(self) -> ApiAccess {
        let is_needed = |scheme| {
            let needed = SecurityRequirement::new::<&str, [&str; 0], &str>(scheme, []);
            self.described.security.iter().flatten().any(|requirement| *requirement == needed)
        };
        match () {
            () if is_needed("session") => ApiAccess::Session,
            () if is_needed("bot") => ApiAccess::BotKey,
            () => ApiAccess::Public,
        }
    }

    /// Whether the response is a stream of events.
    pub(super) fn is_stream(self) -> bool {
        let success = self.described.responses.responses.get("200").and_then(inline);
        success.is_some_and(|response| response.content.contains_key("text/event-stream"))
    }
}

/// A tag's name as a heading: with a capital.
pub(super) fn title(tag: &Tag) -> String {
    let mut letters = tag.name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// The name of what is referred to.
pub(super) fn name(reference: &Ref) -> &str {
    let location = &reference.ref_location;
    location.rsplit('/').next().unwrap_or(location)
}

pub(super) fn inline<T>(part: &RefOr<T>) -> Option<&T> {
    match part {
        RefOr::T(part) => Some(part),
        RefOr::Ref(_) => None,
    }
}
