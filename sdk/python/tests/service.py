"""The real service as a process: set BOT_COMPANION to its binary."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

from stage import DEADLINE

BINARY = os.environ.get("BOT_COMPANION", "")


class Service:
    def __init__(self, data: Path) -> None:
        self.data = data
        self.listen = "127.0.0.1:0"
        self.url = self.key = ""
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            BINARY, "dev", "--json", "--no-limits", "--listen", self.listen, "--data", str(self.data), stdout=asyncio.subprocess.PIPE
        )
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), DEADLINE)
        assert line, "the service has ended"
        addresses = json.loads(line)
        self.url, self.key = addresses["service"], addresses["bot_key"]
        self.listen = self.url.removeprefix("http://")

    async def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
            await self.process.wait()
