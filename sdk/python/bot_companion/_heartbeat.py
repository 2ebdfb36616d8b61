"""The heartbeat: the report on the process and its shards."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

from ._limits import Limits
from ._lines import encode
from ._source import Source
from ._status import Status
from ._transport import Channel, Failure, retry_delay


class Heartbeat:
    def __init__(
        self,
        source: Source,
        channel: Channel,
        instance: str,
        limits: Limits,
        status: Status,
        random: Callable[[], float],
        time: Callable[[], float],
    ) -> None:
        self._source = source
        self._channel = channel
        self._instance = instance
        self._limits = limits
        self._status = status
        self._random = random
        self._started_at = time()
        self._one_at_a_time = asyncio.Lock()
        self._last = 0.0
        self._introduction: object | None = None
        """Set once the service has a heartbeat from this process."""
        self._asked: object = object()
        self._has_reported = False
        self._shards_known = asyncio.Event()
        self._ready_since: float | None = None
        """When the first shard that hasn't been reported yet became ready."""
        self._wake = asyncio.Event()
        self.when_sent: Callable[[], None] = lambda: None
        """Called after each heartbeat that the service has acknowledged."""

    @property
    def is_introduced(self) -> bool:
        """The service has a heartbeat from this process, so it knows when the process started, which decides who owns a shard."""
        return self._introduction is self._asked

    def forget(self) -> None:
        """The service may have lost it. A heartbeat in progress doesn't count."""
        self._asked = object()

    def shards_known(self) -> None:
        """The library now knows its shards."""
        self._shards_known.set()

    def shard_ready(self) -> None:
        """A shard has become ready. Reports it soon, without waiting for the interval."""
        if self._ready_since is None:
            self._ready_since = asyncio.get_running_loop().time()
            self._wake.set()

    async def leave(self) -> None:
        """The last heartbeat: the service gives this process's shards to the next one at once."""
        if self._has_reported:
            await self.beat(leaving=True)

    async def beat(self, leaving: bool = False) -> None:
        async with self._one_at_a_time:
            asked = self._asked
            self._last = asyncio.get_running_loop().time()
            self._ready_since = None
            body = {
                "instance": self._instance,
                "started_at": self._started_at,
                "memory": memory(),
                "library": self._source.library(),
                "shard_count": self._source.shard_count(),
                "shards": self._source.shard_health(),
            }
            if leaving:
                body["leaving"] = True
            self._has_reported = True
            await self._channel.send("PUT", "/bot/heartbeat", [encode(body)])
            self._status.counters["heartbeats"] += 1
            self._introduction = asked
            self.when_sent()

    def _due(self) -> float:
        due = self._last + self._limits.heartbeat_interval
        return due if self._ready_since is None else min(due, self._ready_since + self._limits.gather_time)

    async def run(self) -> None:
        """One heartbeat per interval, forever."""
        loop = asyncio.get_running_loop()
        self._last = loop.time()
        failures = 0
        retry_at = 0.0
        while True:
            while (left := max(self._due(), retry_at) - loop.time()) > 0:
                self._wake.clear()
                waking = asyncio.ensure_future(self._wake.wait())
                try:
                    await asyncio.wait({waking}, timeout=left)
                finally:
                    waking.cancel()
            try:
                if not self._source.shard_health():
                    self._shards_known.clear()
                    await self._shards_known.wait()
                    continue
                await self.beat()
                failures = 0
            except Failure as failure:
                failures += 1
                retry_at = loop.time() + retry_delay(self._limits, self._random, failures, failure)
            except Exception as error:
                self._last, self._ready_since = loop.time(), None
                self._status.fault("heartbeat", error)


def memory() -> int:
    """Resident bytes of this process, not of its host."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        pass
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)
