"""Random histories in simulated time: whatever happens on the way, the service ends up with the truth."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from feed_model import Feed
from scenario import World
from simulation import SimulatedLoop

from bot_companion import GuildPermission
from bot_companion._companion import Companion
from bot_companion._events import EventName
from bot_companion._limits import Limits
from bot_companion._transport import Answer, TransportError


class ModelTransport:
    """Asks the model of the service directly. The model can be unreachable, or its answer can get lost."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.reachable = True
        self.lose_answers = 0

    async def request(self, method: str, path: str, headers: Mapping[str, str], lines: AsyncIterator[bytes]) -> Answer:
        body = b"".join([line async for line in lines])
        if not self.reachable:
            raise TransportError("unreachable")
        status, data, _ = self.feed.handle(method, path, headers, body)
        if self.lose_answers:
            self.lose_answers -= 1
            raise TransportError("the answer was lost")
        return Answer(status, data)

    async def close(self) -> None:
        pass


class History:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.loop = SimulatedLoop()
        guilds = [{"id": str(number << 22), "cached": self.rng.random() < 0.5} for number in range(1, 7)]
        self.world = World({"shard_count": 2, "shards": [0, 1], "guilds": guilds})
        self.feed = Feed()
        self.transport = ModelTransport(self.feed)
        self.grants: dict[str, list[GuildPermission]] = {"50": ["MOD"]}
        limits = Limits(changes=12, batch_lines=3, refresh_interval=60.0)
        self.companion = Companion(
            self.world, self.transport, limits=limits, random=self.rng.random, grants=lambda guild: self.grants
        )

    def hear(self, event: EventName, *args: Any) -> None:
        self.loop.call_soon(self.companion.hear, event, *args)
        self.loop.settle()

    def session(self, shard: int) -> None:
        self.hear("session", shard, [guild for guild in self.world.guilds if (guild >> 22) % 2 == shard])
        self.hear("ready", shard)

    def step(self) -> None:
        rng, world = self.rng, self.world
        guild = rng.choice(list(world.guilds))
        choice = rng.randrange(12)
        if choice == 0 and len(world.guilds) > 1:
            del world.guilds[guild]
            if rng.random() < 0.7:
                self.hear("guild_gone", guild)
            else:
                self.session((guild >> 22) % 2)  # the bot left it while no session was open
        elif choice == 1:
            joined = rng.randrange(1, 9) << 22
            if joined not in world.guilds:
                world.put({"id": str(joined), "cached": rng.random() < 0.5})
                self.hear("guild_here", joined)
        elif choice in (2, 3):
            world.guilds[guild]["name"] = f"name {rng.random()}"
            self.hear("guild_changed", guild)
        elif choice in (4, 5, 6):
            self.member(guild)
        elif choice == 7:
            self.transport.reachable = not self.transport.reachable
        elif choice == 8:
            self.transport.lose_answers = rng.randrange(3)
        elif choice == 9:
            self.session(rng.randrange(2))
        elif choice == 10:
            world.set_listing(rng.choice(["ok", "fail", "hang"]), None)
        elif rng.random() < 0.3:
            self.feed.forget()
        self.loop.advance(rng.choice((0, 0, 0.25, 1, 20)))

    def member(self, guild: int) -> None:
        people = self.world.guilds[guild]["people"] = dict(self.world.guilds[guild]["people"])
        user = self.rng.randrange(20, 25)
        if people.pop(str(user), None) is not None and self.rng.random() < 0.5:
            self.hear("member_gone", guild, user)
            return
        roles = self.rng.choice(([], [50], [50, 60], [60]))
        people[str(user)] = roles
        self.hear("member", guild, user, roles)

    def settle(self) -> None:
        self.transport.reachable, self.transport.lose_answers = True, 0
        for guild in self.world.guilds:
            # If the service lost everything and then got one shard's snapshot before a probe, it only notices that the other shard is
            # missing when an event about it arrives.
            self.hear("guild_changed", guild)
        self.world.set_listing("ok", None)
        self.loop.advance(1500)

    def check(self) -> None:
        truth = {
            str(guild): (found["name"], {user for user, roles in found["people"].items() if 50 in roles})
            for guild, found in self.world.guilds.items()
        }
        assert {key: (value["name"], set(value["staff"])) for key, value in self.feed.guilds.items()} == truth
        assert self.companion.status()["state"] == "synced"


@pytest.mark.parametrize("seed", range(40))
def test_a_random_history_ends_in_the_truth(seed: int) -> None:
    history = History(seed)
    for shard in (0, 1):
        history.session(shard)
    for _ in range(100):
        history.step()
    history.settle()
    history.check()
    history.loop.run(history.companion.close())
    history.loop.finish()


def test_an_hour_without_the_service() -> None:
    history = History(0)
    for shard in (0, 1):
        history.session(shard)
    history.transport.reachable = False
    before = history.companion.status()["counters"]["requests"]
    most = 0
    for minute in range(60):
        for user in range(40):
            history.hear("member_gone", (1 + user % 6) << 22, minute * 100 + user)
            waiting = history.companion.status()["waiting"]
            most = max(most, waiting["changes"] + waiting["batch"])
        history.loop.advance(60)
    assert most <= 12 + 3
    assert history.companion.status()["counters"]["requests"] - before < 400, "it backs off"
    history.settle()
    history.check()
    history.loop.run(history.companion.close())
    history.loop.finish()
