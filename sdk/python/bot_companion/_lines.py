"""The lines of the feed, made from what the library and the bot say."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from ._source import Json, SourceGuild

NAME_CHARACTERS = 100


def encode(value: Json) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return well_formed(text).encode() + b"\n"


def well_formed(text: str) -> str:
    """The same text; unpaired surrogates, which UTF-8 cannot hold, are replaced."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def identity(thing: Any) -> int:
    """The id of an object, or the id itself."""
    return int(getattr(thing, "id", thing))


def fields(guild: SourceGuild) -> Json:
    """What the library knows of a guild."""
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


def subscription(entry: Any) -> bytes:
    """A mapping like in the feed, or an object with those attributes."""
    names = ("userid", "slots", "guilds", "active_until")
    given: Mapping[str, Any]
    if isinstance(entry, Mapping):
        given = entry  # pyright: ignore[reportUnknownVariableType]
    else:
        given = {name: getattr(entry, name) for name in names if hasattr(entry, name)}
    line: Json = {
        "userid": str(identity(given["userid"])),
        "slots": int(given.get("slots") or 0),
        "guilds": [str(identity(guild)) for guild in given.get("guilds") or ()],
    }
    # Left out it stays left out, and the service refuses the line: a mistake must not make premium that never ends.
    if "active_until" in given:
        line["active_until"] = _epoch(given["active_until"])
    return encode(line)


def team(entries: list[Any]) -> bytes:
    members = [{**entry, "discord_id": str(entry["discord_id"])} if "discord_id" in entry else dict(entry) for entry in entries]
    return encode({"type": "team", "members": members})


def _epoch(moment: Any) -> Any:
    if isinstance(moment, datetime):
        return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
    return moment


def user(person: Any) -> Json:
    """A person in the words of the feed: a mapping, or a user or member object of a library."""
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
    """What a line is about, for a log: its type and id, never its text."""
    found = json.loads(line)
    kind = found.get("type", "guild")
    named = found.get("id") or found.get("guild") or found.get("userid")
    return f"{kind} {named}" if named else str(kind)


def without_secrets(url: str) -> str:
    """An address for a log."""
    return re.sub(r"//[^/@]*@", "//", url).rstrip("/")
