"""Time, as the rest of the package sees it: handed in, so that a test can play an hour in a moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    def time(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds that never jump."""

    async def sleep(self, seconds: float) -> None:
        """Lets others run for so long."""


class SystemClock:
    def time(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def finish(task: asyncio.Future[Any]) -> None:
    """Cancels and waits until it is over, whatever its end."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def within(clock: Clock, seconds: float, work: Awaitable[T]) -> T:
    """The result of the work, or `TimeoutError` after so long."""
    task = asyncio.ensure_future(work)
    timer = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, timer}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise TimeoutError(f"not done in {seconds:g} s")
        return task.result()
    finally:
        await finish(timer)
        if not task.done():
            await finish(task)


async def wait(clock: Clock, event: asyncio.Event, seconds: float) -> bool:
    """Whether the event came before the time was over."""
    if event.is_set():
        return True
    try:
        await within(clock, seconds, event.wait())
    except TimeoutError:
        return False
    return True
