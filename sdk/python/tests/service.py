"""The real service as a process: set BOT_COMPANION to its binary."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

import pytest
from stage import DEADLINE

BINARY = os.environ.get("BOT_COMPANION", "")


class Service:
    def __init__(self, data: Path) -> None:
        self.data = data
        self.listen = "127.0.0.1:0"
        self.url = self.key = ""
        self.process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            BINARY, "dev", "--no-limits", "--listen", self.listen, "--data", str(self.data),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        banner = await asyncio.wait_for(self._banner(self.process), DEADLINE)
        found = re.search(r"service +http://(127\.0\.0\.1:\d+)/", banner)
        assert found, banner
        self.listen, self.url = found[1], f"http://{found[1]}"
        key = re.search(r"bck_[0-9A-Za-z]{36}", banner)
        if key is None:
            await self.kill()
            pytest.skip("this binary prints no bot key: it has no feed")
        self.key = key[0]
        # Else the pipe fills, and the service waits for us.
        self._reading = asyncio.ensure_future(self._drain(self.process))

    @staticmethod
    async def _banner(process: asyncio.subprocess.Process) -> str:
        assert process.stdout is not None
        banner = ""
        # The last line of the banner.
        while "show what your dashboard does" not in banner:
            line = (await process.stdout.readline()).decode()
            assert line, f"the service has ended: {banner}"
            banner += line
        return banner

    @staticmethod
    async def _drain(process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while await process.stdout.read(65536):
            pass

    async def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
            await self.process.wait()
        if self._reading is not None:
            await self._reading
            self._reading = None
