"""The facade: puts the parts together, and is the interface for the bot's own code."""

from __future__ import annotations

import asyncio
import random as _random
import threading
import time as _time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Literal, overload

from . import _lines
from ._budget import Budget
from ._callbacks import Callbacks
from ._events import EventName, Events
from ._feedback import Delivery, Feedback
from ._guilds import Guilds
from ._heartbeat import Heartbeat
from ._limits import Limits
from ._marks import WHOLE, Marks
from ._sender import Sender
from ._snapshots import Shards
from ._source import Json, Source
from ._spool import Spool
from ._staff import Staff
from ._status import State, Status, StatusReport, call_in, running_loop
from ._transport import Channel, Failure, Transport
from ._types import (
    FeedbackEntry,
    FlagCallback,
    GrantsCallback,
    HasId,
    Profile,
    SubscriptionsCallback,
    TeamCallback,
)


EVERY_GUILD: Any = object()


class Companion:
    """Reports on one bot. Created by `attach`. No method blocks or raises, and you can call each from any thread."""

    def __init__(
        self,
        source: Source,
        transport: Transport | None,
        *,
        url: str = "",
        grants: GrantsCallback | None = None,
        setup: FlagCallback | None = None,
        linked: FlagCallback | None = None,
        subscriptions: SubscriptionsCallback | None = None,
        team: TeamCallback | None = None,
        spool: str | None = None,
        limits: Limits | None = None,
        random: Callable[[], float] = _random.random,
        time: Callable[[], float] = _time.time,
    ) -> None:
        self.instance = uuid.uuid4().hex
        self._source = source
        self._transport = transport
        """`None` if the address or the key is missing, in which case nothing is sent."""
        self._url = _lines.without_secrets(url)
        self._limits = limits = limits or Limits()
        self._time = time
        self._status = status = Status()
        self._marks = marks = Marks(limits)
        self._shards = shards = Shards(source)
        self._callbacks = callbacks = Callbacks(limits, status, grants, setup, linked, subscriptions, team, time)
        self._budget = budget = Budget(source, limits)
        self._staff = staff = Staff(source, limits, status, budget, callbacks.granting, self._listed)
        keeps = spool is not None and transport is not None
        self._feedback = feedback = Feedback(limits, status, Spool(spool or "", limits, status) if keeps else None)
        self._channel = channel = Channel(transport or Nowhere(), self.instance, limits, status, time)
        self._heartbeat = heartbeat = Heartbeat(source, channel, self.instance, limits, status, random, time)
        guilds = Guilds(source, marks, callbacks, staff, limits, status)
        self._sender = sender = Sender(
            channel, heartbeat, shards, marks, guilds, callbacks, feedback, limits, status, random
        )
        self._events = Events(shards, marks, callbacks, staff, budget, heartbeat, sender)
        channel.when_back = sender.service_is_back
        heartbeat.when_sent = sender.check_replaced
        sender.when_connected = self._connected
        sender.when_refreshed = self._events.refresh
        guilds.when_missed = self._events.missed

        self._loop: asyncio.AbstractEventLoop | None = None
        """The bot's event loop, once it is known."""
        self._thread = threading.get_ident()
        self._tasks: list[asyncio.Task[None]] = []
        self._closing: asyncio.Task[None] | None = None
        self._is_closed = False
        self.detach: Callable[[], None] = lambda: None
        """Disconnects this from the library."""
        self.when_started: Callable[[], None] = lambda: None

    # What a bot calls

    @overload
    def changed(self) -> None: ...

    @overload
    def changed(self, guild: HasId | int | str | None) -> None: ...

    def changed(self, guild: Any = EVERY_GUILD) -> None:
        """Call this when `grants`, `setup` or `linked` would now answer differently for this guild (an object or an ID). Without an
        argument, all guilds are sent again. `None`, which `get_guild` returns for a guild that the bot isn't in, sends nothing and is logged."""
        if guild is EVERY_GUILD:
            self._call("changed", self._sender.resync)
            return
        try:
            identity = int(_lines.snowflake(guild, "the guild"))
        except _lines.Slip as slip:
            message = f"changed() was given no guild, and sends nothing: {slip}. Call changed() without an argument to send all guilds"
            self._status.warn(message, once="changed")
            return
        self._call("changed", lambda: self._events.mark(identity, WHOLE))

    def subscriptions_changed(self) -> None:
        """Call this when `subscriptions` would now return something else."""
        self._call("subscriptions_changed", self._sender.subscriptions_changed)

    def team_changed(self) -> None:
        """Call this when `team` would now return something else."""
        self._call("team_changed", self._sender.team_changed)

    @overload
    def feedback(self, entry: FeedbackEntry, /) -> Delivery: ...

    @overload
    def feedback(
        self, id: int | str, feedback: str, rating: int, submitter: Profile | HasId, timestamp: float | None = None
    ) -> Delivery: ...

    def feedback(
        self, id: Any, feedback: str = "", rating: int = 0, submitter: Any = None, timestamp: float | None = None
    ) -> Delivery:
        """Sends a rating of 1 to 5. Sending the same ID again replaces the entry. `submitter` is a user object or a mapping (`Profile`)."""
        if isinstance(id, Mapping):
            given: Mapping[str, Any] = id  # pyright: ignore[reportUnknownVariableType]
        else:
            given = {"id": id, "feedback": feedback, "rating": rating, "submitter": submitter, "timestamp": timestamp}
        return self._add_feedback(lambda: self._feedback_line(given))

    def feedback_gone(self, id: int | str) -> Delivery:
        """Withdraws a rating."""
        return self._add_feedback(lambda: {"type": "feedback_gone", "id": str(id)})

    def status(self) -> StatusReport:
        """The current state, for a bot's own metrics."""
        return {
            "state": self._state(),
            "instance": self.instance,
            "guilds": self._shards.guild_count(),
            "shards": len(self._source.own_shards()),
            "staff": self._staff.count(),
            "waiting": {
                "changes": self._sender.waiting_changes,
                "feedback": len(self._feedback),
                "batch": self._sender.waiting_batch,
            },
            "last_error": self._status.last_error,
            "counters": {**self._status.counters},
        }

    @overload
    def on(self, event: Literal["synced"], handler: Callable[[], Any]) -> None: ...

    @overload
    def on(self, event: Literal["error"], handler: Callable[[str], Any]) -> None: ...

    def on(self, event: str, handler: Callable[..., Any]) -> None:
        """Calls a function (or coroutine function) when everything has been sent, or with each warning and error that is logged."""
        self._status.on(event, handler)

    async def close(self) -> None:
        """Sends what is waiting, for at most five seconds, and stops."""
        loop = self._loop
        if loop is not None and loop is not asyncio.get_running_loop() and loop.is_running():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.close(), loop))
            return
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    # What the adapter calls

    @property
    def log(self) -> Status:
        return self._status

    def start(self) -> None:
        """Needs a running event loop. Further calls do nothing."""
        if not self._tasks and self._closing is None and self._transport is not None:
            self._loop = self._status.loop = asyncio.get_running_loop()
            parts = (self._sender.run(), self._heartbeat.run(), self._staff.run(), self._sender.refresh())
            self._tasks = [asyncio.ensure_future(part) for part in parts]
            self.when_started()

    def hear(self, event: EventName, *args: Any) -> None:
        """An event from the library, with the arguments of its method in `Events`."""
        guild = None if event in ("session", "ready", "limited") else args[0]
        self._hear(event, lambda: getattr(self._events, event)(*args), guild)

    def missed(self, what: str, guild: int | None, error: Exception) -> None:
        """An event of this guild, or of an unknown one, was lost to a bug."""
        self._status.fault(what, error)
        if self._closing is None and self._transport is not None:
            self._events.missed(guild)

    def is_ready(self, shard: int) -> bool:
        return self._shards.is_ready(shard)

    def _call(self, what: str, action: Callable[[], None]) -> None:
        """Does what the bot's own code asks for, in the bot's event loop."""
        if self._loop is not None:
            call_in(self._loop, self._hear, what, action)
        elif running_loop() is not None and threading.get_ident() == self._thread:
            self._hear(what, action)
        # Otherwise the bot hasn't started yet, and its first snapshot will include this.

    def _hear(self, what: str, action: Callable[[], None], guild: int | None = None) -> None:
        if self._closing is not None or self._transport is None:
            return
        try:
            self.start()
            action()
        except Exception as error:
            self.missed(what, guild, error)

    def _listed(self, guild: int) -> None:
        self._events.mark(guild, WHOLE)

    def _connected(self) -> None:
        guilds, shards = self._shards.guild_count(), len(self._source.own_shards())
        counts = f"{plural(guilds, 'guild')}, {plural(shards, 'shard')}, {self._staff.count()} staff"
        if not self._callbacks.has_grants:
            counts += " (no `grants` callback)"
        self._status.info(f"connected to {self._url} as {self._source.name()}: {counts}")

    def _state(self) -> State:
        if self._is_closed:
            return "closed"
        if self._status.is_unreachable:
            return "unreachable"
        if not self._shards.was_ready:
            return "starting"
        if self._shards.any_replaced:
            return "replaced"
        return "synced" if self._sender.is_synced() else "syncing"

    def _feedback_line(self, given: Mapping[str, Any]) -> Json:
        timestamp = given.get("timestamp")
        return {
            "type": "feedback",
            "id": str(given["id"]),
            "feedback": given["feedback"],
            "rating": given["rating"],
            "timestamp": self._time() // 1 if timestamp is None else timestamp,
            "submitter": _lines.user(given["submitter"]),
        }

    def _add_feedback(self, make: Callable[[], Json]) -> Delivery:
        refused = Delivery()
        if self._transport is None:
            refused.settle(False, "nothing is reported: the address or the key is missing or wrong")
            return refused
        try:
            delivery = self._feedback.add(make())
        except Exception as error:
            refused.settle(False, f"the entry is not valid: {error!r}")
            return refused
        if delivery.delivered is None:
            self._call("feedback", self._sender.change)
        return delivery

    async def _close(self) -> None:
        self.detach()
        self._feedback.stop()
        self._sender.close()
        try:
            if self._tasks:
                self._tasks.append(asyncio.ensure_future(self._finish()))
                await asyncio.wait({self._tasks[-1]}, timeout=self._limits.close_timeout)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            if self._sender.has_work() and self._transport is not None:
                self._status.warn("closed before everything was sent; all guilds are sent again after the next start")
            self._feedback.close(self._sender.entries_in_batch())
            self._is_closed = True
            try:
                await self._channel.close()
            except Exception as error:
                self._status.fault("close", error)


    async def _finish(self) -> None:
        """Sends what is waiting, then says goodbye, so that another process can take over at once."""
        sending, reporting = self._tasks[:2]
        await asyncio.wait({sending})
        reporting.cancel()
        await asyncio.wait({reporting})
        try:
            await self._heartbeat.leave()
        except Failure:
            pass  # without it, the service waits for 90 seconds


class Nowhere:
    """The transport for a companion without an address."""

    async def request(self, method: str, path: str, headers: Mapping[str, str], lines: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        pass


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
