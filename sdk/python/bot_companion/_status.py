"""What a developer sees: log lines, counters, `status()`, events."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Literal, TypedDict, cast

log = logging.getLogger("bot_companion")

State = Literal["starting", "syncing", "synced", "replaced", "unreachable", "closed"]
Event = Literal["synced", "error"]
Handler = Callable[..., Any]

FORMAT = logging.Formatter("[{asctime}] [{levelname:<8}] {name}: {message}", "%Y-%m-%d %H:%M:%S", style="{")
"""The format of discord.py's own lines."""

SAID = 10_000
"""How many one-time lines are remembered."""


class Waiting(TypedDict):
    changes: int
    feedback: int
    batch: int


class Counters(TypedDict):
    requests: int
    failures: int
    heartbeats: int
    snapshots: int
    lines_sent: int
    lines_refused: int
    lines_ignored: int
    resyncs: int
    feedback_delivered: int
    feedback_dropped: int
    callback_failures: int
    listings: int
    listing_failures: int


class StatusReport(TypedDict):
    """What `Companion.status()` returns."""

    state: State
    instance: str
    guilds: int
    shards: int
    staff: int
    waiting: Waiting
    last_error: str | None
    counters: Counters


def write(level: int, message: str, trace: BaseException | None = None) -> None:
    """Logs a line. If the program hasn't set up logging, it goes to stderr, so that a developer sees that it works; Python itself would
    only show warnings. Once logging is set up, that decides."""
    if log.hasHandlers():
        log.log(level, "%s", message, exc_info=trace)
    elif level >= (log.level or logging.INFO) and not log.disabled and level > logging.root.manager.disable:
        error = None if trace is None else (type(trace), trace, trace.__traceback__)
        record = log.makeRecord(log.name, level, "", 0, message, (), error)
        handler = logging.StreamHandler()
        handler.setFormatter(FORMAT)
        if log.filter(record):
            handler.handle(record)


def running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def call_in(loop: asyncio.AbstractEventLoop, action: Callable[..., Any], *args: Any) -> None:
    """Calls a function in an event loop, from any thread. Does nothing if the loop is closed."""
    if loop is running_loop():
        action(*args)
        return
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(action, *args)


class Status:
    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop for handlers, once it has started."""
        self.counters = cast(Counters, {name: 0 for name in Counters.__annotations__})
        self.last_error: str | None = None
        self._said: dict[Hashable, None] = {}
        self._handlers: dict[str, list[Handler]] = {"synced": [], "error": []}
        self._failing: set[str] = set()
        self._failing_since = 0.0
        self._key_refused = False
        """The outage's first 401 has been logged."""

    def on(self, event: str, handler: Handler) -> None:
        if event not in self._handlers:
            raise ValueError(f"there is no event {event!r}; there are `synced` and `error`")
        self._handlers[event].append(handler)

    def emit(self, event: Event, *args: Any) -> None:
        if self.loop is None:
            self._emit(event, *args)
        else:
            call_in(self.loop, self._emit, event, *args)

    def _emit(self, event: Event, *args: Any) -> None:
        for handler in self._handlers[event]:
            try:
                result = handler(*args)
                if inspect.isawaitable(result):
                    asyncio.ensure_future(self._finish(event, result))
            except Exception as error:
                self._handler_failed(event, error)

    async def _finish(self, event: str, result: Awaitable[Any]) -> None:
        try:
            await result
        except Exception as error:
            self._handler_failed(event, error)

    def _handler_failed(self, event: str, error: Exception) -> None:
        # Not as an event: a failing error handler would call itself.
        if self._is_first(("handler", event)):
            write(logging.WARNING, f"a handler for the event {event!r} failed", error)

    # Log lines

    def info(self, message: str) -> None:
        write(logging.INFO, message)

    def warn(self, message: str, *, once: Hashable = None, trace: BaseException | None = None) -> None:
        """Logs a warning; with `once`, only the first of its kind."""
        self._say(logging.WARNING, message, once, trace)

    def error(self, message: str, *, once: Hashable = None, trace: BaseException | None = None) -> None:
        self._say(logging.ERROR, message, once, trace)

    def fault(self, where: str, error: BaseException) -> None:
        """A bug in this package, or an object that the library changed."""
        message = f"a bug in this package ({where}): {describe(error)}; please report it, the bot is not affected"
        self.error(message, once=("fault", where), trace=error)

    def _say(self, level: int, message: str, once: Hashable, trace: BaseException | None) -> None:
        if once is not None and not self._is_first(once):
            return
        self.last_error = message
        write(level, message, trace)
        self.emit("error", message)

    def _is_first(self, what: Hashable) -> bool:
        if what in self._said:
            return False
        if len(self._said) >= SAID:
            del self._said[next(iter(self._said))]
        self._said[what] = None
        return True

    def forget(self, what: Hashable) -> None:
        """Allows this to be logged again."""
        self._said.pop(what, None)

    # Outages

    @property
    def is_unreachable(self) -> bool:
        return bool(self._failing)

    def failed(self, kind: str, reason: str, now: float, key_refused: bool) -> None:
        """A request of this kind failed. Logs an outage's first failure and its first 401."""
        self.counters["failures"] += 1
        first = not self._failing
        self._failing.add(kind)
        if first:
            self._failing_since, self._key_refused = now, False
        if key_refused and not self._key_refused:
            # Logged on its own: a line about the connection would hide that the key is wrong.
            self._key_refused = True
            self.error("the service refuses the bot key; check COMPANION_BOT_KEY, or create a key with `bot-companion key create`. Retrying")
        elif first:
            self.warn(f"the service cannot be reached; retrying, the bot is not affected: {reason}")

    def succeeded(self, kind: str, now: float) -> bool:
        """A request of this kind was answered. True if that ends an outage; data and heartbeats share one."""
        if kind not in self._failing:
            return False
        self._failing.remove(kind)
        if self._failing:
            return False
        self.info(f"the service is back after {now - self._failing_since:.0f} s")
        return True


def describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
