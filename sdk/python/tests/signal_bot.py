"""A bot in its own process, for tests that end it. Each line on stdin is the id of a feedback entry to give."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from typing import Any

import discord
import yarl
from stage import Bot, make

import bot_companion

given: dict[str, Any] = json.loads(sys.argv[1])
discord.http.Route.BASE = given["api_v10"]
discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(given["gateway"])
bot = make(Bot)
# So long that changes are only sent when the bot stops.
limits = bot_companion.Limits(gather_time=3600.0)
companion = bot_companion.attach(
    bot, url=given["url"], key=given["key"], spool=given["spool"], sigterm=given["sigterm"], limits=limits
)


def read(loop: asyncio.AbstractEventLoop) -> None:
    def feedback(entry: str) -> None:
        companion.feedback(entry, "bright", 5, {"id": 1, "username": "u"})
        print(f"queued {entry}", flush=True)

    for line in sys.stdin:
        loop.call_soon_threadsafe(feedback, line.strip())


def synced() -> None:
    print("synced", flush=True)
    threading.Thread(target=read, args=(asyncio.get_running_loop(),), daemon=True).start()


companion.on("synced", synced)
bot.run(given["token"], log_handler=None)
print("ended", flush=True)
