"""Runs a bot with and without its SDK on the fake Discord, and prints what the SDK adds."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from bots import Bot
from fake_discord import FakeDiscord

GUILDS = int(os.environ.get("SDK_GUILDS", "20000"))
MEMBERS = int(os.environ.get("SDK_MEMBERS", "20"))
EVENTS = int(os.environ.get("SDK_EVENTS", "5000"))


async def measure(kind: str, sdk: str, chunk: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Measures the bot after its start, and after changes of members' roles."""
    world = {
        "generate": {"guilds": GUILDS, "members": MEMBERS, "roles": 3},
        "global_rate_limit": None, "member_request_interval": 0, "send_limit": 1_000_000,
    }  # fmt: skip
    async with FakeDiscord(world) as fake:
        bot = await Bot.start(kind, fake, sdk, chunk=chunk)
        started = await bot.quiet()
        for number in range(EVENTS):
            guild = (number % GUILDS + 1) << 22
            roles = [str(guild + 2)] if number // GUILDS % 2 == 0 else []
            user = fake.world.guilds[guild].members.ids()[-1]
            await fake.emit("GUILD_MEMBER_UPDATE", {"guild_id": str(guild), "user": {"id": str(user)}, "roles": roles})
        changed = await bot.quiet()
        await bot.stop()
        return started, changed


async def main(kinds: list[str]) -> None:
    print(f"{GUILDS} guilds with {MEMBERS} members each, {EVENTS} changes of members' roles")
    print(f"{'bot':24} {'SDK':8} {'start, CPU s':>13} {'changes, CPU s':>15} {'resident MiB':>13}")
    # discord.py caches all members. The others don't, so the SDK lists them.
    for kind in kinds:
        chunk = "yes" if kind == "python" else "no"
        name = f"{kind}, {'all members cached' if chunk == 'yes' else 'members listed'}"
        for sdk in ("without", "with"):
            started, changed = await measure(kind, sdk, chunk)
            cost = changed["cpu"] - started["cpu"]
            print(f"{name:24} {sdk:8} {started['cpu']:13.1f} {cost:15.2f} {changed['memory']:13.0f}", flush=True)


asyncio.run(main(sys.argv[1:]))
