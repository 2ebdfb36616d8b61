"""Changes: marks, turned into lines for a batch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing

from . import _lines
from ._callbacks import Callbacks, in_order
from ._guilds import Guilds
from ._marks import GuildMark, Mark, Marks, MemberMark
from ._snapshots import Shards


class Changes:
    def __init__(self, marks: Marks, shards: Shards, guilds: Guilds, callbacks: Callbacks) -> None:
        self._marks = marks
        self._shards = shards
        self._guilds = guilds
        self._callbacks = callbacks

    async def take(self, lines: int, size: int, others: bool) -> list[bytes]:
        """The lines of the first changes, as many as fit; those of at least one, unless the batch already has lines. Marks whose lines
        don't fit go back, so that a snapshot replaces them too."""
        self._marks.ripen(asyncio.get_running_loop().time())
        taken: list[Mark] = []
        fitting: list[bytes] = []
        done = 0

        def marks() -> Iterator[Mark]:
            while len(taken) < lines and (mark := self._marks.take()) is not None:
                taken.append(mark)
                yield mark

        try:
            async with aclosing(in_order(marks(), self._made_of, self._callbacks.at_once)) as making:
                async for made in making:
                    found = [self._member_line(made)] if isinstance(made, MemberMark) else made
                    length = sum(map(len, found))
                    if (fitting or others) and found and (len(fitting) + len(found) > lines or length > size):
                        break
                    fitting += found
                    size -= length
                    done += 1
        finally:
            self._marks.put_back(taken[done:], self._shards.hears)
        return fitting

    async def _made_of(self, mark: Mark) -> list[bytes] | MemberMark:
        if isinstance(mark, MemberMark):
            return mark
        if mark.what and not self._shards.is_here(mark.guild):
            mark = GuildMark(mark.guild, gone=mark.gone)
        return await self._guilds.event_lines(mark)

    def _member_line(self, mark: MemberMark) -> bytes:
        # Made only when it's its turn: the guild's own line before it may have brought other grants.
        granting = self._callbacks.granting(mark.guild) - {mark.guild}
        return _lines.member(mark.guild, mark.user, None if mark.roles is None else tuple(sorted(granting.intersection(mark.roles))))
