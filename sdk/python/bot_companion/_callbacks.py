"""The bot's callbacks. Each call has a time limit, and if a callback fails, its last answer counts."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import inspect
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from . import _lines
from ._limits import Limits
from ._source import SourceGuild
from ._status import Status, describe
from ._types import GUILD_PERMISSIONS, FlagCallback, GrantsCallback, SubscriptionsCallback, TeamCallback

T = TypeVar("T")
R = TypeVar("R")

ROLES = 250
ENTRIES = 1_000_000
"""The most subscriptions or team members taken from a callback, because an iterator may be endless."""


@dataclass(frozen=True)
class Facts:
    """The callbacks' answers for a guild."""

    grants: dict[str, list[str]]
    setup: bool
    linked: bool

    def granting(self) -> frozenset[int]:
        """The roles that grant something."""
        return frozenset(int(role) for role in self.grants)


class Callbacks:
    def __init__(
        self,
        limits: Limits,
        status: Status,
        grants: GrantsCallback | None = None,
        setup: FlagCallback | None = None,
        linked: FlagCallback | None = None,
        subscriptions: SubscriptionsCallback | None = None,
        team: TeamCallback | None = None,
        time: Callable[[], float] = time.time,
    ) -> None:
        self._limits = limits
        self._status = status
        self._time = time
        given: dict[str, tuple[Callable[[Any], Any] | None, Callable[[Any], Any]]] = {
            "grants": (grants, self._grants),
            "setup": (setup, flag),
            "linked": (linked, flag),
        }
        self._of_guild = {name: (callback, read) for name, (callback, read) in given.items() if callback is not None}
        self._answers: dict[int, dict[str, Any]] = {}
        """The last answer of each callback, by guild."""
        self.has_grants = grants is not None
        self.has_subscriptions = subscriptions is not None
        self.has_team = team is not None
        self._subscriptions = subscriptions
        self._team = team

    @property
    def at_once(self) -> int:
        """How many guilds' callbacks run at the same time."""
        return self._limits.callbacks_at_once if self._of_guild else 1

    # About a guild

    def known(self, guild: int) -> Facts | None:
        """The last answers, or `None` if a callback has never answered for this guild."""
        answers = self._answers.get(guild, {})
        if len(answers) < len(self._of_guild):
            return None
        return Facts(answers.get("grants", {}), answers.get("setup", False), answers.get("linked", False))

    def granting(self, guild: int) -> frozenset[int]:
        return frozenset(int(role) for role in self._answers.get(guild, {}).get("grants", ()))

    def forget(self, guild: int) -> None:
        self._answers.pop(guild, None)

    async def ask(self, guild: SourceGuild) -> tuple[Facts | None, bool]:
        """The callbacks' current answers, and whether all of them answered. If one fails, its last answer counts."""
        calls = [self._ask(name, guild) for name in self._of_guild]
        results = await asyncio.gather(*calls) if len(calls) > 1 else [await call for call in calls]
        return self.known(guild.id), all(results)

    async def _ask(self, name: str, guild: SourceGuild) -> bool:
        callback, read = self._of_guild[name]
        try:
            answer = callback(guild.raw)
            if inspect.isawaitable(answer):
                answer = await within(self._limits.callback_timeout, awaited(answer))
            self._answers.setdefault(guild.id, {})[name] = read((guild.id, answer) if name == "grants" else answer)
            return True
        except Exception as error:
            self._failed(name, error)
            return False

    def _grants(self, found: tuple[int, Any]) -> dict[str, list[str]]:
        guild, answer = found
        if not isinstance(answer, Mapping):
            wanted = "a mapping from roles to lists of keys ({} if none grants anything)"
            raise _lines.Slip(f"it must return {wanted}, not {_lines.shown(answer)}")
        given: Mapping[Any, Any] = answer  # pyright: ignore[reportUnknownVariableType]
        named = [(_lines.snowflake(role, "a role"), texts(keys)) for role, keys in given.items()]
        grants = {role: [key for key in keys if self._can_be_granted(guild, role, key)] for role, keys in named[:ROLES]}
        return {role: keys for role, keys in grants.items() if keys}

    def _can_be_granted(self, guild: int, role: str, key: str) -> bool:
        if key in GUILD_PERMISSIONS:
            return True
        near = probable_key(key)
        hint = f"; did you mean {near}?" if near else f"; there are {', '.join(GUILD_PERMISSIONS)}"
        message = f"grants names the key {key!r} for role {role} of guild {guild}, which no role can grant{hint}"
        self._status.warn(message, once=("grants", key))
        return False

    # Not about a guild

    async def subscriptions(self) -> list[bytes] | None:
        """The lines of all subscriptions, or `None` if the callback failed."""
        return await self._all("subscriptions", self._subscriptions, lambda found: _lines.subscriptions(found, self._time()))

    async def team(self) -> bytes | None:
        """The line of the whole team, or `None` if the callback failed."""
        return await self._all("team", self._team, _lines.team)

    async def _all(self, name: str, callback: Callable[[], Any] | None, read: Callable[[list[Any]], R]) -> R | None:
        if callback is None:
            return None
        try:
            return read(await within(self._limits.callback_timeout, self._collect(callback)))
        except Exception as error:
            self._failed(name, error)
            return None

    async def _collect(self, callback: Callable[[], Any]) -> list[Any]:
        """What a callback returns: a list, an iterable, or an async iterable; directly or as an awaitable."""
        given = callback()
        if inspect.isawaitable(given):
            given = await given
        found: list[Any] = []
        pace = Pace(self._limits.slice)
        async with contextlib.AsyncExitStack() as stack:
            if hasattr(given, "__aiter__"):
                if hasattr(given, "aclose"):
                    stack.push_async_callback(given.aclose)
                async for entry in given:
                    self._add(found, entry)
                    await pace.breathe()
            else:
                for entry in _lines.items(given, "it must return a list, or something to iterate ([] if there is nobody)"):
                    self._add(found, entry)
                    await pace.breathe()
        return found

    @staticmethod
    def _add(found: list[Any], entry: Any) -> None:
        if len(found) >= ENTRIES:
            raise ValueError(f"it returns more than {ENTRIES} entries")
        found.append(entry)

    def _failed(self, name: str, error: Exception) -> None:
        self._status.counters["callback_failures"] += 1
        if isinstance(error, TimeoutError):
            reason = f"no answer in {self._limits.callback_timeout:g} s"
        else:
            reason = str(error) if isinstance(error, _lines.Slip) else describe(error)
        message = f"the callback {name} failed: {reason}; its last answer is used, and it will be called again"
        self._status.warn(message, once=("callback", name), trace=None if isinstance(error, (TimeoutError, _lines.Slip)) else error)


def flag(answer: Any) -> bool:
    # Not its truth value: "no" is true.
    if not isinstance(answer, bool):
        raise _lines.Slip(f"it must return True or False, not {_lines.shown(answer)}")
    return answer


def texts(keys: Any) -> list[str]:
    """The keys that a role grants."""
    wanted = "a role's keys must be a list of strings"
    found = list(_lines.items(keys, wanted))
    for key in found:
        if not isinstance(key, str):
            raise _lines.Slip(f"{wanted}, and none of them {_lines.shown(key)}")
    # An enum that is also a string would show its own name.
    return [str.__str__(key) for key in found]


def probable_key(key: str) -> str | None:
    """The key that was probably meant."""
    near = difflib.get_close_matches(key.upper(), GUILD_PERMISSIONS, 1)
    return near[0] if near else None


class Pace:
    """Yields to the bot's event loop after each slice of work."""

    def __init__(self, slice: float) -> None:
        self._slice = slice
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()

    async def breathe(self) -> None:
        if self._loop.time() - self._since >= self._slice:
            await asyncio.sleep(0)
            self._since = self._loop.time()


async def awaited(value: Awaitable[T]) -> T:
    return await value


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of the work, or `TimeoutError` after this long, even if the work ignores its cancellation."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(_retrieve)
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not done:
        task.cancel()
        raise TimeoutError
    return task.result()


def _retrieve(task: asyncio.Future[Any]) -> None:
    """Keeps asyncio from logging the error of a task that nobody is waiting for."""
    if not task.cancelled():
        task.exception()


async def in_order(items: Iterable[T], work: Callable[[T], Coroutine[Any, Any, R]], at_once: int) -> AsyncGenerator[R, None]:
    """The results in the order of the items, with this many of them in progress at the same time."""
    if at_once <= 1:
        for item in items:
            yield await work(item)
        return
    under_way: list[asyncio.Task[R]] = []
    try:
        for item in items:
            under_way.append(asyncio.ensure_future(work(item)))
            if len(under_way) >= at_once:
                yield await under_way[0]
                del under_way[0]
        while under_way:
            yield await under_way[0]
            del under_way[0]
    finally:
        for task in under_way:
            task.cancel()
