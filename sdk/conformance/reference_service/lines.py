"""Reads what a bot sends. A line that is not what it should be raises `Refused`, with the reason in the service's own words."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

Json = dict[str, Any]
T = TypeVar("T")

LINE_BYTES = 1 << 20
SHARDS = 100_000
"""The most shards that a bot can have."""
GRANTABLE = ("ERLC_MANAGER", "ERLC_ADMIN", "ERLC_STAFF", "ADMIN", "MOD", "SESSION_STARTER")
TEAM = (
    "FOUNDER",
    "EXECUTIVE",
    "MANAGEMENT",
    "SERVICE_STAFF",
    "SUPPORT",
    "QUALITY_ASSURANCE",
    "DOCWRITER",
    "WEB_DEVELOPER",
    "BOT_DEVELOPER",
)
MOST = 2**63 - 1
LAST_SECOND = 253_402_300_799
"""The end of the year 9999: what lies beyond was meant as milliseconds."""


class Refused(Exception):
    """A line cannot be taken."""


def wrong(name: str, wanted: str) -> Refused:
    return Refused(f"`{name}` must be {wanted}.")


def shown(text: str) -> str:
    cut = text[:40]
    return f"`{cut}{'…' if cut != text else ''}`"


def is_id(value: Any) -> bool:
    canonical = isinstance(value, str) and 1 <= len(value) <= 19 and value.isascii() and value.isdigit() and value[0] != "0"
    return canonical and int(value) <= MOST


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -MOST - 1 <= value <= MOST


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def parse(line: bytes) -> Any:
    """The JSON value in a line."""

    def no_constant(name: str) -> Any:
        raise ValueError(name)

    try:
        value = json.loads(line.decode(), parse_constant=no_constant)
        # An unpaired surrogate isn't valid text.
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise Refused(f"The line is not valid JSON (column {error.colno}).") from error
    except (ValueError, RecursionError) as error:
        raise Refused("The line is not valid JSON (column 0).") from error
    return value


class Fields:
    """The fields of an object, each read as what it should be. Null is like absent."""

    def __init__(self, values: Json) -> None:
        self.values = values

    @classmethod
    def of(cls, line: bytes) -> Fields:
        value = parse(line)
        if not isinstance(value, dict):
            raise Refused("A line must be a JSON object.")
        return cls(value)

    def get(self, name: str) -> Any:
        return self.values.get(name)

    def id(self, name: str) -> str:
        value = self.get(name)
        if not is_id(value):
            raise wrong(name, "an id as a string of digits")
        return str(value)

    def text(self, name: str, least: int, most: int) -> str:
        value = self.get(name)
        if not isinstance(value, str) or not least <= len(value) <= most:
            raise wrong(name, f"text of {least} to {most} characters")
        return value

    def count(self, name: str, most: int) -> int:
        value = self.get(name)
        if value is None:
            return 0
        if not is_whole(value) or not 0 <= value <= most:
            raise wrong(name, f"a whole number from 0 to {most}")
        return int(value)

    def flag(self, name: str) -> bool:
        value = self.get(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise wrong(name, "true or false")
        return value

    def time(self, name: str) -> float:
        value = self.get(name)
        if not is_number(value) or not 0 <= value <= LAST_SECOND:
            raise wrong(name, "a time in epoch seconds")
        return float(value)

    def list(self, name: str, most: int) -> Sequence[Any]:
        value = self.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise wrong(name, f"a list of at most {most}")
        return value

    def ids(self, name: str, most: int) -> Sequence[str]:
        value = self.list(name, most)
        if not all(is_id(item) for item in value):
            raise wrong(name, "a list of ids, each a string of digits")
        return value

    def by_id(self, name: str, most: int, read: Callable[[Any], T]) -> dict[str, T] | None:
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise wrong(name, "an object whose names are ids")
        if len(value) > most:
            raise wrong(name, f"an object with at most {most} entries")
        if not all(is_id(key) for key in value):
            raise wrong(name, "an object whose names are ids, strings of digits")
        return {key: read(item) for key, item in value.items()}

    def picture(self, name: str) -> str | None:
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, str) and (is_hash(value) or is_url(value)):
            return value
        raise wrong(name, "a picture's hash, an https URL or null")


def is_hash(text: str) -> bool:
    return 1 <= len(text) <= 64 and text.isascii() and text.replace("_", "a").isalnum()


def is_url(text: str) -> bool:
    graphic = all("!" <= letter <= "~" and letter not in '"<>\\^`{|}' for letter in text)
    return text.startswith("https://") and len(text) <= 512 and graphic


def permission_keys(field: str, names: Any, allowed: Iterable[str], ignored: list[str]) -> list[str]:
    found = []
    for name in names:
        if not isinstance(name, str):
            raise wrong(field, "made of permission keys, which are text")
        if name in allowed:
            found.append(name)
        else:
            ignored.append(f"`{field}` may not grant {shown(name)}; the key was left out.")
    return found


def guild(fields: Fields, ignored: list[str]) -> Json:
    """A guild. Absent `grants` or `staff` stay absent: what is stored is kept."""

    def keys(value: Any) -> list[str]:
        if not isinstance(value, list):
            raise wrong("grants", "an object of lists of permission keys")
        return permission_keys("grants", value, GRANTABLE, ignored)

    def roles(value: Any) -> list[str]:
        if not isinstance(value, list) or len(value) > 250 or not all(is_id(role) for role in value):
            raise wrong("staff", "an object of lists of at most 250 role ids")
        return value

    line: Json = {
        "id": fields.id("id"),
        "name": fields.text("name", 1, 100),
        "icon": fields.picture("icon"),
        "owner": fields.id("owner"),
        "members": fields.count("members", MOST),
        "setup": fields.flag("setup"),
        "linked": fields.flag("linked"),
    }
    grants, staff = fields.by_id("grants", 250, keys), fields.by_id("staff", 10_000, roles)
    if grants is not None:
        line["grants"] = grants
    if staff is not None:
        line["staff"] = staff
    return line


def subscription(fields: Fields) -> Json:
    until = fields.values.get("active_until", "absent")
    if until is not None and not (is_number(until) and 0 <= until <= LAST_SECOND):
        # The field is required, so that a mistake can't grant premium forever.
        raise wrong("active_until", "a time in epoch seconds, or null if the subscription does not end")
    return {
        "userid": fields.id("userid"),
        "slots": fields.count("slots", 1_000_000),
        "guilds": fields.ids("guilds", 10_000),
        "active_until": until,
    }


def user(fields: Fields) -> Json:
    person = {"id": fields.id("id"), "username": fields.text("username", 1, 100)}
    person["name"] = person["username"] if fields.get("name") is None else fields.text("name", 1, 100)
    return {**person, "avatar": fields.picture("avatar")}


def feedback(fields: Fields) -> Json:
    submitter = fields.get("submitter")
    if not isinstance(submitter, dict):
        raise wrong("submitter", "an object with `id`, `username`, `name` and `avatar`")
    try:
        person = user(Fields(submitter))
    except Refused as reason:
        raise Refused(f"`submitter`: {reason}") from reason
    rating: Any = fields.get("rating")
    entry = {"id": fields.text("id", 1, 64), "feedback": fields.text("feedback", 1, 4_000)}
    if not is_whole(rating) or not 1 <= rating <= 5:
        raise wrong("rating", "a whole number from 1 to 5")
    return {**entry, "rating": rating, "timestamp": int(fields.time("timestamp")), "submitter": person}


def team_member(value: Any, ignored: list[str]) -> Json:
    if not isinstance(value, dict):
        raise wrong("members", "a list of objects")
    fields = Fields(value)
    permissions = fields.get("permissions")
    if permissions is not None and not isinstance(permissions, list):
        raise wrong("permissions", "a list of the team's permission keys")
    member: Json = {
        "discord_id": fields.id("discord_id"),
        "permissions": permission_keys("permissions", permissions or [], TEAM, ignored),
        "username": fields.text("username", 1, 100),
        "avatar": fields.picture("avatar"),
        "role": fields.text("role", 1, 100),
        "color": fields.get("color"),
        "category": fields.get("category"),
        "position": fields.get("position"),
    }
    member["name"] = member["username"] if fields.get("name") is None else fields.text("name", 1, 100)
    color, category = member["color"], member["category"]
    is_color = isinstance(color, str) and len(color) == 7 and color[0] == "#"
    if not is_color or any(digit not in "0123456789abcdefABCDEF" for digit in color[1:]):
        raise wrong("color", 'a colour like "#5865F2"')
    if not isinstance(category, str) or not 1 <= len(category) <= 64 or any(c.isupper() or c.isspace() for c in category):
        raise wrong("category", 'a lower-case word like "support"')
    if not is_whole(member["position"]):
        raise wrong("position", "a whole number")
    return member


def team(fields: Fields, ignored: list[str]) -> list[Json]:
    members = []
    for number, value in enumerate(fields.list("members", 1_000), 1):
        try:
            members.append(team_member(value, ignored))
        except Refused as reason:
            raise Refused(f"Member {number}: {reason}") from reason
    return members


def event(line: bytes, ignored: list[str]) -> Json | str:
    """An event as it is applied; or, of a type that is not known here, the reason why it is ignored."""
    fields = Fields.of(line)
    kind = fields.text("type", 1, 100)
    if kind == "guild":
        return {"type": kind, **guild(fields, ignored)}
    if kind == "guild_gone":
        return {"type": kind, "id": fields.id("id")}
    if kind == "member":
        return {"type": kind, "guild": fields.id("guild"), "user": fields.id("user"), "roles": fields.ids("roles", 250)}
    if kind == "member_gone":
        return {"type": kind, "guild": fields.id("guild"), "user": fields.id("user")}
    if kind == "subscription":
        return {"type": kind, **subscription(fields)}
    if kind == "subscription_gone":
        return {"type": kind, "userid": fields.id("userid")}
    if kind == "feedback":
        return {"type": kind, **feedback(fields)}
    if kind == "feedback_gone":
        return {"type": kind, "id": fields.text("id", 1, 64)}
    if kind == "team":
        return {"type": kind, "members": team(fields, ignored)}
    if kind == "user":
        return {"type": kind, **user(fields)}
    return f"The event type {shown(kind)} is not known here."


def end(fields: Fields, id: str) -> int | None:
    """The number in an `end` line; every other line has this id."""
    if id in fields.values or fields.get("end") is None:
        return None
    return fields.count("end", MOST)


def heartbeat(body: bytes) -> Json:
    shape = f"A heartbeat must be a JSON object with `shards`, a list of at most {SHARDS} objects."
    value = parse(body)
    if not isinstance(value, dict):
        raise Refused(shape)
    fields = Fields(value)
    instance, count, memory = fields.get("instance"), fields.get("shard_count"), fields.get("memory")
    if not is_instance(instance):
        raise wrong("instance", "1 to 64 letters, digits, `_` or `-`")
    if not is_whole(count) or not 1 <= count <= SHARDS:
        raise wrong("shard_count", f"a whole number from 1 to {SHARDS}")
    shards = fields.list("shards", SHARDS)
    if not all(isinstance(shard, dict) for shard in shards):
        raise Refused(shape)
    for shard in shards:
        _check_shard(shard, count)
    started = fields.time("started_at")
    if memory is not None and (not is_whole(memory) or not 0 <= memory <= 1 << 50):
        raise wrong("memory", f"a whole number from 0 to {1 << 50}")
    leaving = fields.get("leaving")
    if leaving is not None and not isinstance(leaving, bool):
        raise wrong("leaving", "true or false")
    return {**value, "started_at": started, "leaving": bool(leaving)}


def _check_shard(shard: Json, count: int) -> None:
    id: Any = shard.get("id")
    if not is_whole(id) or not 0 <= id < count:
        raise Refused("`shards`: `id` must be a shard's number below `shard_count`.")
    for name in ("sent_ms_ago", "acknowledged_ms_ago", "latency"):
        value = shard.get(name)
        fits = value is None or (is_number(value) and math.isfinite(value) and (value >= 0 or name == "latency"))
        if not fits:
            wanted = "milliseconds, or null" if name == "latency" else "a number that is not negative, or null"
            raise Refused(f"`shards`: `{name}` must be {wanted}.")


def is_instance(name: Any) -> bool:
    return (
        isinstance(name, str) and 1 <= len(name) <= 64 and name.isascii() and name.replace("_", "a").replace("-", "a").isalnum()
    )
