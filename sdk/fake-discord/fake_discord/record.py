"""The record of what the bot did, so that a test waits for a fact and not for a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Any

from .shapes import Json

# Only a failing test waits this long.
PATIENCE = 300.0


def matches(pattern: str, what: str) -> bool:
    """Whether a pattern like `GET /guilds/{id}/members`, `/guilds/{id}`, `IDENTIFY` or `rest` (any request) names this.
    A part in braces, or a `*`, stands for anything; without a method any method is meant."""
    method, slash, path = what.partition(" /")
    if pattern.lower() == "rest":
        return bool(slash)
    if "/" not in pattern or not slash:
        return pattern.upper() == what.upper()
    wanted_method, _, wanted_path = pattern.partition("/")
    if wanted_method.strip().upper() not in ("", "*", method.upper()):
        return False
    wanted, parts = wanted_path.strip("/").split("/"), path.strip("/").split("/")
    return len(wanted) == len(parts) and all(
        want == "*" or (want.startswith("{") and want.endswith("}")) or want == part for want, part in zip(wanted, parts, strict=True)
    )


class Record:
    """Numbered entries; the oldest are dropped."""

    def __init__(self, size: int = 10_000) -> None:
        self._entries: deque[Json] = deque(maxlen=size)
        self.next = 1
        self._grown = asyncio.Condition()
        self._notifying: asyncio.Task[None] | None = None

    def add(self, what: str, **fields: Any) -> Json:
        """Adds an entry; the caller may complete it later, with the status of a request for instance."""
        entry = {"number": self.next, "what": what, **fields}
        self.next += 1
        self._entries.append(entry)
        if self._notifying is None or self._notifying.done():
            self._notifying = asyncio.get_running_loop().create_task(self._notify())
        return entry

    async def _notify(self) -> None:
        async with self._grown:
            self._grown.notify_all()

    def entries(self, pattern: str | None = None, since: int = 0, **fields: Any) -> Iterator[Json]:
        """What was recorded from the number `since` on; `fields` are compared as text, so that ids may be numbers."""
        wanted = {key: str(value) for key, value in fields.items() if value is not None}
        for entry in self._entries:
            if entry["number"] < since or (pattern is not None and not matches(pattern, entry["what"])):
                continue
            if all(str(entry.get(key)) == value for key, value in wanted.items()):
                yield entry

    async def until(self, pattern: str, count: int = 1, since: int = 0, timeout: float = PATIENCE, **fields: Any) -> list[Json]:
        """Waits until so many matching entries are there, and returns them."""
        found: list[Json] = []

        def enough() -> bool:
            found[:] = self.entries(pattern, since, **fields)
            return len(found) >= count

        try:
            async with self._grown:
                await asyncio.wait_for(self._grown.wait_for(enough), timeout)
        except asyncio.TimeoutError:
            raise TimeoutError(f"{pattern} happened {len(found)} times in {timeout:g} s, not {count}") from None
        return found
