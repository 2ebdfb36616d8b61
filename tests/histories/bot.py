"""A discord.py bot with the SDK. Its database is a JSON file that the player writes; commands come on stdin."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import discord
import yarl
from discord.backoff import ExponentialBackoff
from discord.ext import commands

import bot_companion
import bot_companion._adapter

GIVEN: dict[str, Any] = json.loads(sys.argv[1])
discord.http.Route.BASE = GIVEN["api_v10"]
discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(GIVEN["gateway"])
# As all limits here: short, so that a history is.
bot_companion._adapter.QUIET = 2.0
# Discord wants a bot to wait before it connects again; the fake one doesn't.
ExponentialBackoff.delay = lambda self: 0.05  # type: ignore[method-assign, assignment]


class Bot(commands.AutoShardedBot):
    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        pass


async def database() -> dict[str, Any]:
    """The bot's database, if it works."""
    while True:
        known: dict[str, Any] = json.loads(Path(GIVEN["database"]).read_text())
        if known["callbacks"] == "fail":
            raise RuntimeError("the database is away")
        if known["callbacks"] != "hang":
            return known
        await asyncio.sleep(0.02)


async def settings(guild: Any) -> dict[str, Any]:
    found: dict[str, Any] = (await database())["guilds"][str(guild.id)]
    return found


async def grants(guild: Any) -> Any:
    return (await settings(guild))["grants"]


async def setup(guild: Any) -> bool:
    return bool((await settings(guild))["setup"])


async def linked(guild: Any) -> bool:
    return bool((await settings(guild))["linked"])


async def subscriptions() -> Any:
    return (await database())["subscriptions"]


async def team() -> Any:
    return (await database())["team"]


intents = discord.Intents.none()
intents.guilds = intents.members = True
bot = Bot("!", intents=intents, shard_count=GIVEN["shards"], guild_ready_timeout=0.2, chunk_guilds_at_startup=GIVEN["cached"])
companion = bot_companion.attach(
    bot, url=GIVEN["url"], key=GIVEN["key"], spool=GIVEN["spool"], limits=bot_companion.Limits(**GIVEN["limits"]),
    grants=grants, setup=setup, linked=linked, subscriptions=subscriptions, team=team,
)  # fmt: skip


def obey(command: dict[str, Any]) -> None:
    match command["do"]:
        case "changed":
            companion.changed(int(command["guild"]))
        case "everything_changed":
            companion.changed()
        case "subscriptions_changed":
            companion.subscriptions_changed()
        case "team_changed":
            companion.team_changed()
        case "feedback":
            companion.feedback(command["id"], command["text"], command["rating"], {"id": 1, "username": "marlow"})
        case "feedback_gone":
            companion.feedback_gone(command["id"])
    print(json.dumps(companion.status()), flush=True)


def read(loop: asyncio.AbstractEventLoop) -> None:
    for line in sys.stdin:
        loop.call_soon_threadsafe(obey, json.loads(line))
    # The player is gone.
    os._exit(1)


async def main() -> None:
    threading.Thread(target=read, args=(asyncio.get_running_loop(),), daemon=True).start()
    async with bot:
        await bot.start(GIVEN["token"])


asyncio.run(main())
