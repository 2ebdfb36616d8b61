"""The benchmarks' bots: each is its own process, which reports what it has used."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from fake_discord import FakeDiscord

HERE = Path(__file__).parent


class Bot:
    """A bot's process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._process, self._input, self._output = process, process.stdin, process.stdout

    @classmethod
    async def start(cls, kind: str, fake: FakeDiscord, sdk: str, *, chunk: str, calls: bool = False) -> Bot:
        addresses = fake.addresses()
        environment = {**os.environ, "SDK": sdk, "CHUNK": chunk, "API": addresses["api"], "GATEWAY": addresses["gateway"]}
        environment |= {"TOKEN": addresses["token"], "PROXY": addresses["url"], **({"CALLS": "yes"} if calls else {})}
        # The default rate, or as fast as possible where only the work is measured.
        environment["LISTING_RATE"] = "10" if calls else "1000"
        commands = {"python": [sys.executable, str(HERE / "bot.py")], "js": ["node", os.environ["JS_BOT"]], "rust": [os.environ["RUST_BOT"]]}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*commands[kind], stdin=pipe, stdout=pipe, env=environment, limit=1 << 24)
        bot = cls(process)
        if await bot._output.readline() != b"ready\n":
            raise SystemExit(f"the {kind} bot did not start")
        return bot

    async def usage(self) -> dict[str, Any]:
        self._input.write(b"\n")
        while True:
            line = await self._output.readline()
            # The SDK logs there, too.
            if line.startswith(b"{"):
                found: dict[str, Any] = json.loads(line)
                return found
            if not line:
                raise SystemExit("the bot has ended")

    async def quiet(self) -> dict[str, Any]:
        """What it has used once the SDK is synced and the process is idle."""
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
