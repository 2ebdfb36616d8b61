"""A real discord.py, a fake Discord, and someone to report to, in one process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import discord
import yarl
from discord.ext import commands
from fake_discord import FakeDiscord
from feed_model import KEY, Feed, FeedServer

import bot_companion
from bot_companion import Companion, Limits

Json = dict[str, Any]
# Only a failing test waits this long.
DEADLINE = 300.0


async def until(condition: Callable[[], Any], what: str = "") -> None:
    """Waits for a condition, not for a time."""
    loop = asyncio.get_running_loop()
    end = loop.time() + DEADLINE
    while not condition():
        if loop.time() > end:
            raise AssertionError(f"never came true: {what or condition}")
        await asyncio.sleep(0.01)


def guild(number: int, **fields: Any) -> Json:
    members = [{"user": {"id": "10", "username": "marlow"}, "roles": ["50"]}, {"user": {"id": "11"}, "roles": []}]
    known = {"name": f"Harbour {number}", "owner_id": "10", "roles": [{"id": "50", "name": "Crew"}], "members": members}
    return {"id": str(number << 22), **known, **fields}


def intents() -> discord.Intents:
    chosen = discord.Intents.none()
    chosen.guilds = chosen.members = True
    return chosen


class Quick:
    """Discord wants five seconds between two shards; the fake does not."""

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        pass


class Bot(Quick, commands.Bot):
    pass


class AutoShardedBot(Quick, commands.AutoShardedBot):
    pass


class Client(Quick, discord.Client):
    pass


def make(kind: Any, **options: Any) -> Any:
    arguments = () if issubclass(kind, Client) else ("!",)
    # Guilds that come later than this are not in the first snapshot.
    return kind(*arguments, intents=intents(), guild_ready_timeout=0.5, **options)


def attach(bot: Any, url: str, key: str = KEY, limits: Limits | None = None, **callbacks: Any) -> Companion:
    """Like `bot_companion.attach`, without SIGTERM."""
    return bot_companion.attach(bot, url=url, key=key, limits=limits, sigterm=False, **callbacks)


@contextlib.asynccontextmanager
async def running(bot: Any, token: str) -> AsyncIterator[Any]:
    task = asyncio.ensure_future(bot.start(token))
    try:
        await until(lambda: bot.is_ready() or task.done(), "the bot is ready")
        yield bot
        assert not task.done(), "the bot has ended"
    finally:
        await asyncio.wait_for(bot.close(), DEADLINE)
        await asyncio.gather(task, return_exceptions=True)


@contextlib.asynccontextmanager
async def discord_with(guilds: list[Json], **world: Any) -> AsyncIterator[FakeDiscord]:
    fake = FakeDiscord({"guilds": guilds, **world})
    await fake.start()
    route, socket = discord.http.Route, discord.gateway.DiscordWebSocket
    originals = route.BASE, socket.DEFAULT_GATEWAY
    route.BASE = fake.addresses()["api_v10"]
    # Only an auto-sharded client asks for the gateway's address.
    socket.DEFAULT_GATEWAY = yarl.URL(fake.addresses()["gateway"])
    try:
        yield fake
    finally:
        route.BASE, socket.DEFAULT_GATEWAY = originals
        await fake.stop()
        # They use the loop, which is about to be closed, and the library doesn't stop those of connections that it has given up.
        for thread in threading.enumerate():
            if isinstance(thread, discord.gateway.KeepAliveHandler):
                thread.stop()
                await asyncio.to_thread(thread.join, DEADLINE)


@contextlib.asynccontextmanager
async def feed_server() -> AsyncIterator[FeedServer]:
    server = FeedServer(Feed())
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
