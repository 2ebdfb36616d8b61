"""A clock that only moves when told, and a bot without a library."""

from __future__ import annotations

import asyncio
import heapq
from types import SimpleNamespace
from typing import Any


class SimulatedClock:
    def __init__(self) -> None:
        self.now = 1000.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0
        self.slept: list[float] = []

    def time(self) -> float:
        return 1_700_000_000 + self.now

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._count += 1
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, self._count, future))
        await future

    @staticmethod
    async def settle() -> None:
        """Nothing in these tests waits for a socket, so so many turns of the loop are enough for all that can happen now."""
        for _ in range(60):
            await asyncio.sleep(0)

    async def advance(self, seconds: float) -> None:
        end = self.now + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            when, _, future = heapq.heappop(self._sleepers)
            self.now = max(self.now, when)
            if not future.done():
                future.set_result(None)
                await self.settle()
        self.now = end
        await self.settle()


class FakeMember(SimpleNamespace):
    def get_role(self, role: int) -> Any:
        return next((held for held in self.roles if held.id == role), None)


class FakeGuild(SimpleNamespace):
    pass


class FakeBot:
    """Has what discord.py's `Bot` has, as far as the package looks."""

    def __init__(self, guilds: int = 3, shard_count: int | None = None, shard_id: int | None = None) -> None:
        self.shard_count = shard_count
        self.shard_id = shard_id
        self.latency = float("nan")
        self.user = SimpleNamespace(id=900)
        self._guilds: dict[int, FakeGuild] = {}
        for number in range(1, guilds + 1):
            self.add(number << 22)

    def add(self, identity: int, **fields: Any) -> FakeGuild:
        known = {"name": f"guild {identity}", "icon": None, "owner_id": 10, "member_count": 5, "unavailable": False}
        guild = FakeGuild(id=identity, members=[], **{**known, **fields})
        self._guilds[identity] = guild
        return guild

    def remove(self, identity: int) -> FakeGuild:
        return self._guilds.pop(identity)

    @property
    def guilds(self) -> list[FakeGuild]:
        return list(self._guilds.values())

    def get_guild(self, identity: int) -> FakeGuild | None:
        return self._guilds.get(identity)

    def is_ready(self) -> bool:
        return False

    @staticmethod
    def member(guild: FakeGuild, identity: int, *roles: int) -> FakeMember:
        return FakeMember(id=identity, guild=guild, roles=[SimpleNamespace(id=role) for role in (guild.id, *roles)])
