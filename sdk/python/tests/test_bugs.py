"""What happens after a bug in the SDK or in the bot library."""

from __future__ import annotations

import asyncio
from typing import get_args

from scenario import Json, World
from simulation import SimulatedLoop
from test_callbacks import Acknowledging

from bot_companion._companion import Companion
from bot_companion._events import EventName, Events


def test_an_event_of_an_unknown_guild_sends_every_shard_again() -> None:
    loop = SimulatedLoop()

    async def test() -> None:
        guilds = [{"id": str(number << 22), "people": {"20": ["50"]}, "cached": False} for number in (1, 2)]
        world = World({"shard_count": 2, "shards": [0, 1], "guilds": guilds})
        transport = Acknowledging()
        companion = Companion(world, transport, grants=lambda guild: {50: ["MOD"]})
        for shard in (0, 1):
            companion.hear("ready", shard)
        await asyncio.sleep(5)
        listings = companion.status()["counters"]["listings"]
        transport.taken.clear()
        companion.missed("event GUILD_UPDATE", None, RuntimeError("it has no id"))
        await asyncio.sleep(5)
        sent = [request.name for request in transport.taken if request.name.startswith("PUT /bot/shards")]
        assert sent == ["PUT /bot/shards/2/0/guilds", "PUT /bot/shards/2/1/guilds"]
        # What was known about the members counts no more, so they are listed again.
        assert companion.status()["counters"]["listings"] == listings + 2
        await companion.close()

    loop.run(test())
    loop.finish()


def test_every_event_has_its_method() -> None:
    assert all(callable(getattr(Events, name, None)) for name in get_args(EventName))


def test_heartbeats_continue_after_a_bug() -> None:
    loop = SimulatedLoop()

    class Broken(World):
        failures = 1

        def shard_health(self) -> list[Json]:
            if loop.time() > 10 and self.failures:
                self.failures -= 1
                raise RuntimeError("the library has no latency")
            return super().shard_health()

    async def test() -> None:
        companion = Companion(Broken({"guilds": []}), Acknowledging())
        companion.hear("ready", 0)
        await asyncio.sleep(10)
        before = companion.status()["counters"]["heartbeats"]
        # The heartbeat after 15 s fails, those after 30 s and 45 s don't.
        await asyncio.sleep(40)
        assert companion.status()["counters"]["heartbeats"] == before + 2
        await companion.close()

    loop.run(test())
    loop.finish()
