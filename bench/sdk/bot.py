"""A discord.py bot for `bench/sdk/run`, with or without the SDK. It runs until it's asked what it has used.

It prints "ready" when it is ready, and at each line on its standard input its CPU seconds, its resident MiB, whether the SDK is synced,
how many guilds it has listed, and, if CALLS is set, how many milliseconds each call of the bot's own has taken since.
"""

import asyncio
import itertools
import json
import os
import resource
import sys
import time

import discord
import yarl

discord.http.Route.BASE = os.environ["API"] + "/v10"
discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(os.environ["GATEWAY"])


class Lantern(discord.AutoShardedClient):
    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """The fake Discord needs no pause between two shards."""

    async def setup_hook(self) -> None:
        self.companion = None
        if os.environ["SDK"] == "with":
            import bot_companion

            # Two roles of each guild grant something; the fake Discord's roles are id + 1, id + 2, …
            self.companion = bot_companion.attach(
                self,
                grants=lambda guild: {guild.id + 1: ["ADMIN"], guild.id + 2: ["MOD"]},
                setup=lambda guild: True,
                limits=bot_companion.Limits(listing_rate=float(os.environ["LISTING_RATE"])),
            )
        self.answering = asyncio.ensure_future(self.answer())
        self.took: list[float] = []
        self.failed = 0

    async def on_ready(self) -> None:
        print("ready", flush=True)
        if os.environ.get("CALLS") and not hasattr(self, "calling"):
            self.calling = asyncio.ensure_future(self.call())

    async def call(self) -> None:
        """A bot's usual work: about eight messages per second, each in another channel. Ten would fall in step with the pages."""
        for number in itertools.count():
            self.last = asyncio.ensure_future(self.say((number % 500 + 1) << 22))
            await asyncio.sleep(0.13)

    async def say(self, channel: int) -> None:
        began = time.perf_counter()
        try:
            await self.get_partial_messageable(channel).send("hello")
        except discord.DiscordException:
            self.failed += 1
        self.took.append((time.perf_counter() - began) * 1000)

    async def answer(self) -> None:
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while await reader.readline():
            usage = resource.getrusage(resource.RUSAGE_SELF)
            with open("/proc/self/statm", "rb") as statm:
                resident = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
            status = self.companion.status() if self.companion else None
            report = {
                "cpu": usage.ru_utime + usage.ru_stime,
                "memory": resident,
                "synced": status is None or status["state"] == "synced",
                "listings": status["counters"]["listings"] if status else 0,
                "took": self.took,
                "failed": self.failed,
            }
            self.took = []
            print(json.dumps(report), flush=True)
        await self.close()


intents = discord.Intents(guilds=True, members=True)
chunk = os.environ.get("CHUNK", "yes") == "yes"
Lantern(intents=intents, chunk_guilds_at_startup=chunk).run(os.environ["TOKEN"], log_handler=None)
