"""Snapshots: which shards to send as a whole, and the lines of a snapshot."""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import aclosing
from enum import Enum
from typing import Any

from . import _lines
from ._callbacks import Pace, in_order
from ._marks import MemberMark
from ._source import Source


class ShardState(Enum):
    """A shard in none of these states is unknown: the library hasn't reported yet that all its guilds have arrived."""

    STALE = "to be sent whole"
    SENDING = "its snapshot is under way"
    SENT = "sent"
    REPLACED = "belongs to a process that started later"


class Shards:
    """The process's shards, and their guilds."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._count = 0
        self._states: dict[int, ShardState] = {}
        self._was_ready = False
        self._named: dict[int, set[int]] = {}
        """The guilds that Discord listed for a shard. A library may still have others, which the bot left while offline."""

    @property
    def count(self) -> int:
        """How many shards the bot has, in all its processes."""
        return max(1, self._source.shard_count())

    def shard_of(self, guild: int) -> int:
        return (guild >> 22) % self.count

    def is_of(self, shard: int) -> Callable[[int], bool]:
        count = self.count
        return lambda guild: (guild >> 22) % count == shard

    # What the library says

    def count_changed(self) -> bool:
        """Whether the number of shards has changed, in which case nothing is known about any shard."""
        if self.count == self._count:
            return False
        is_first, self._count = self._count == 0, self.count
        if not is_first:
            self._states.clear()
            self._named.clear()
        return not is_first

    def session(self, shard: int, guilds: Iterable[int] | None) -> None:
        self._states.pop(shard, None)
        if guilds is None:
            self._named.pop(shard, None)
        else:
            self._named[shard] = set(guilds)

    def ready(self, shard: int) -> None:
        self._was_ready = True
        self._states[shard] = ShardState.STALE

    def guild_here(self, guild: int) -> None:
        self._named.get(self.shard_of(guild), set()).add(guild)

    def guild_gone(self, guild: int) -> None:
        self._named.get(self.shard_of(guild), set()).discard(guild)

    # What to send

    def hears(self, guild: int) -> bool:
        """Whether to mark a change of this guild: not if a snapshot will include it, or if the shard belongs to another process."""
        return self._states.get(self.shard_of(guild)) in (ShardState.SENDING, ShardState.SENT)

    def is_own(self, guild: int) -> bool:
        return self.shard_of(guild) in self._source.own_shards()

    def is_ready(self, shard: int) -> bool:
        return shard in self._states

    @property
    def was_ready(self) -> bool:
        """Whether any shard has ever been ready, even if none is now."""
        return self._was_ready

    @property
    def any_ready(self) -> bool:
        return bool(self._states)

    def all_sent(self) -> bool:
        own = self._source.own_shards()
        return bool(own) and all(self._states.get(shard) is ShardState.SENT for shard in own)

    def lowest_stale(self) -> int | None:
        return min((shard for shard, state in self._states.items() if state is ShardState.STALE), default=None)

    def make_stale(self, concerned: Callable[[int], bool] = lambda shard: True) -> None:
        for shard in self._states:
            if concerned(shard):
                self._states[shard] = ShardState.STALE

    @property
    def any_replaced(self) -> bool:
        return ShardState.REPLACED in self._states.values()

    def belongs_to_another(self, shard: int) -> bool:
        return self._states.get(shard) is ShardState.REPLACED

    def replaced(self, shard: int) -> None:
        if shard in self._states:
            self._states[shard] = ShardState.REPLACED

    def free(self, shard: int) -> bool:
        """Whether its snapshot has to be sent now, because it holds another process's data and that one is gone."""
        is_lost = self._states.get(shard) in (ShardState.SENT, ShardState.REPLACED)
        if is_lost:
            self._states[shard] = ShardState.STALE
        return is_lost

    def begin(self, shard: int) -> None:
        self._states[shard] = ShardState.SENDING

    def is_sending(self, shard: int) -> bool:
        """False if it became stale or unknown meanwhile."""
        return self._states.get(shard) is ShardState.SENDING

    def end(self, shard: int, sent: bool) -> None:
        if self.is_sending(shard):
            self._states[shard] = ShardState.SENT if sent else ShardState.STALE

    def guilds(self, shard: int) -> list[int]:
        """The shard's guilds: those in the library, in its order, then those that it should have."""
        named, count = self._named.get(shard), self.count
        known = [guild for guild in self._source.guild_ids() if (guild >> 22) % count == shard]
        if named is None:
            return known
        listed = [guild for guild in known if guild in named]
        return listed + sorted(named.difference(listed))

    def is_here(self, guild: int) -> bool:
        named = self._named.get(self.shard_of(guild))
        return named is None or guild in named

    def guild_count(self) -> int:
        """How many guilds the process's shards have, as far as the library knows."""
        count, own = self.count, set(self._source.own_shards())
        unnamed = own.difference(self._named)
        listed = sum((guild >> 22) % count in unnamed for guild in self._source.guild_ids()) if unnamed else 0
        return listed + sum(len(self._named[shard]) for shard in own.intersection(self._named))


class Refused:
    """Guilds that the service refuses. Until they change, they are sent as unavailable or, if even that is refused, left out."""

    def __init__(self) -> None:
        self._guilds: dict[int, int] = {}

    def add(self, guild: int) -> bool:
        """True if it's new and so worth a log line."""
        times = self._guilds[guild] = self._guilds.get(guild, 0) + 1
        return times == 1

    def times(self, guild: int) -> int:
        return self._guilds.get(guild, 0)

    def changed(self, guild: int) -> None:
        self._guilds.pop(guild, None)


class Snapshot:
    """The lines of one snapshot, built while they are sent."""

    def __init__(
        self,
        shard: int,
        shards: Shards,
        refused: Refused,
        describe: Callable[[int], Coroutine[Any, Any, tuple[bytes, list[MemberMark]]]],
        at_once: int,
        slice: float,
    ) -> None:
        self._shards = shards
        self._refused = refused
        self._describe = describe
        self._at_once = at_once
        self._slice = slice
        self._guilds = [guild for guild in shards.guilds(shard) if refused.times(guild) < 2]
        self.sent = array("Q")
        """The guilds of the lines."""
        self.covered: list[MemberMark] = []
        """Marks that are unnecessary once the snapshot has arrived, because its staff includes them."""

    async def lines(self) -> AsyncIterator[bytes]:
        pace = Pace(self._slice)
        async with aclosing(in_order(self._guilds, self._line, self._at_once)) as made:
            async for guild, line in made:
                if line is not None:
                    self.sent.append(guild)
                    yield line
                await pace.breathe()
        yield _lines.encode({"end": len(self.sent)})

    async def _line(self, guild: int) -> tuple[int, bytes | None]:
        if self._refused.times(guild):
            return guild, _lines.unavailable(guild)
        if not self._shards.is_here(guild):
            return guild, None  # the bot left it while the snapshot was being built
        line, covered = await self._describe(guild)
        self.covered += covered
        return guild, line
