"""The budget: how often a page of members may be requested. A process's listings share it, to leave room for the bot's own requests."""

from __future__ import annotations

import asyncio
import math

from ._limits import Limits
from ._source import Source

SLOWEST = 16
"""However often Discord rate limits the bot, the rate never falls below this fraction."""
RECOVERY = 60.0
"""Seconds after the end of a rate limit until pages are requested at the normal rate again."""


class Budget:
    def __init__(self, source: Source, limits: Limits) -> None:
        self._source = source
        self._limits = limits
        self._next = 0.0
        """When the next page may start."""
        self._limited_until = 0.0
        self._slowdown = 1
        self.times_limited = 0
        """How often Discord has rate limited the bot."""

    @property
    def slowdown(self) -> int:
        """By what factor the time between pages has grown."""
        is_over = asyncio.get_running_loop().time() >= self._limited_until + RECOVERY
        return 1 if is_over else self._slowdown

    def _interval(self) -> float:
        """Seconds from the start of one page to the start of the next."""
        # The bot's other processes share its limit.
        shards = max(1, self._source.shard_count())
        own = min(max(1, len(self._source.own_shards())), shards)
        return self.slowdown * shards / (own * self._limits.listing_rate)

    async def turn(self) -> None:
        """Waits until the next page may start, and counts it as started."""
        loop = asyncio.get_running_loop()
        # Another limit in the meantime extends the wait.
        while (left := self._next - loop.time()) > 0:
            await asyncio.sleep(left)
        self._next = loop.time() + self._interval()

    def limited(self, seconds: float) -> None:
        """Discord answered one of the bot's requests with 429 and asked to wait this long."""
        now = asyncio.get_running_loop().time()
        if not math.isfinite(seconds):
            seconds = self._limits.longest_retry_after
        until = now + min(max(0.0, seconds), self._limits.longest_retry_after)
        self.times_limited += 1
        if now >= self._limited_until:
            self._slowdown = min(SLOWEST, 2 * self.slowdown)
        self._limited_until = max(self._limited_until, until)
        self._next = max(self._next, until)
