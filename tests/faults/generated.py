"""Requests made from the OpenAPI document and from what a valid request looks like, then bent. The same seed makes the same requests."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import dataclass
from typing import Any

from service import guild, user_id

PEOPLE = ("owner", "manager", "moderator", "member")
ODD_TEXTS = [
    "", " ", "\t", "0", "-1", "1", "null", "true", "[]", "{}", "NaN", "1e999", "9" * 30, "a" * 300, "a" * 5000, "%00", "%ff", "..", "../..", "/", "//", "é", "日本", "\U0001f600",
    "'", '"', "<script>", "' OR 1=1 --", "${x}", "\\", "*", "W/\"x\"", '"x"', "bytes=0-0", "no-cache", "gzip", "identity;q=0", "*;q=0", "bck_", "bcs_" + "x" * 36,
]  # fmt: skip
ODD_VALUES: list[Any] = [None, True, False, 0, -1, 1.5, 1e308, 2**63, 2**64, "", "x", "1", "-1", "9" * 30, [], {}, [[]], {"a": 1}, "é", "\u0000", "x" * 101, "x" * 3000]
HEADER_NAMES = (
    "Token", "Authorization", "Idp-Code", "Idp-Code-Verifier", "Idp-Redirect-Uri", "Sent-Epoch", "If-None-Match", "Cache-Control", "Accept", "Accept-Encoding", "Origin",
    "Content-Type", "Content-Encoding", "Feed-Instance", "Feed-Sequence", "X-Request-Id", "X-Forwarded-For", "Forwarded", "Range", "If-Modified-Since", "Cookie", "Upgrade",
    "Access-Control-Request-Method", "Access-Control-Request-Headers", "Sec-Fetch-Site", "traceparent", "User-Agent", "X-Odd",
)  # fmt: skip
METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW")


@dataclass
class Request:
    # The path in the OpenAPI document; empty if it isn't there.
    template: str
    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes | None = None
    chunked: bool = False

    def text(self, host: str) -> bytes:
        head = [f"{self.method} {self.path} HTTP/1.1", f"Host: {host}", *(f"{name}: {value}" for name, value in self.headers)]
        body = self.body
        if body is not None and self.chunked:
            head.append("Transfer-Encoding: chunked")
            # Whole, because a part of nothing is the end.
            body = (b"%x\r\n%s\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n"
        elif body is not None:
            head.append(f"Content-Length: {len(body)}")
        return "\r\n".join(head).encode() + b"\r\n\r\n" + (body or b"")


class Generator:
    """`token` and `key` are valid; the caller keeps them valid."""

    def __init__(self, seed: int, document: dict[str, Any], key: str) -> None:
        self.random, self.key, self.token = random.Random(seed), key, ""
        self.operations = [(path, method.upper()) for path, methods in document["paths"].items() for method in methods]
        self.instance, self.next = f"generated-{seed}", 1

    def make(self) -> Request:
        chance = self.random.random()
        if chance < 0.08:
            return self.nowhere()
        template, method = self.random.choice(self.operations)
        request = Request(template, method, self.filled(template), self.credentials(template), None)
        self.complete(request)
        # Half of them stay valid.
        for _ in range(self.random.choice((0, 0, 0, 1, 1, 2, 3))):
            self.bend(request)
        # An endless body would block the connection.
        if request.headers and any(name == "Expect" for name, _ in request.headers):
            request.headers = [pair for pair in request.headers if pair[0] != "Expect"]
        return request

    def nowhere(self) -> Request:
        """A path that leads nowhere, or to a page."""
        parts = [self.random.choice(("team", "guilds", "bot", "sessions", "auth", "%2e%2e", "", "x", "é", "live", "site", "badge", "docs", "1")) for _ in range(self.random.randint(1, 4))]
        path = "/" + "/".join(parts) + self.query()
        return Request("", self.random.choice(METHODS), self.escaped(path), self.credentials("/me") + self.odd_headers(2))

    @staticmethod
    def escaped(path: str) -> str:
        """What may stand in a request line; everything else as it would be sent by a browser."""
        return "".join(letter if 33 <= ord(letter) < 127 and letter not in '"<>\\^`{|}#' else "".join(f"%{byte:02X}" for byte in letter.encode()) for letter in path)

    def filled(self, template: str) -> str:
        choose = self.random.choice
        values = {
            "{id}": lambda: choose((str(7 << 22), str(8 << 22), str(self.random.getrandbits(62)), "x", "0", *ODD_TEXTS)),
            "{shard_count}": lambda: choose(("1", "1", "1", "2", "16", "0", "x", "65536", "99999999999")),
            "{shard_id}": lambda: choose(("0", "0", "0", "1", "15", "x", "-1", "99999999999")),
        }
        for mark, value in values.items():
            if mark in template:
                # An empty segment or a slash makes a different path, and so may dots.
                made = value()
                template = template.replace(mark, made if made.strip("./ ") and "/" not in made else "x")
        return self.escaped(template) + (self.query() if self.random.random() < 0.1 else "")

    def query(self) -> str:
        if self.random.random() < 0.5:
            return ""
        return "?" + "&".join(f"{self.random.choice('abc')}={self.escaped(self.odd())}" for _ in range(self.random.randint(1, 3)))

    def odd(self) -> str:
        return self.random.choice(ODD_TEXTS)

    def credentials(self, template: str) -> list[tuple[str, str]]:
        if template.startswith("/bot/"):
            return [("Authorization", f"Bearer {self.key}")]
        if template.startswith(("/me", "/guilds", "/sessions")) or template == "/auth":
            return [("Token", self.token)]
        return []

    def complete(self, request: Request) -> None:
        """What a valid request of this kind has besides."""
        choose = self.random.choice
        if (request.template, request.method) == ("/auth", "POST"):
            request.headers = [("Idp-Code", choose((*PEOPLE, "stranger", f"x{self.random.getrandbits(30)}")))]
        if request.template.startswith("/bot/") and request.method != "GET" and request.template != "/bot/heartbeat":
            sequence = self.next if self.random.random() < 0.7 else self.random.randint(1, 50)
            request.headers += [("Feed-Instance", self.instance), ("Feed-Sequence", str(sequence))]
        if request.template == "/bot/heartbeat":
            shards = [self.shard(number) for number in range(self.random.randint(0, 3))]
            value = {"instance": self.instance, "started_at": self.random.randint(1, 2_000_000_000), "memory": self.random.getrandbits(30), "shard_count": max(1, len(shards)), "shards": shards}
            request.body = json.dumps(self.bent(value)).encode()
        elif request.template == "/bot/events":
            request.body = self.lines([self.event() for _ in range(self.random.randint(0, 5))])
        elif request.template == "/bot/subscriptions":
            request.body = self.whole([self.subscription() for _ in range(self.random.randint(0, 4))])
        elif request.template.startswith("/bot/shards/"):
            request.body = self.whole([self.guild() for _ in range(self.random.randint(0, 4))])
        if self.random.random() < 0.1:
            request.headers.append(("Accept-Encoding", choose(("gzip", "br, gzip;q=0.5", "identity", "*", "deflate"))))
        if self.random.random() < 0.05:
            request.headers.append(("Cache-Control", "no-cache"))
        if self.random.random() < 0.1:
            request.headers.append(("Origin", choose(("http://localhost:3000", "https://evil.example", "null"))))

    def shard(self, number: int) -> dict[str, Any]:
        age = self.random.choice((None, 0, 1_000, 90_000, 1e12))
        return {"id": number, "sent_ms_ago": age, "acknowledged_ms_ago": age, "latency": self.random.choice((None, 0, 50.5))}

    def guild(self) -> dict[str, Any]:
        made = guild(self.random.choice((7, 8, 9, 10)) << 22, self.random.choice(("Harbour", "é" * 50, "x")))
        if self.random.random() < 0.2:
            return {"id": made["id"], "unavailable": True}
        if self.random.random() < 0.4:
            made["grants"] = {"5": ["MOD", self.random.choice(("ADMIN", "ODD", "FOUNDER"))]}
            made["staff"] = {str(user_id(each)): ["5"] for each in range(self.random.randint(0, 3))}
        return made

    def subscription(self) -> dict[str, Any]:
        until = self.random.choice((None, 0, 4_000_000_000))
        return {"userid": str(user_id(self.random.randint(0, 5))), "slots": self.random.randint(0, 5), "guilds": [str(7 << 22)], "active_until": until}

    def person(self) -> dict[str, Any]:
        return {"id": str(user_id(self.random.randint(0, 5))), "username": "someone", "name": "Someone", "avatar": self.random.choice((None, "a_" + "0" * 32, "https://x.example/y.png"))}

    def event(self) -> dict[str, Any]:
        choose = self.random.choice
        made: dict[str, Any] = choose([
            lambda: {"type": "guild", **self.guild()},
            lambda: {"type": "guild_gone", "id": str(choose((9, 10)) << 22)},
            lambda: {"type": "member", "guild": str(7 << 22), "user": str(user_id(1)), "roles": ["5"]},
            lambda: {"type": "member_gone", "guild": str(7 << 22), "user": str(user_id(1))},
            lambda: {"type": "subscription", **self.subscription()},
            lambda: {"type": "subscription_gone", "userid": str(user_id(1))},
            lambda: {"type": "feedback", "id": f"f{self.random.randint(0, 99)}", "feedback": "Good.", "rating": self.random.randint(1, 5), "timestamp": 1_700_000_000, "submitter": self.person()},
            lambda: {"type": "feedback_gone", "id": f"f{self.random.randint(0, 99)}"},
            lambda: {"type": "team", "members": [{"username": "a", "name": "A", "avatar": None, "discord_id": str(user_id(2)), "role": "Founder", "color": "#aabbcc", "category": "team", "position": 1, "permissions": ["FOUNDER"]}]},
            lambda: {"type": "user", **self.person()},
            lambda: {"type": "odd"},
        ])()  # fmt: skip
        return self.bent(made)

    def bent(self, value: dict[str, Any]) -> dict[str, Any]:
        """Mostly as it is; sometimes with a field that is odd, missing or new."""
        if self.random.random() < 0.85 or not value:
            return value
        name = self.random.choice(list(value))
        if self.random.random() < 0.3:
            return {each: given for each, given in value.items() if each != name}
        return {**value, self.random.choice((name, "odd")): self.random.choice(ODD_VALUES)}

    def lines(self, values: list[dict[str, Any]]) -> bytes:
        return b"".join(json.dumps(value, ensure_ascii=self.random.random() < 0.5).encode("utf-8", "surrogatepass") + b"\n" for value in values)

    def whole(self, values: list[dict[str, Any]]) -> bytes:
        end = len(values) if self.random.random() < 0.9 else self.random.choice((0, 99, -1, None, "x"))
        return self.lines([*(self.bent(value) for value in values), {"end": end}])

    def odd_headers(self, most: int) -> list[tuple[str, str]]:
        return [(self.random.choice(HEADER_NAMES), self.header_value()) for _ in range(self.random.randint(0, most))]

    def header_value(self) -> str:
        return self.odd() or "x"

    def bend(self, request: Request) -> None:
        choice = self.random.randint(0, 9)
        if choice <= 2:
            request.headers += self.odd_headers(3)
        elif choice == 3 and request.headers:
            request.headers.pop(self.random.randrange(len(request.headers)))
        elif choice == 4 and request.headers:
            place = self.random.randrange(len(request.headers))
            request.headers[place] = (request.headers[place][0], self.header_value())
        elif choice == 5 and request.headers:
            request.headers.append(self.random.choice(request.headers))
        elif choice == 6:
            request.method = self.random.choice(METHODS)
            if request.method in ("TRACE", "HEAD"):
                request.body = None
        elif choice == 7 and request.body:
            cut = bytearray(request.body[: self.random.randint(0, len(request.body))])
            for _ in range(self.random.randint(0, 3)):
                if cut:
                    cut[self.random.randrange(len(cut))] = self.random.randrange(256)
            request.body = bytes(cut)
        elif choice == 8:
            request.body = self.random.choice((b"", b"x", b"{}", b"\0" * 100, b"x" * 70_000, request.body or b"[]"))
            request.chunked = self.random.random() < 0.5
        elif choice == 9 and request.body is not None:
            request.body = gzip.compress(request.body, 1)
            request.headers.append(("Content-Encoding", self.random.choice(("gzip", "gzip", "x-gzip", "br"))))
