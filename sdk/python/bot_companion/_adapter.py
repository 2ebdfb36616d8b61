"""The adapter for discord.py and its forks (py-cord, nextcord, disnake): their cache and their events.

It imports none of them; all share the names used here. Most events are taken directly from the gateway, because the libraries don't
report what isn't in their cache: a member they have never seen, or a guild that the bot left between two sessions.
"""

from __future__ import annotations

import asyncio
import functools
import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import aiohttp

from ._companion import Companion
from ._lines import identity
from ._source import Json, ListingLimited, ListingRefused, Member, SourceGuild

PAGE = 1000
"""Members per page, the most that Discord allows."""
QUIET = 90.0
"""Seconds without a guild or its members after which a shard counts as ready. The libraries pause for up to a minute between two requests
for members."""


class LibrarySource:
    """A bot built with one of the libraries, as the core sees it."""

    def __init__(self, bot: Any, perf_counter: Callable[[], float] = time.perf_counter) -> None:
        self._bot = bot
        self._perf_counter = perf_counter
        self._watched: tuple[aiohttp.ClientSession, aiohttp.TraceConfig] | None = None
        self._outdated: set[int] = set()
        """Guilds that had an outage in this session: the libraries keep the members from before it, with their old roles."""
        self.when_limited: Callable[[float], None] = lambda seconds: None
        """Called when Discord answers one of the bot's requests with 429, with the seconds to wait."""

    def name(self) -> str:
        return str(getattr(getattr(self._bot, "user", None), "name", None) or "the bot")

    def library(self) -> str | None:
        kinds = type(self._bot).__mro__
        module = next((kind.__module__.partition(".")[0] for kind in kinds if kind.__name__ == "Client"), None)
        if module is None:
            return None
        imported = sys.modules.get(module)
        # py-cord is also imported as `discord`.
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
            # `shards` only has those that have been started, which takes five seconds each.
            planned = getattr(self._bot, "shard_ids", None) or range(getattr(self._bot, "shard_count", None) or 0)
            return sorted({*planned, *self._bot.shards})
        return [int(getattr(self._bot, "shard_id", None) or 0)]

    def shard_health(self) -> list[Json]:
        if self.is_auto_sharded:
            return [self._health(shard, info) for shard, info in sorted(self._bot.shards.items())]
        return [self._health(shard, self._bot) for shard in self.own_shards()]

    def _health(self, shard: int, info: Any) -> Json:
        latency = sent = acknowledged = None
        try:
            latency = number(info.latency, 1000)
            parent = getattr(info, "_parent", info)
            alive = getattr(getattr(parent, "ws", None), "_keep_alive", None)
            sent = self._age(alive, "_last_send")
            # Before the first acknowledgement, this field has the time of the connection.
            acknowledged = None if latency is None else self._age(alive, "_last_ack")
        except Exception:  # the library has changed: a report without this number is better than none
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
        if found is None or guild in self._outdated or not self.has_members_intent() or not getattr(found, "chunked", False):
            return None
        flags = getattr(self._bot._connection, "member_cache_flags", None)
        if flags is not None and not getattr(flags, "joined", True):
            return None  # members who join are not cached
        # Members keep the IDs of deleted roles.
        existing = {role.id for role in found.roles}
        return ((member.id, existing.intersection(role_ids(member))) for member in tuple(found.members))

    def cache_outdated(self, guild: int) -> None:
        """Events about the guild's members were missed."""
        if getattr(self._bot.get_guild(guild), "members", None):
            self._outdated.add(guild)

    def cache_emptied(self, guilds: Iterable[int]) -> None:
        """A new session: the library starts again with these guilds."""
        self._outdated.difference_update(guilds)

    async def member_page(self, guild: int, after: int) -> tuple[Sequence[Member], int | None]:
        self.watch_limits()
        try:
            page = await self._bot.http.get_members(guild, PAGE, after or None)
        except Exception as error:
            status, seconds = getattr(error, "status", None), getattr(error, "retry_after", None)
            if status in (401, 403):
                raise ListingRefused(str(error)) from None
            if status == 429 or isinstance(seconds, (int, float)):
                raise ListingLimited(seconds if seconds is not None else named_wait(getattr(error, "response", None))) from None
            raise
        members = [(int(member["user"]["id"]), [int(role) for role in member["roles"]]) for member in page]
        return members, members[-1][0] if len(members) >= PAGE else None

    # Limits

    def watch_limits(self) -> None:
        """Notices each 429. The libraries wait and retry silently, but each has one HTTP session that can be watched. It exists once the bot
        has logged in, and each login creates a new one."""
        try:
            parts: dict[str, Any] = getattr(self._bot.http, "__dict__", {})
            session = next((part for part in parts.values() if isinstance(part, aiohttp.ClientSession)), None)
            if session is None or (self._watched is not None and self._watched[0] is session):
                return
            self.unwatch_limits()
            trace = aiohttp.TraceConfig()
            trace.on_request_end.append(self._request_ended)
            trace.freeze()
            session.trace_configs.append(trace)
            self._watched = session, trace
        except Exception:  # the library has changed: listings still keep to their own rate
            pass

    def unwatch_limits(self) -> None:
        if self._watched is not None and self._watched[1] in self._watched[0].trace_configs:
            self._watched[0].trace_configs.remove(self._watched[1])
        self._watched = None

    async def _request_ended(self, session: Any, context: Any, ended: aiohttp.TraceRequestEndParams) -> None:
        # Anything raised here would end up in the bot's own request.
        try:
            if ended.response.status == 429:
                self.when_limited(named_wait(ended.response))
        except Exception:
            pass


def named_wait(response: Any) -> float:
    """How many seconds a 429 asks to wait; 1 if it doesn't say."""
    for header in ("Retry-After", "X-RateLimit-Reset-After"):
        try:
            return max(0.0, float(response.headers[header]))
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
    return 1.0


def number(value: Any, scale: float = 1.0) -> float | None:
    """A finite number, 0 or more; anything else counts as unknown."""
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
    # `roles` builds and sorts a list of objects; we only need the IDs, for a lot of members.
    ids: Iterable[int] | None = getattr(member, "_roles", None)
    return ids if ids is not None else [identity(role) for role in member.roles]


class Listener:
    """Listens to a bot's events until told to stop."""

    def __init__(self, bot: Any, source: LibrarySource, companion: Companion) -> None:
        self._bot = bot
        self._source = source
        self._companion = companion
        self._undo: list[Callable[[], None]] = []
        self._arriving: dict[int, float] = {}
        """Shards that aren't ready yet, and when something last arrived for them."""

    def start(self) -> None:
        connection = self._bot._connection
        missing = missing_hooks(self._bot)
        if missing:
            self._companion.log.warn(f"{self._source.library()} {lacks(missing)}", once="hooks")
        for event, handle in self.GATEWAY.items():
            self._wrap_parser(connection.parsers, event, functools.partial(handle, self))
        self._wrap_dispatch(connection)
        self._source.when_limited = lambda seconds: self._companion.hear("limited", seconds)
        self._source.watch_limits()
        self._undo.append(self._source.unwatch_limits)
        if self._bot.is_ready():
            # It was attached late: the sessions have started, and the guilds are there.
            for shard in self._source.own_shards():
                self._companion.hear("ready", shard)

    def stop(self) -> None:
        for undo in self._undo:
            undo()
        self._undo.clear()
        self._arriving.clear()

    def _wrap_parser(self, parsers: dict[str, Any], event: str, handler: Callable[[Any], None]) -> None:
        """Handles a gateway event, after the library has."""
        original = parsers.get(event)
        if original is None:
            return

        def parser(data: Any) -> Any:
            result = original(data)
            self._guarded(event, data, lambda: handler(data))
            return result

        parsers[event] = parser

        def undo() -> None:
            if parsers.get(event) is parser:
                parsers[event] = original

        self._undo.append(undo)

    def _wrap_dispatch(self, connection: Any) -> None:
        """Handles what the library sends to the bot's own listeners."""
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
                self._guarded(event, args, lambda: handler(*args))
            return original(event, *args, **keywords)

        connection.dispatch = dispatch

        def undo() -> None:
            if connection.dispatch is dispatch:
                connection.dispatch = original

        self._undo.append(undo)

    def _guarded(self, event: str, about: Any, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self._companion.missed(f"event {event}", guild_named_in(about), error)

    # Shards

    def _ready(self, data: Json) -> None:
        self._source.watch_limits()
        shard = int((data.get("shard") or [0])[0])
        guilds = [int(guild["id"]) for guild in data["guilds"]]
        self._source.cache_emptied(guilds)
        self._companion.hear("session", shard, guilds)
        loop = asyncio.get_running_loop()
        if shard not in self._arriving:
            loop.call_later(QUIET, self._check_arrival, shard)
        self._arriving[shard] = loop.time()

    def _arrived(self, guild: int) -> None:
        shard = (guild >> 22) % self._source.shard_count()
        if shard in self._arriving:
            self._arriving[shard] = asyncio.get_running_loop().time()

    def _check_arrival(self, shard: int) -> None:
        """A library never reports that a shard is ready if its request for some members has failed."""
        last = self._arriving.get(shard)
        if last is None:
            return
        loop = asyncio.get_running_loop()
        if last + QUIET > loop.time():
            loop.call_at(last + QUIET, self._check_arrival, shard)
        else:
            self._shard_ready(shard)

    def _shard_ready(self, shard: int) -> None:
        self._arriving.pop(shard, None)
        self._companion.hear("ready", shard)

    def _all_ready(self) -> None:
        for shard in self._source.own_shards():
            # An auto-sharded bot reports each shard, except one without guilds.
            if not self._source.is_auto_sharded or not self._companion.is_ready(shard):
                self._shard_ready(shard)

    # Guilds

    def _guild_here(self, guild: Any) -> None:
        # The bot may have left it while the library was waiting for its members.
        if self._bot.get_guild(guild.id) is not None:
            self._companion.hear("guild_here", guild.id)

    def _members_chunk(self, data: Json) -> None:
        self._arrived(int(data["guild_id"]))

    def _guild_create(self, data: Json) -> None:
        # The library reports the guild later, when it has the members, and never if its request for them fails.
        if not data.get("unavailable"):
            self._arrived(int(data["id"]))
            self._companion.hear("guild_here", int(data["id"]))

    def _guild_delete(self, data: Json) -> None:
        guild = int(data["id"])
        if data.get("unavailable"):
            self._source.cache_outdated(guild)
            self._companion.hear("guild_unavailable", guild)
        else:
            self._source.cache_emptied([guild])
            self._companion.hear("guild_gone", guild)

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
        # For the bot itself, there is GUILD_DELETE.
        if user != getattr(getattr(self._bot, "user", None), "id", None):
            self._companion.hear("member_gone", int(data["guild_id"]), user)

    GATEWAY: ClassVar[dict[str, Callable[[Listener, Json], None]]] = {
        "READY": _ready,
        "GUILD_CREATE": _guild_create,
        "GUILD_DELETE": _guild_delete,
        "GUILD_MEMBERS_CHUNK": _members_chunk,
        "GUILD_ROLE_CREATE": _role,
        "GUILD_ROLE_UPDATE": _role,
        "GUILD_ROLE_DELETE": _role_delete,
        "GUILD_MEMBER_ADD": _member_add,
        "GUILD_MEMBER_UPDATE": _member_update,
        "GUILD_MEMBER_REMOVE": _member_remove,
    }
    """The gateway events, and who handles each."""


def missing_hooks(bot: Any) -> list[str]:
    """What this adapter needs and the library lacks."""
    connection = getattr(bot, "_connection", None)
    parsers: dict[str, Any] = getattr(connection, "parsers", {})
    hooks = {"dispatch": connection, "close": bot, "get_members": getattr(bot, "http", None)}
    return [event for event in Listener.GATEWAY if event not in parsers] + [
        name for name, owner in hooks.items() if not callable(getattr(owner, name, None))
    ]


def lacks(missing: Iterable[str]) -> str:
    return f"lacks what the SDK patches: {', '.join(missing)}. Use a version that the SDK supports"


def guild_named_in(about: Any) -> int | None:
    """The guild of an event from the gateway, or among the arguments of a dispatched one; `None` if there is none."""
    try:
        return int(about.get("guild_id") or about["id"]) if isinstance(about, dict) else int(about[-1].id)  # pyright: ignore
    except Exception:
        return None


def member_of(data: Json) -> tuple[int, int, list[int]]:
    return int(data["guild_id"]), int(data["user"]["id"]), [int(role) for role in data.get("roles", ())]
