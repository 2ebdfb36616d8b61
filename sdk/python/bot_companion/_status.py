"""What a developer sees: log lines, counters, `status()`, events."""

from __future__ import annotations

import inspect
import logging
from asyncio import ensure_future
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Literal, TypedDict, cast

log = logging.getLogger("bot_companion")

State = Literal["starting", "syncing", "synced", "unreachable", "closed"]
Event = Literal["synced", "error"]
Handler = Callable[..., Any]

SAID = 10_000
"""How many things that were said once are remembered."""


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


class Status:
    def __init__(self) -> None:
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
        for handler in self._handlers[event]:
            try:
                result = handler(*args)
                if inspect.isawaitable(result):
                    ensure_future(self._finish(event, result))
            except Exception:
                self._handler_failed(event)

    async def _finish(self, event: str, result: Awaitable[Any]) -> None:
        try:
            await result
        except Exception:
            self._handler_failed(event)

    def _handler_failed(self, event: str) -> None:
        # Not as an event: a handler of errors that fails would call itself.
        if self._is_first(("handler", event)):
            log.warning("a handler of the event %r failed", event, exc_info=True)

    # Log lines

    def info(self, message: str) -> None:
        log.info("%s", message)

    def warn(self, message: str, *, once: Hashable = None, trace: BaseException | None = None) -> None:
        """Logs a warning; with `once` only the first of its kind."""
        self._say(logging.WARNING, message, once, trace)

    def error(self, message: str, *, once: Hashable = None, trace: BaseException | None = None) -> None:
        self._say(logging.ERROR, message, once, trace)

    def fault(self, where: str, error: BaseException) -> None:
        """A mistake of this package, or an object that the library changed."""
        message = f"a fault in this package ({where}): {describe(error)}; please report it, the bot is not affected"
        self.error(message, once=("fault", where), trace=error)

    def _say(self, level: int, message: str, once: Hashable, trace: BaseException | None) -> None:
        if once is not None and not self._is_first(once):
            return
        self.last_error = message
        log.log(level, "%s", message, exc_info=trace)
        self.emit("error", message)

    def _is_first(self, what: Hashable) -> bool:
        if what in self._said:
            return False
        if len(self._said) >= SAID:
            del self._said[next(iter(self._said))]
        self._said[what] = None
        return True

    def forget(self, what: Hashable) -> None:
        """Lets this be said again."""
        self._said.pop(what, None)

    # Outages

    @property
    def is_unreachable(self) -> bool:
        return bool(self._failing)

    def failed(self, kind: str, reason: str, now: float, key_refused: bool) -> None:
        """A request of this kind failed. Of an outage its first failure is logged, and its first 401."""
        self.counters["failures"] += 1
        first = not self._failing
        self._failing.add(kind)
        if first:
            self._failing_since, self._key_refused = now, False
        if key_refused and not self._key_refused:
            # Nobody mends a key while the log speaks of a connection.
            self._key_refused = True
            self.error(f"the service refuses the bot key (COMPANION_BOT_KEY): {reason}; make one with `bot-companion key create`")
        elif first:
            self.warn(f"the service cannot be reached: {reason}; trying again, the bot is not affected")

    def succeeded(self, kind: str, now: float) -> bool:
        """A request of this kind was answered. True if that ends an outage, which is one of the data and the heartbeats together."""
        if kind not in self._failing:
            return False
        self._failing.remove(kind)
        if self._failing:
            return False
        self.info(f"the service is back after {now - self._failing_since:.0f} s")
        return True


def describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
