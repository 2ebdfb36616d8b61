"""`python fork_bot.py nextcord`: bots of one of discord.py's forks, through the whole of it. A fork needs its own environment,
which `tests/system/sdk-versions` makes. It works with discord.py, too."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

from fake_discord import FakeDiscord
from feed_model import KEY, Feed, FeedServer
from fork_library import use_fake

import bot_companion

G = {number: str(number << 22) for number in range(1, 9)}


async def until(condition: Callable[[], Any]) -> None:
    async def poll() -> None:
        while not condition():
            await asyncio.sleep(0.01)

    await asyncio.wait_for(poll(), 300)


def grants(guild: Any) -> Any:
    return {50: ["MOD"]}


class Stage:
    """One fork, with a fake Discord that has four guilds, and a service."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def __aenter__(self) -> Stage:
        members = [{"user": {"id": "10"}, "roles": ["50"]}, {"user": {"id": "11"}, "roles": []}]
        guilds = [{"id": G[number], "members": members, "roles": [{"id": "50"}]} for number in (1, 2, 3, 4)]
        self.fake, self.server = FakeDiscord({"shards": 2, "guilds": guilds}), FeedServer(Feed())
        self.feed = self.server.feed
        await self.fake.start()
        await self.server.start()
        os.environ.update(COMPANION_URL=self.server.url, COMPANION_BOT_KEY=KEY)
        self.library, self.commands = use_fake(self._name, self.fake)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.stop()
        await self.fake.stop()

    def make(self, kind: Any, **options: Any) -> Any:
        class Quick(kind):  # type: ignore[misc]
            async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
                pass

        intents = self.library.Intents.none()
        intents.guilds = intents.members = True
        prefix = ("!",) if "Bot" in kind.__name__ else ()
        return Quick(*prefix, intents=intents, guild_ready_timeout=0.5, **options)


async def as_an_extension(stage: Stage) -> str:
    """Loaded by name: events, and what is left at the end."""
    bot, feed, fake = stage.make(stage.commands.AutoShardedBot), stage.feed, stage.fake
    loaded = bot.load_extension("bot_companion")
    if asyncio.iscoroutine(loaded):
        await loaded
    running = asyncio.ensure_future(bot.start(fake.token))
    await until(lambda: len(feed.guilds) == 4 or running.done())
    # The first heartbeat may come before a shard has been acknowledged, or is there at all.
    await until(lambda: [shard["latency"] is not None for beat in feed.heartbeats.values() for shard in beat["shards"]] == [True, True])
    (beat,) = feed.heartbeats.values()
    await fake.emit("GUILD_DELETE", {"id": G[1]})
    await fake.emit("GUILD_DELETE", {"id": G[2], "unavailable": True})
    await fake.emit("GUILD_MEMBER_REMOVE", {"guild_id": G[3], "user": {"id": "11"}})
    await until(lambda: any(event["type"] == "member_gone" for event in feed.events))
    assert set(feed.guilds) == {G[2], G[3], G[4]}
    await fake.emit("GUILD_UPDATE", {"id": G[3], "name": "last words"})
    await until(lambda: bot.get_guild(3 << 22).name == "last words")
    await bot.close()
    await asyncio.gather(running, return_exceptions=True)
    assert feed.guilds[G[3]]["name"] == "last words"
    return str(beat["library"])


async def attached(stage: Stage, kind: Any) -> None:
    """Not chunked, so listed; members that the library never met; a new session in which a guild is missing; and nothing is left behind."""
    bot, feed, fake = stage.make(kind, chunk_guilds_at_startup=False), stage.feed, stage.fake
    parsers = dict(bot._connection.parsers)
    bot_companion.attach(bot, grants=grants, sigterm=False)
    running = asyncio.ensure_future(bot.start(fake.token))
    await until(lambda: running.done() or [feed.guilds.get(G[n], {}).get("staff") for n in (1, 2, 3, 4)] == [{"10": ["50"]}] * 4)
    assert all("staff" not in line for snapshot in feed.snapshots for line in snapshot), "it was not known yet"
    await fake.emit("GUILD_MEMBER_UPDATE", {"guild_id": G[1], "user": {"id": "11"}, "roles": ["50"]})
    await until(lambda: feed.guilds[G[1]]["staff"] == {"10": ["50"], "11": ["50"]})
    await fake.emit("GUILD_MEMBER_REMOVE", {"guild_id": G[1], "user": {"id": "10"}})
    await until(lambda: feed.guilds[G[1]]["staff"] == {"11": ["50"]})
    await fake.emit("GUILD_CREATE", {"id": G[5], "members": [], "roles": []})
    await until(lambda: G[5] in feed.guilds)
    fake.world.guilds.pop(2 << 22)
    await fake.invalid_session()
    await until(lambda: G[2] not in feed.guilds)
    assert set(feed.guilds) == {G[1], G[3], G[4], G[5]}
    await bot.close()
    await asyncio.gather(running, return_exceptions=True)
    assert bot._connection.parsers == parsers


async def main(name: str) -> None:
    async with Stage(name) as stage:
        library = await as_an_extension(stage)
    for kind in ("Client", "AutoShardedClient", "Bot", "AutoShardedBot"):
        async with Stage(name) as stage:
            await attached(stage, getattr(stage.commands, kind, None) or getattr(stage.library, kind))
    print(f"{library}: ok")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
