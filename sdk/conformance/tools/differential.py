"""Asks two services the same odd questions, and compares the answers: the reference service must refuse what the real one refuses,
in the same words.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .files import Json
from .services import Service

A, B = "4194304", "8388608"
GUILD = {"id": A, "name": "Harbour", "owner": "10"}
FEEDBACK = {"type": "feedback", "id": "a", "feedback": "Good.", "rating": 5, "timestamp": 1, "submitter": {"id": "20", "username": "u"}}
MEMBER = {"discord_id": "20", "username": "u", "role": "Guide", "color": "#5865F2", "category": "support", "position": 1}
SUBSCRIPTION = {"userid": "20", "slots": 1, "guilds": [A], "active_until": None}
BEAT = {"instance": "x", "started_at": 1, "memory": 1, "shard_count": 2, "shards": []}

Question = tuple[str, str, Any, list[Any]]
"""Method, path, number, lines; a line that is text is sent as it is."""


def event(*lines: Any, number: Any = 1) -> Question:
    return "POST", "/bot/events", number, list(lines)


def guilds(*lines: Any, number: Any = 1, shard: str = "1/0") -> Question:
    return "PUT", f"/bot/shards/{shard}/guilds", number, list(lines)


def odd(base: Json, **changes: Any) -> Json:
    """The object with these fields changed; `...` leaves one out."""
    return {name: value for name, value in {**base, **changes}.items() if value is not ...}


def questions() -> Iterator[Question]:
    """In this order: each continues from the state that the ones before it left."""
    changes: Json
    number: Any
    # The fields of a line.
    for line in ("[]", "7", "{}", '{"type": 7}', '{"type": "weather"}', '{"type": "guild_gone", "id": 7}'):
        yield event(line)
    for changes in (
        {"id": "0"}, {"id": "01"}, {"id": "9" * 19}, {"id": "9" * 20}, {"id": 7}, {"id": ...}, {"name": ""}, {"name": ...},
        {"name": "n" * 101}, {"name": "🏮" * 100}, {"owner": None}, {"icon": "a b"}, {"icon": "https://x/y"}, {"icon": 7},
        {"members": -1}, {"members": 1.5}, {"members": None}, {"members": 2**63}, {"setup": "yes"}, {"linked": None},
        {"grants": []}, {"grants": {"x": []}}, {"grants": {"50": "MOD"}}, {"grants": {"50": [7]}}, {"grants": {"50": ["ADMN"]}},
        {"grants": {"50": ["MOD", "FOUNDER"]}}, {"grants": {str(role): [] for role in range(1, 252)}}, {"staff": {"20": ["x"]}},
        {"staff": {"20": [str(role) for role in range(1, 252)]}}, {"staff": {"20": "50"}}, {"staff": 7}, {"unavailable": "no"},
        {"more": "fields"},
    ):  # fmt: skip
        yield guilds(odd(GUILD, **changes), {"end": 1})
    for changes in (
        {"rating": 0}, {"rating": 6}, {"rating": "5"}, {"rating": ...}, {"id": ""}, {"id": "i" * 65}, {"feedback": ""},
        {"feedback": "f" * 4001}, {"timestamp": "now"}, {"timestamp": 1e12}, {"submitter": ...}, {"submitter": {"id": "20"}},
        {"submitter": {"id": "20", "username": "u", "name": ""}}, {"submitter": {"id": "20", "username": "u", "avatar": "!"}},
    ):  # fmt: skip
        yield event(odd(FEEDBACK, **changes))
    for changes in (
        {"discord_id": 20}, {"username": ""}, {"role": ...}, {"color": "blue"}, {"color": "#5865FG"}, {"category": "Two Words"},
        {"position": "1"}, {"permissions": "FOUNDER"}, {"permissions": ["MOD"]},
    ):  # fmt: skip
        yield event({"type": "team", "members": [MEMBER, odd(MEMBER, **changes)]})
    yield event({"type": "team", "members": [7]})
    yield event({"type": "team"})
    for changes in (
        {"userid": ...}, {"slots": 1_000_001}, {"slots": -1}, {"guilds": ...}, {"guilds": ["x"]}, {"active_until": ...},
        {"active_until": "never"}, {"active_until": 1.5},
    ):  # fmt: skip
        yield "PUT", "/bot/subscriptions", 40, [odd(SUBSCRIPTION, **changes), {"end": 1}]
    for changes in (
        {"instance": "a b"}, {"instance": ...}, {"started_at": "now"}, {"memory": -1}, {"memory": None}, {"shard_count": 0},
        {"shard_count": 100_001}, {"shards": ...}, {"shards": [7]}, {"shards": [{"id": 2}]}, {"shards": [{"id": 1, "latency": -1}]},
        {"shards": [{"id": 1, "sent_ms_ago": -1}]}, {"shards": [{"id": 1, "latency": "slow"}]},
    ):  # fmt: skip
        yield "PUT", "/bot/heartbeat", None, [odd(BEAT, **changes)]
    # Snapshots.
    yield guilds()
    yield guilds(GUILD)
    yield guilds(GUILD, {"end": 2})
    yield guilds({"end": 0}, GUILD)
    yield guilds(GUILD, {"end": 1}, {"end": 1}, number=40)
    yield guilds("", GUILD, "", odd(GUILD, name=""), {"end": 2}, number=40)
    yield guilds(GUILD, {"end": 1}, shard="2/0", number=40)
    yield guilds({"id": A, "unavailable": True}, {"end": 1}, shard="2/0", number=40)
    yield guilds(GUILD, {"end": 1}, shard="2/1", number=40)
    for shard in ("0/0", "1/1", "100001/0", "x/0", "01/00", "-1/0"):
        yield guilds({"end": 0}, shard=shard, number=40)
    # Numbers.
    gone = {"type": "guild_gone", "id": A}
    for number in (40, 41, 40, 42, 39):
        yield event({"type": "weather"}, FEEDBACK, number=number)
    yield guilds(GUILD, {"end": 1}, number=41)
    yield guilds(GUILD, {"end": 1}, number=42)
    for number in (0, -1, "x", "", None, 2**62 + 1):
        yield event(gone, number=number)
    yield event(gone, {"type": "member_gone", "guild": A, "user": "20"}, number=42)
    yield event({"type": "guild_gone", "id": "12582912"}, number=44)
    yield event(number=45)
    # Paths and methods.
    for method, path in (("GET", "/bot/events"), ("POST", "/bot/heartbeat"), ("PUT", "/bot"), ("PUT", "/bot/shards/1/0")):
        yield method, path, 45, []


def ask(service: Service, instance: str, question: Question) -> tuple[int, Json]:
    method, path, number, lines = question
    headers = {"Feed-Instance": instance}
    if number is not None:
        headers["Feed-Sequence"] = str(number)
    body = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    status, data = service.call(method, path, headers, body.encode())
    return status, {name: value for name, value in data.items() if name != "request_id"}


def differences(reference: Service, real: Service) -> Iterator[str]:
    for service in (reference, real):
        service.call("PUT", "/bot/heartbeat", {}, json.dumps({**BEAT, "instance": "odd", "started_at": 9e9}).encode())
    for question in questions():
        answers = ask(reference, "odd", question), ask(real, "odd", question)
        if answers[0] != answers[1]:
            yield f"{question}: the reference service answers {answers[0]}, the real one {answers[1]}"
