"""An event loop whose time only moves when told, so that a test plays an hour in a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

ROUNDS = 100_000
"""Rounds of the loop after which something turns in circles."""


class SimulatedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        return self._now

    def settle(self) -> None:
        """Runs everything that can happen without time passing. Nothing here waits for a socket or a thread."""
        for _ in range(ROUNDS):
            if not self._ready and self._next_timer() > self._now:  # type: ignore[attr-defined]
                return
            self.stop()
            self.run_forever()
        raise AssertionError("it never comes to rest")

    def advance(self, seconds: float) -> None:
        end = self._now + seconds
        self.settle()
        while (when := self._next_timer()) <= end:
            self._now = max(self._now, when)
            self.settle()
        self._now = end
        self.settle()

    def _next_timer(self) -> float:
        times = [timer.when() for timer in self._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
        return min(times, default=float("inf"))

    def run(self, work: Coroutine[Any, Any, T], at_most: float = 3600.0) -> T:
        """Runs a coroutine to its end, with time passing as fast as it can."""
        task = self.create_task(work)
        self.settle()
        end = self._now + at_most
        while not task.done():
            when = self._next_timer()
            assert when <= end, "it waits for something that never comes"
            self.advance(max(0.0, when - self._now))
        return task.result()

    def finish(self) -> None:
        """Ends what still runs."""
        for task in asyncio.all_tasks(self):
            task.cancel()
        self.settle()
        self.close()
