"""Faults on command."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import Any

from .record import matches
from .shapes import Json

# The possible faults by place. A request ("GET /guilds/{id}/members", or "rest" for all) can have the faults of "rest".
PLACES: dict[str, frozenset[str]] = {
    "rest": frozenset({"status", "hang", "cut", "truncate", "slow", "rate_limit"}),
    "gateway": frozenset({"status", "hang", "cut", "slow"}),
    "identify": frozenset({"hang", "cut", "slow", "close", "invalid_session"}),
    "resume": frozenset({"hang", "cut", "slow", "close", "invalid_session"}),
    "heartbeats": frozenset({"hang", "cut", "close"}),
    "guilds": frozenset({"hang", "drop", "slow"}),
    "chunks": frozenset({"hang", "drop_chunks", "partial_chunks", "slow", "cut", "close", "rate_limit"}),
    "events": frozenset({"drop"}),
}


@dataclass
class Fault:
    """One fault. It strikes `times` times, or until it is cleared."""

    where: str
    do: str
    times: int | None = None
    # Only in this guild, on this shard, for this event.
    guild: str | None = None
    shard: int | None = None
    event: str | None = None
    # status: the answer's status, and its body (text, or an object that becomes JSON).
    status: int = 500
    body: Any = None
    # slow: the delay before the answer.
    seconds: float = 1.0
    # rate_limit: what the answer asks for, and who is limited: "user", "shared", "global", or "edge" (no JSON).
    retry_after: float = 1.0
    scope: str = "user"
    # close: the close code; invalid_session: whether it may be resumed; partial_chunks: how many chunks come.
    code: int = 4000
    resumable: bool = False
    keep: int = 1
    id: int = 0
    hits: int = 0
    cleared: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    def __post_init__(self) -> None:
        place = "rest" if "/" in self.where else self.where
        if place not in PLACES:
            raise ValueError(f"no fault can be at {self.where!r}: name a request such as 'GET /users/@me', or one of {', '.join(PLACES)}")
        if self.do not in PLACES[place]:
            raise ValueError(f"the fault {self.do!r} is not possible at {self.where!r}: choose from {', '.join(sorted(PLACES[place]))}")
        if self.guild is not None:
            self.guild = str(self.guild)

    def strikes(self, place: str, guild: str | None, shard: int | None, event: str | None) -> bool:
        return (
            matches(self.where, place)
            and self.guild in (None, guild)
            and self.shard in (None, shard)
            and self.event in (None, event)
            and (self.times is None or self.hits < self.times)
        )

    async def wait(self) -> None:
        """Waits until the fault is cleared."""
        await self.cleared.wait()

    def show(self) -> Json:
        left = None if self.times is None else self.times - self.hits
        shown = {key: value for key, value in vars(self).items() if key != "cleared" and value is not None}
        return {**shown, "left": left}


class Faults:
    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._faults: list[Fault] = []

    def add(self, where: str, do: str, **options: Any) -> Fault:
        known = set(Fault.__dataclass_fields__) - {"id", "hits", "cleared"}
        unknown = set(options) - known
        if unknown:
            raise ValueError(f"a fault has no {', '.join(sorted(unknown))}; it has {', '.join(sorted(known))}")
        fault = Fault(where, do, **options)
        fault.id = next(self._ids)
        self._faults.append(fault)
        return fault

    def strike(self, place: str, guild: object = None, shard: int | None = None, event: str | None = None) -> Fault | None:
        """The first fault that is due here; it counts as a hit."""
        for fault in self._faults:
            if fault.strikes(place, None if guild is None else str(guild), shard, event):
                fault.hits += 1
                return fault
        return None

    def clear(self, fault: Fault | None = None) -> int:
        """Removes one fault, or all; what hung because of it goes on."""
        removed = [one for one in self._faults if fault is None or one is fault]
        self._faults = [one for one in self._faults if one not in removed]
        for one in removed:
            one.cleared.set()
        return len(removed)

    def show(self) -> list[Json]:
        return [fault.show() for fault in self._faults]
