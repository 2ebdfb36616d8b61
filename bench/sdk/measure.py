"""Runs a bot with and without its SDK on the fake Discord, and prints what the SDK adds."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from fake_discord import FakeDiscord

GUILDS = int(os.environ.get("SDK_GUILDS", "20000"))
MEMBERS = int(os.environ.get("SDK_MEMBERS", "20"))
EVENTS = int(os.environ.get("SDK_EVENTS", "5000"))
HERE = Path(__file__).parent


class Bot:
    """A bot's process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._process, self._input, self._output = process, process.stdin, process.stdout

    @classmethod
    async def start(cls, kind: str, fake: FakeDiscord, sdk: str, chunk: str) -> Bot:
        addresses = fake.addresses()
        environment = {**os.environ, "SDK": sdk, "CHUNK": chunk, "API": addresses["api"], "GATEWAY": addresses["gateway"]}
        command = [sys.executable, str(HERE / "bot.py")] if kind == "python" else ["node", os.environ["JS_BOT"]]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, env={**environment, "TOKEN": addresses["token"]}
        )
        bot = cls(process)
        if await bot._output.readline() != b"ready\n":
            raise SystemExit(f"the {kind} bot did not start")
        return bot

    async def usage(self) -> dict[str, Any]:
        self._input.write(b"\n")
        while True:
            line = await self._output.readline()
            # The SDK's own lines go there, too.
            if line.startswith(b"{"):
                found: dict[str, Any] = json.loads(line)
                return found
            if not line:
                raise SystemExit("the bot has ended")

    async def quiet(self) -> dict[str, Any]:
        """What it has used once the SDK is synced and the process does nothing more."""
        before = await self.usage()
        while True:
            await asyncio.sleep(3)
            now = await self.usage()
            if now["synced"] and now["cpu"] - before["cpu"] < 0.1:
                return now
            before = now

    async def stop(self) -> None:
        self._input.close()
        await self._process.wait()


async def measure(kind: str, sdk: str, chunk: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """After the start, and after changes of members' roles."""
    world = {
        "generate": {"guilds": GUILDS, "members": MEMBERS, "roles": 3},
        "global_rate_limit": None, "member_request_interval": 0, "send_limit": 1_000_000,
    }  # fmt: skip
    async with FakeDiscord(world) as fake:
        bot = await Bot.start(kind, fake, sdk, chunk)
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
    # discord.py caches all members, discord.js does not: there the SDK lists them.
    for kind in kinds:
        chunk = "yes" if kind == "python" else "no"
        name = f"{kind}, {'all members cached' if chunk == 'yes' else 'members listed'}"
        for sdk in ("without", "with"):
            started, changed = await measure(kind, sdk, chunk)
            cost = changed["cpu"] - started["cpu"]
            print(f"{name:24} {sdk:8} {started['cpu']:13.1f} {cost:15.2f} {changed['memory']:13.0f}", flush=True)


asyncio.run(main(sys.argv[1:] or ["python", "js"]))
