"""The lines of the feed, built from the library's and the bot's data."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from ._source import Json, SourceGuild

NAME_CHARACTERS = 100


def encode(value: Json) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return well_formed(text).encode() + b"\n"


def well_formed(text: str) -> str:
    """The same text, with unpaired surrogates replaced, because UTF-8 can't encode them."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def identity(thing: Any) -> int:
    """The ID of an object, or the ID itself."""
    return int(getattr(thing, "id", thing))


class Slip(ValueError):
    """A callback's answer is incomplete, so it doesn't count. The message says what is wrong and what to return instead."""


def snowflake(thing: Any, what: str) -> str:
    """The ID of an object, or the ID itself, as text. Raises `Slip` if it's neither."""
    found = getattr(thing, "id", thing)
    if isinstance(found, str) and found.isascii() and found.isdigit() and len(found) <= 20:
        found = int(found)
    if isinstance(found, bool) or not isinstance(found, int) or not 0 < found < 1 << 63:
        raise Slip(f"{what} must be an id, or an object with one, not {shown(thing)}")
    return str(found)


def items(given: Any, what: str) -> Iterable[Any]:
    """Something to iterate like a list. Strings and mappings can be iterated too, but are a mistake here."""
    if isinstance(given, (str, bytes, bytearray, Mapping)) or not isinstance(given, Iterable):
        raise Slip(f"{what}, not {shown(given)}")  # pyright: ignore[reportUnknownArgumentType]
    found: Iterable[Any] = given  # pyright: ignore[reportUnknownVariableType]
    return found


def shown(thing: Any) -> str:
    """For a message: the beginning of the value, and its type."""
    if thing is None:
        return "None"
    text = repr(thing)
    return f"{text[:40]}{'…' if len(text) > 40 else ''} ({type(thing).__name__})"


def fields(guild: SourceGuild) -> Json:
    """What the library knows about a guild."""
    return {
        "id": str(guild.id),
        "name": well_formed(guild.name)[:NAME_CHARACTERS],
        "icon": guild.icon,
        "owner": str(guild.owner),
        "members": max(0, guild.members),
    }


def unavailable(guild: int) -> bytes:
    return encode({"id": str(guild), "unavailable": True})


def guild_gone(guild: int) -> bytes:
    return encode({"type": "guild_gone", "id": str(guild)})


def member(guild: int, user: int, roles: tuple[int, ...] | None) -> bytes:
    line: Json = {"type": "member_gone", "guild": str(guild), "user": str(user)}
    if roles is not None:
        line.update(type="member", roles=[str(role) for role in roles])
    return encode(line)


def subscriptions(entries: Iterable[Any], now: float) -> list[bytes]:
    """The lines of all subscriptions, one per user: the service keeps one per user, but a bot may have one per payment."""
    by_user: dict[str, list[Json]] = {}
    for entry in entries:
        line = _subscription(entry)
        by_user.setdefault(line["userid"], []).append(line)
    return [encode(united(lines, now)) for lines in by_user.values()]


def united(lines: list[Json], now: float) -> Json:
    """One subscription: guilds and slots together, until the latest end. What has ended doesn't count beside what has not: its guilds
    would get premium again."""
    if len(lines) == 1:
        return lines[0]
    current = [line for line in lines if line["active_until"] is None or line["active_until"] > now] or lines
    ends = [line["active_until"] for line in current]
    return {
        **current[0],
        "slots": sum(line["slots"] for line in current),
        "guilds": list(dict.fromkeys(guild for line in current for guild in line["guilds"])),
        "active_until": None if None in ends else max(ends),
    }


def _subscription(entry: Any) -> Json:
    """A mapping in the feed's format, or an object with the same attributes."""
    userid, slots, guilds, active_until = (_field(entry, name) for name in ("userid", "slots", "guilds", "active_until"))
    try:
        slots = operator.index(slots)
    except TypeError:
        raise Slip(f"`slots` of a subscription must be a whole number, not {shown(slots)}") from None
    named = items(guilds, "`guilds` of a subscription must be a list of IDs")
    return {
        "userid": snowflake(userid, "`userid` of a subscription"),
        "slots": slots,
        "guilds": [snowflake(guild, "each of a subscription's `guilds`") for guild in named],
        "active_until": _epoch(active_until),
    }


def _field(entry: Any, name: str) -> Any:
    if isinstance(entry, Mapping):
        given: Mapping[str, Any] = entry  # pyright: ignore[reportUnknownVariableType]
        if name in given:
            return given[name]
    elif hasattr(entry, name):
        return getattr(entry, name)
    raise Slip(f"a subscription must have `userid`, `slots`, `guilds` and `active_until`; {name!r} is missing in {shown(entry)}")


def team(entries: list[Any]) -> bytes:
    return encode({"type": "team", "members": [_team_member(entry) for entry in entries]})


def _team_member(entry: Any) -> Json:
    if not isinstance(entry, Mapping):
        raise Slip(f"a member of the team must be a mapping, not {shown(entry)}")
    given: Mapping[str, Any] = entry  # pyright: ignore[reportUnknownVariableType]
    return {**given, "discord_id": str(given["discord_id"])} if "discord_id" in given else dict(given)


def _epoch(moment: Any) -> float | None:
    if isinstance(moment, datetime):
        return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
    if moment is None or (isinstance(moment, (int, float)) and not isinstance(moment, bool) and math.isfinite(moment)):
        return moment
    raise Slip(
        f"`active_until` of a subscription must be a datetime, epoch seconds, or None if it never ends, not {shown(moment)}"
    )


def user(person: Any) -> Json:
    """A person in the feed's format, from a mapping or a library's user or member object."""
    if isinstance(person, Mapping):
        given: Mapping[str, Any] = person  # pyright: ignore[reportUnknownVariableType]
        return {**given, "id": str(identity(given["id"]))}
    username = str(getattr(person, "name", ""))
    name = getattr(person, "global_name", None) or getattr(person, "display_name", None) or username
    asset = getattr(person, "display_avatar", None) or getattr(person, "avatar", None)
    picture = getattr(asset, "url", asset)
    return {
        "id": str(identity(person)),
        "username": username,
        "name": str(name),
        "avatar": str(picture) if picture else None,
    }


def about(line: bytes) -> str:
    """What a line is about, for the log: its type and ID, never its text."""
    found = json.loads(line)
    if "userid" in found:
        return f"the subscription of user {found['userid']}"
    kind = found.get("type", "guild")
    named = found.get("id") or found.get("guild")
    return f"{kind} {named}" if named else str(kind)


def without_secrets(url: str) -> str:
    """An address for the log."""
    return re.sub(r"//[^/@]*@", "//", url).rstrip("/")
