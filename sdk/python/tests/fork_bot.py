"""`python fork_bot.py nextcord`: a bot of one of discord.py's forks, through the whole of it. A fork needs an environment of its own,
so `scripts/test-sdk-python` runs this when FORKS is set."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

from fake_discord import FakeDiscord
from feed_model import KEY, Feed, FeedServer
from fork_library import use_fake


async def until(condition: Callable[[], Any]) -> None:
    async def poll() -> None:
        while not condition():
            await asyncio.sleep(0.01)

    await asyncio.wait_for(poll(), 300)


async def main(name: str) -> None:
    guilds = [{"id": str(n << 22), "members": [{"user": {"id": "10"}, "roles": []}]} for n in (1, 2, 3, 4)]
    fake, server = FakeDiscord({"shards": 2, "guilds": guilds}), FeedServer(Feed())
    await fake.start()
    await server.start()
    os.environ.update(COMPANION_URL=server.url, COMPANION_BOT_KEY=KEY)
    library, commands = use_fake(name, fake)

    class Bot(commands.AutoShardedBot):  # type: ignore[misc]
        async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
            pass

    intents = library.Intents.none()
    intents.guilds = intents.members = True
    bot = Bot("!", intents=intents)
    loaded = bot.load_extension("bot_companion")
    if asyncio.iscoroutine(loaded):
        await loaded
    running = asyncio.ensure_future(bot.start(fake.world.token))
    await until(lambda: len(server.feed.guilds) == 4 or running.done())
    (beat,) = server.feed.heartbeats.values()
    assert len(beat["shards"]) == 2 and beat["shards"][0]["latency"] is not None, beat
    await fake.emit("GUILD_DELETE", {"id": str(1 << 22)})
    await fake.emit("GUILD_DELETE", {"id": str(2 << 22), "unavailable": True})
    await fake.emit("GUILD_MEMBER_REMOVE", {"guild_id": str(3 << 22), "user": {"id": "10"}})
    await until(lambda: any(event["type"] == "member_gone" for event in server.feed.events))
    assert set(server.feed.guilds) == {str(n << 22) for n in (2, 3, 4)}
    await fake.emit("GUILD_UPDATE", {"id": str(3 << 22), "name": "last words"})
    await until(lambda: bot.get_guild(3 << 22).name == "last words")
    await bot.close()
    await asyncio.gather(running, return_exceptions=True)
    assert server.feed.guilds[str(3 << 22)]["name"] == "last words"
    await server.stop()
    await fake.stop()
    print(f"{beat['library']}: ok")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
