"""Changes: marks, turned into lines for a batch."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import aclosing

from . import _lines
from ._callbacks import in_order
from ._guilds import Guilds
from ._marks import GuildMark, Mark, Marks
from ._snapshots import Shards


class Changes:
    def __init__(self, marks: Marks, shards: Shards, guilds: Guilds, at_once: int) -> None:
        self._marks = marks
        self._shards = shards
        self._guilds = guilds
        self._at_once = at_once
        self._made: deque[bytes] = deque()
        """Lines that did not fit into the last batch."""
        self._cleared = 0

    def __len__(self) -> int:
        """How many lines have been built and are waiting."""
        return len(self._made)

    def clear(self) -> None:
        """Drops all built lines, including those being built."""
        self._made.clear()
        self._cleared += 1

    async def take(self, lines: int, size: int, others: bool) -> list[bytes]:
        """The lines of the first changes, as many as fit; at least one, unless the batch already has lines."""
        await self._make(lines, size)
        fitting: list[bytes] = []
        while self._made and len(fitting) < lines:
            if (fitting or others) and len(self._made[0]) > size:
                break
            size -= len(self._made[0])
            fitting.append(self._made.popleft())
        return fitting

    async def _make(self, lines: int, size: int) -> None:
        self._marks.ripen(asyncio.get_running_loop().time())
        started, made_bytes = self._cleared, sum(map(len, self._made))

        def marks() -> Iterator[Mark]:
            while len(self._made) < lines and made_bytes < size and (mark := self._marks.take()) is not None:
                yield mark

        async with aclosing(in_order(marks(), self._lines_of, self._at_once)) as making:
            async for made in making:
                if started != self._cleared:
                    return
                self._made.extend(made)
                made_bytes += sum(map(len, made))

    async def _lines_of(self, mark: Mark) -> list[bytes]:
        if isinstance(mark, GuildMark):
            if mark.what and not self._shards.is_here(mark.guild):
                mark = GuildMark(mark.guild, gone=mark.gone)
            return await self._guilds.event_lines(mark)
        return [_lines.member(mark.guild, mark.user, mark.roles)]
