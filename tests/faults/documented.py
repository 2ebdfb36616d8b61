"""Checks an answer against the service's own OpenAPI document."""

from __future__ import annotations

import gzip
import json
from typing import Any

import jsonschema_rs

EVENT = b"event: changed\ndata: "


class Document:
    def __init__(self, document: dict[str, Any]) -> None:
        self.paths, self.components = document["paths"], document["components"]
        self.validators: dict[str, Any] = {}
        self.plans: dict[tuple[str, str, int], tuple[str, Any, list[str]] | None] = {}

    def resolved(self, value: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in value:
            _, _, kind, name = value["$ref"].split("/")
            value = self.components[kind][name]
        return value

    def validator(self, schema: dict[str, Any]) -> Any:
        text = json.dumps(schema, sort_keys=True)
        if text not in self.validators:
            whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "components": {"schemas": self.components["schemas"]}}
            self.validators[text] = jsonschema_rs.validator_for(whole)
        return self.validators[text]

    def plan(self, template: str, method: str, status: int) -> tuple[str, Any, list[str]] | None:
        """Content type, schema and needed headers of an answer; None if there is no such answer."""
        asked = (template, method, status)
        if asked not in self.plans:
            methods = self.paths[template]
            # A method that isn't allowed gets the error documented for the path's other methods.
            operation = methods.get("get" if method == "HEAD" else method.lower()) or next(iter(methods.values()))
            found = operation["responses"].get(str(status))
            if found is None:
                self.plans[asked] = None
            else:
                response = self.resolved(found)
                contents: dict[str, Any] = response.get("content", {})
                kind = next(iter(contents), "")
                needed = [name.lower() for name, header in response.get("headers", {}).items() if self.resolved(header).get("required")]
                check = self.validator(contents[kind]["schema"]) if kind == "application/json" else None
                self.plans[asked] = (kind, check, needed)
        return self.plans[asked]

    def complaint(self, template: str, method: str, status: int, headers: dict[str, str], body: bytes) -> str:
        """What is wrong with an answer; empty if nothing is."""
        if status >= 500:
            return "a server error"
        if "x-request-id" not in headers or "cache-control" not in headers:
            return "a header is missing that every answer has"
        if method == "OPTIONS":
            return "" if status in (200, 204) or status >= 400 else "not an answer to OPTIONS"
        if not template:
            if status >= 400 and headers.get("content-type") == "application/json":
                return self.envelope(status, headers, body, method)
            return ""
        plan = self.plan(template, method, status)
        if plan is None:
            return "a status that the document doesn't have"
        kind, check, needed = plan
        if missing := [name for name in needed if name not in headers]:
            return f"headers are missing that the document promises: {missing}"
        if method == "HEAD" or not kind:
            return "" if not body else "a body where there is none"
        if headers.get("content-type", "").partition(";")[0] != kind:
            return f"not {kind}"
        if kind == "text/event-stream":
            return "" if EVENT in body else "the first event is not `changed`"
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        try:
            value = json.loads(body)
        except ValueError:
            return "not JSON"
        if not check.is_valid(value):
            return f"not as its schema says: {next(iter(check.iter_errors(value)))}"
        return self.envelope(status, headers, body, method) if template != "/openapi.json" else ""

    @staticmethod
    def envelope(status: int, headers: dict[str, str], body: bytes, method: str) -> str:
        if method == "HEAD":
            return ""
        value = json.loads(body)
        if list(value) != ["code", "message", "data"] or value["code"] != status:
            return "not the envelope"
        if status >= 400 and value["data"]["request_id"] != headers["x-request-id"]:
            return "two request ids"
        return ""
