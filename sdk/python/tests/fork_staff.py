"""`python fork_staff.py nextcord`: staff, rate limits, feedback and the end of a bot of one of discord.py's forks. Run by `tests/system/sdk-versions`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from fake_discord import FakeDiscord
from feed_model import KEY, Feed, FeedServer
from fork_bot import until
from fork_library import use_fake

import bot_companion

GUILD, CREW = str(1 << 22), "50"


async def with_members(library: Any, commands: Any, fake: FakeDiscord, server: FeedServer) -> None:
    """Who holds the granting role, from the members that the library fetches, and then from events."""
    intents = library.Intents.none()
    intents.guilds = intents.members = True
    bot = commands.Bot("!", intents=intents)
    companion = bot_companion.attach(bot, url=server.url, key=KEY, grants=lambda guild: {int(CREW): ["MOD"]})
    running = asyncio.ensure_future(bot.start(fake.world.token))

    def staff() -> Any:
        assert not running.done(), running.exception()
        return server.feed.guilds.get(GUILD, {}).get("staff")

    await until(lambda: staff() == {"10": [CREW]})
    await fake.emit("GUILD_MEMBER_UPDATE", {"guild_id": GUILD, "user": {"id": "11"}, "roles": [CREW]})
    await until(lambda: staff() == {"10": [CREW], "11": [CREW]})
    await fake.emit("GUILD_MEMBER_REMOVE", {"guild_id": GUILD, "user": {"id": "10"}})
    await until(lambda: staff() == {"11": [CREW]})
    await fake.emit("GUILD_ROLE_DELETE", {"guild_id": GUILD, "role_id": CREW})
    delivery = await companion.feedback("1", "Bright.", 5, {"id": "10", "username": "marlow"})
    assert delivery.delivered and server.feed.feedback.keys() == {"1"}, delivery
    last = companion.feedback("2", "Last words.", 5, {"id": "10", "username": "marlow"})
    await bot.close()
    await asyncio.gather(running, return_exceptions=True)
    assert last.delivered and companion.status()["state"] == "closed", last


async def without_members(library: Any, commands: Any, fake: FakeDiscord, server: FeedServer) -> None:
    """A bot that cannot know its members says nothing of staff, so that the service keeps what it has."""
    intents = library.Intents.none()
    intents.guilds = True
    bot = commands.Bot("!", intents=intents)
    problems: list[str] = []
    companion = bot_companion.attach(bot, url=server.url, key=KEY, grants=lambda guild: {int(CREW): ["MOD"]})
    companion.on("error", problems.append)
    before = len(server.feed.snapshots)
    running = asyncio.ensure_future(bot.start(fake.world.token))
    await until(lambda: len(server.feed.snapshots) > before or running.done())
    (guild,) = server.feed.snapshots[before]
    assert guild["grants"] == {CREW: ["MOD"]} and "staff" not in guild, guild
    await until(lambda: any("members" in problem for problem in problems))
    await bot.close()
    await asyncio.gather(running, return_exceptions=True)


async def limited(library: Any, commands: Any, fake: FakeDiscord, server: FeedServer) -> None:
    """Discord limits the bot while its members are listed: they are listed anyway, and the budget has heard of it."""
    intents = library.Intents.none()
    intents.guilds = intents.members = True
    bot = commands.Bot("!", intents=intents, chunk_guilds_at_startup=False)
    fake.fault("GET /guilds/{id}/members", "rate_limit", times=1, retry_after=0.05)
    companion = bot_companion.attach(bot, url=server.url, key=KEY, grants=lambda guild: {int(CREW): ["MOD"]})
    running = asyncio.ensure_future(bot.start(fake.world.token))
    await until(lambda: server.feed.guilds.get(GUILD, {}).get("staff") == {"10": [CREW]} or running.done())
    assert fake.stats()["rate_limited"] == {"total": 1, "user": 1}
    assert companion._budget.times_limited == 1, "the library's session is not watched"
    assert companion.status()["counters"]["listing_failures"] == 0
    await bot.close()
    await asyncio.gather(running, return_exceptions=True)


async def main(name: str) -> None:
    people = [{"user": {"id": "10"}, "roles": [CREW]}, {"user": {"id": "11"}, "roles": []}]
    world = {"guilds": [{"id": GUILD, "roles": [{"id": CREW, "name": "Crew"}], "members": people}]}
    fake, server = FakeDiscord(world), FeedServer(Feed())
    await fake.start()
    await server.start()
    library, commands = use_fake(name, fake)
    await without_members(library, commands, fake, server)
    await limited(library, commands, fake, server)
    server.feed.forget()
    await with_members(library, commands, fake, server)
    await server.stop()
    await fake.stop()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
