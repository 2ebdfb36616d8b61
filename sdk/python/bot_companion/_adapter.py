"""The adapter for discord.py and its forks (py-cord, nextcord, disnake): their cache, and their events.

It imports none of them; all share the names that are used here. Most events are taken from the gateway as it sends them, because the
libraries keep to themselves what they have not in their cache: a member they never met, a guild that was left between two sessions.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ._companion import Companion
from ._lines import identity
from ._source import Json, ListingRefused, Member, SourceGuild

PAGE = 1000
"""Members of one page, the most that Discord gives."""


class LibrarySource:
    """A bot of one of the libraries, as the core sees it."""

    def __init__(self, bot: Any, perf_counter: Callable[[], float] = time.perf_counter) -> None:
        self._bot = bot
        self._perf_counter = perf_counter

    def name(self) -> str:
        return str(getattr(getattr(self._bot, "user", None), "name", None) or "the bot")

    def library(self) -> str | None:
        kinds = type(self._bot).__mro__
        module = next((kind.__module__.partition(".")[0] for kind in kinds if kind.__name__ == "Client"), None)
        if module is None:
            return None
        imported = sys.modules.get(module)
        # py-cord, too, is imported as `discord`.
        title = str(getattr(imported, "__title__", module))
        name = {"discord": "discord.py", "pycord": "py-cord"}.get(title, title)
        version = getattr(imported, "__version__", None)
        return f"{name} {version}"[:100] if version else name[:100]

    # Shards

    @property
    def is_auto_sharded(self) -> bool:
        return isinstance(getattr(self._bot, "shards", None), dict)

    def shard_count(self) -> int:
        return int(getattr(self._bot, "shard_count", None) or 1)

    def own_shards(self) -> Sequence[int]:
        if self.is_auto_sharded:
            return sorted(self._bot.shards)
        return [int(getattr(self._bot, "shard_id", None) or 0)]

    def shard_health(self) -> list[Json]:
        shards: dict[int, Any] = self._bot.shards if self.is_auto_sharded else {}
        return [self._health(shard, shards.get(shard, self._bot)) for shard in self.own_shards()]

    def _health(self, shard: int, info: Any) -> Json:
        latency = sent = acknowledged = None
        try:
            latency = number(info.latency, 1000)
            parent = getattr(info, "_parent", info)
            alive = getattr(getattr(parent, "ws", None), "_keep_alive", None)
            sent = self._age(alive, "_last_send")
            # Before the first acknowledgement this field holds the time of the connection.
            acknowledged = None if latency is None else self._age(alive, "_last_ack")
        except Exception:  # the library has changed: better no number than no report
            pass
        return {"id": shard, "sent_ms_ago": sent, "acknowledged_ms_ago": acknowledged, "latency": latency}

    def _age(self, alive: Any, name: str) -> float | None:
        at = number(getattr(alive, name, None))
        return None if at is None else number(max(0.0, self._perf_counter() - at), 1000)

    # Guilds

    def guild_ids(self) -> Iterable[int]:
        return [guild.id for guild in tuple(self._bot.guilds)]

    def guild(self, guild: int) -> SourceGuild | None:
        found = self._bot.get_guild(guild)
        return None if found is None else source_guild(found)

    # Members

    def has_members_intent(self) -> bool:
        intents = getattr(self._bot, "intents", None) or getattr(self._bot._connection, "intents", None)
        return bool(getattr(intents, "members", False))

    def cached_members(self, guild: int) -> Iterable[Member] | None:
        found = self._bot.get_guild(guild)
        if found is None or not self.has_members_intent() or not getattr(found, "chunked", False):
            return None
        flags = getattr(self._bot._connection, "member_cache_flags", None)
        if flags is not None and not getattr(flags, "joined", True):
            return None  # members who join are not cached
        # Members keep the ids of deleted roles.
        existing = {role.id for role in found.roles}
        return ((member.id, existing.intersection(role_ids(member))) for member in tuple(found.members))

    async def member_page(self, guild: int, after: int) -> tuple[Sequence[Member], int | None]:
        try:
            page = await self._bot.http.get_members(guild, PAGE, after or None)
        except Exception as error:
            if getattr(error, "status", None) in (401, 403):
                raise ListingRefused(str(error)) from None
            raise
        members = [(int(member["user"]["id"]), [int(role) for role in member["roles"]]) for member in page]
        return members, members[-1][0] if len(members) >= PAGE else None


def number(value: Any, scale: float = 1.0) -> float | None:
    """A finite number that is not negative; anything else is unknown."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        return None
    return round(float(value) * scale, 3)


def source_guild(guild: Any) -> SourceGuild:
    count = getattr(guild, "member_count", None)
    icon = getattr(guild, "icon", None)
    return SourceGuild(
        id=guild.id,
        name=str(guild.name),
        icon=str(getattr(icon, "key", icon)) if icon else None,
        owner=int(getattr(guild, "owner_id", None) or 0),
        members=count if isinstance(count, int) else 0,
        unavailable=bool(getattr(guild, "unavailable", False)),
        raw=guild,
    )


def role_ids(member: Any) -> Iterable[int]:
    # `roles` makes and sorts a list of objects; the ids are what is wanted, of very many members.
    ids: Iterable[int] | None = getattr(member, "_roles", None)
    return ids if ids is not None else [identity(role) for role in member.roles]


class Listener:
    """Hears a bot's events until it is told to stop."""

    def __init__(self, bot: Any, source: LibrarySource, companion: Companion) -> None:
        self._bot = bot
        self._source = source
        self._companion = companion
        self._undo: list[Callable[[], None]] = []

    def start(self) -> None:
        connection = self._bot._connection
        gateway: dict[str, Callable[[Any], None]] = {
            "READY": self._ready,
            "GUILD_DELETE": self._guild_delete,
            "GUILD_ROLE_CREATE": self._role,
            "GUILD_ROLE_UPDATE": self._role,
            "GUILD_ROLE_DELETE": self._role_delete,
            "GUILD_MEMBER_ADD": self._member_add,
            "GUILD_MEMBER_UPDATE": self._member_update,
            "GUILD_MEMBER_REMOVE": self._member_remove,
        }
        for event, handler in gateway.items():
            self._wrap_parser(connection.parsers, event, handler)
        self._wrap_dispatch(connection)
        if self._bot.is_ready():
            # It was attached late: the sessions have begun, and the guilds are there.
            for shard in self._source.own_shards():
                self._companion.hear("ready", shard)

    def stop(self) -> None:
        for undo in self._undo:
            undo()
        self._undo.clear()

    def _wrap_parser(self, parsers: dict[str, Any], event: str, handler: Callable[[Any], None]) -> None:
        """Hears an event of the gateway, after the library has."""
        original = parsers.get(event)
        if original is None:
            return

        def parser(data: Any) -> Any:
            result = original(data)
            self._guarded(event, lambda: handler(data))
            return result

        parsers[event] = parser

        def undo() -> None:
            if parsers.get(event) is parser:
                parsers[event] = original

        self._undo.append(undo)

    def _wrap_dispatch(self, connection: Any) -> None:
        """Hears what the library tells the bot's own listeners."""
        original = connection.dispatch
        handlers: dict[str, Callable[..., None]] = {
            "ready": self._all_ready,
            "shard_ready": self._shard_ready,
            "guild_join": self._guild_here,
            "guild_available": self._guild_here,
            "guild_update": self._guild_update,
        }

        def dispatch(event: str, *args: Any, **keywords: Any) -> Any:
            handler = handlers.get(event)
            if handler is not None:
                self._guarded(event, lambda: handler(*args))
            return original(event, *args, **keywords)

        connection.dispatch = dispatch

        def undo() -> None:
            if connection.dispatch is dispatch:
                connection.dispatch = original

        self._undo.append(undo)

    def _guarded(self, event: str, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self._companion.log.fault(f"event {event}", error)

    # Shards

    def _ready(self, data: Json) -> None:
        shard = int((data.get("shard") or [0])[0])
        self._companion.hear("session", shard, [int(guild["id"]) for guild in data["guilds"]])

    def _shard_ready(self, shard: int) -> None:
        self._companion.hear("ready", shard)

    def _all_ready(self) -> None:
        for shard in self._source.own_shards():
            # An auto-sharded bot tells of each shard, but not of one without guilds.
            if not self._source.is_auto_sharded or not self._companion.is_ready(shard):
                self._companion.hear("ready", shard)

    # Guilds

    def _guild_here(self, guild: Any) -> None:
        self._companion.hear("guild_here", guild.id)

    def _guild_delete(self, data: Json) -> None:
        if not data.get("unavailable"):
            self._companion.hear("guild_gone", int(data["id"]))

    def _guild_update(self, before: Any, after: Any) -> None:
        old, new = source_guild(before), source_guild(after)
        if (old.name, old.icon, old.owner) != (new.name, new.icon, new.owner):
            self._companion.hear("guild_changed", new.id)

    def _role(self, data: Json) -> None:
        self._companion.hear("role_changed", int(data["guild_id"]))

    def _role_delete(self, data: Json) -> None:
        self._companion.hear("role_gone", int(data["guild_id"]), int(data["role_id"]))

    # Members

    def _member_add(self, data: Json) -> None:
        self._companion.hear("member_joined", *member_of(data))

    def _member_update(self, data: Json) -> None:
        self._companion.hear("member", *member_of(data))

    def _member_remove(self, data: Json) -> None:
        user = int(data["user"]["id"])
        # Of the bot itself GUILD_DELETE tells.
        if user != getattr(getattr(self._bot, "user", None), "id", None):
            self._companion.hear("member_gone", int(data["guild_id"]), user)


def member_of(data: Json) -> tuple[int, int, list[int]]:
    return int(data["guild_id"]), int(data["user"]["id"]), [int(role) for role in data.get("roles", ())]
