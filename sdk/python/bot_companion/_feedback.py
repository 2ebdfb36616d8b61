"""Feedback: the queue, and the outcome of each entry."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Generator, Iterable
from typing import Any

from ._limits import Limits
from ._lines import encode
from ._source import Json
from ._spool import Spool
from ._status import Status, call_in


CLOSED = "closed before it was sent"


class Delivery:
    """The outcome of a feedback entry. You can await it in any event loop, but don't have to. It never raises."""

    def __init__(self) -> None:
        self.delivered: bool | None = None
        """`None` while it is waiting."""
        self.reason: str | None = None
        """Why it was not delivered."""
        self._waiters: list[asyncio.Future[None]] = []
        self._lock = threading.Lock()

    def __await__(self) -> Generator[Any, None, Delivery]:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            waits = self.delivered is None
            if waits:
                self._waiters.append(waiter)
        if waits:
            yield from waiter
        return self

    def __repr__(self) -> str:
        state = {None: "waits", True: "delivered", False: f"not delivered: {self.reason}"}[self.delivered]
        return f"<Delivery {state}>"

    def settle(self, delivered: bool, reason: str | None = None) -> None:
        with self._lock:
            if self.delivered is not None:
                return
            self.reason, self.delivered = reason, delivered
            waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            call_in(waiter.get_loop(), self._wake, waiter)

    @staticmethod
    def _wake(waiter: asyncio.Future[None]) -> None:
        if not waiter.done():
            waiter.set_result(None)


class Entry:
    """A feedback line that is waiting or in a batch."""

    def __init__(self, line: bytes, spooled: int | None = None) -> None:
        self.line = line
        self.spooled = spooled
        """Its number in the spool."""
        self.delivery = Delivery()


class Feedback:
    """Entries can be added from any thread; everything else happens in the bot's event loop."""

    def __init__(self, limits: Limits, status: Status, spool: Spool | None = None) -> None:
        self._limits = limits
        self._status = status
        self._spool = spool
        self._lock = threading.Lock()
        self._is_stopped = False
        self._queue: deque[Entry] = deque()
        for number, line in spool.load() if spool is not None else ():
            self._queue.append(Entry(line, number))

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, value: Json) -> Delivery:
        try:
            entry = Entry(encode(value))
        except (TypeError, ValueError) as error:
            return self._not_sent(f"the entry is not valid: {error}", "feedback cannot be sent: an entry is not valid")
        if len(entry.line) > self._limits.line_bytes:
            return self._not_sent("the entry is too long", "feedback is too long to be sent")
        with self._lock:
            if self._is_stopped:
                entry.delivery.settle(False, CLOSED)
                return entry.delivery
            has_room = len(self._queue) < self._limits.feedback
            if has_room:
                if self._spool is not None:
                    entry.spooled = self._spool.add(entry.line)
                self._queue.append(entry)
        if not has_room:
            message = "too much feedback is waiting; further entries are refused until the service has accepted some"
            return self._not_sent("too much feedback is waiting", message)
        return entry.delivery

    def _not_sent(self, reason: str, message: str) -> Delivery:
        self._status.counters["feedback_dropped"] += 1
        self._status.warn(message, once=("feedback", message))
        delivery = Delivery()
        delivery.settle(False, reason)
        return delivery

    def fitting(self, lines: int, size: int) -> tuple[int, int]:
        """How many of the first entries fit, and their size in bytes. The first one always fits."""
        count = used = 0
        with self._lock:
            for entry in self._queue:
                if count >= lines or (count and used + len(entry.line) > size):
                    break
                count, used = count + 1, used + len(entry.line)
        return count, used

    def take(self, count: int) -> list[Entry]:
        return [self._queue.popleft() for _ in range(count)]

    def put_back(self, entries: Iterable[Entry]) -> None:
        """Puts them at the front, keeping their order."""
        self._queue.extendleft(reversed(list(entries)))

    def delivered(self, entry: Entry) -> None:
        self._status.counters["feedback_delivered"] += 1
        self._done(entry)
        entry.delivery.settle(True)

    def refused(self, entry: Entry, reason: str) -> None:
        self._status.counters["feedback_dropped"] += 1
        self._done(entry)
        entry.delivery.settle(False, reason)

    def _done(self, entry: Entry) -> None:
        if self._spool is not None and entry.spooled is not None:
            with self._lock:
                self._spool.remove(entry.spooled)

    def stop(self) -> None:
        """Accepts no more entries."""
        with self._lock:
            self._is_stopped = True

    def close(self, in_batch: Iterable[Entry]) -> None:
        """Marks everything undelivered as such. A spool keeps it for the next start."""
        self.stop()
        for entry in (*in_batch, *self._queue):
            kept = entry.spooled is not None
            entry.delivery.settle(False, f"{CLOSED}; it is in the spool, and will be sent after the next start" if kept else CLOSED)
            self._status.counters["feedback_dropped"] += not kept
        if self._spool is not None:
            self._spool.close()
