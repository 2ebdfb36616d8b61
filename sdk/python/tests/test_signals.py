"""The end of the process: SIGTERM, and SIGKILL with a spool. Real processes, the real discord.py."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from feed_model import KEY, FeedServer
from stage import DEADLINE, Bot, discord_with, feed_server, guild, make, running, until

import bot_companion
from bot_companion import _signals

BOT = Path(__file__).with_name("signal_bot.py")


class Process:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def says(self, expected: str) -> None:
        assert self._process.stdout is not None
        line = (await asyncio.wait_for(self._process.stdout.readline(), DEADLINE)).decode().strip()
        assert line == expected

    async def feedback(self, entry: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{entry}\n".encode())
        await self._process.stdin.drain()
        await self.says(f"queued {entry}")

    async def end(self, how: signal.Signals) -> int:
        self._process.send_signal(how)
        return await asyncio.wait_for(self._process.wait(), DEADLINE)

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


@contextlib.asynccontextmanager
async def bot_process(addresses: dict[str, str], server: FeedServer, spool: Path | None = None, sigterm: bool = True) -> AsyncIterator[Process]:
    given = {**addresses, "url": server.url, "key": KEY, "spool": spool and str(spool), "sigterm": sigterm}
    pipe = asyncio.subprocess.PIPE
    made = await asyncio.create_subprocess_exec(sys.executable, str(BOT), json.dumps(given), stdin=pipe, stdout=pipe)
    process = Process(made)
    try:
        yield process
    finally:
        await process.kill()


def test_sigterm_sends_what_waits() -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1)]) as fake:
            async with bot_process(fake.addresses(), server) as process:
                await process.says("synced")
                await process.feedback("a")
                assert not server.feed.feedback
                assert await process.end(signal.SIGTERM) == -signal.SIGTERM, "it ends as SIGTERM ends a process"
                assert list(server.feed.feedback) == ["a"]

    asyncio.run(test())


def test_sigterm_is_left_alone_if_that_is_wanted() -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1)]) as fake:
            async with bot_process(fake.addresses(), server, sigterm=False) as process:
                await process.says("synced")
                await process.feedback("a")
                assert await process.end(signal.SIGTERM) == -signal.SIGTERM
                assert not server.feed.feedback

    asyncio.run(test())


def test_a_spool_outlives_sigkill(tmp_path: Path) -> None:
    async def test() -> None:
        spool = tmp_path / "feedback"
        async with feed_server() as server, discord_with([guild(1)]) as fake:
            async with bot_process(fake.addresses(), server, spool) as process:
                await process.says("synced")
                await process.feedback("a")
                await process.feedback("b")
                assert await process.end(signal.SIGKILL) == -signal.SIGKILL
            assert not server.feed.feedback
            async with bot_process(fake.addresses(), server, spool):
                await until(lambda: list(server.feed.feedback) == ["a", "b"], "sent after the next start")
                await until(lambda: spool.read_bytes() == b"", "and removed from the spool")

    asyncio.run(test())


def test_a_handler_of_the_bots_own_is_left_alone() -> None:
    def own(number: int, frame: Any) -> None:
        pass

    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1)]) as fake:
            bot = make(Bot)
            bot_companion.attach(bot, url=server.url, key=KEY)
            async with running(bot, fake.token):
                assert signal.getsignal(signal.SIGTERM) is own
            assert signal.getsignal(signal.SIGTERM) is own

    before = signal.signal(signal.SIGTERM, own)
    try:
        asyncio.run(test())
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.skipif(signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL, reason="pytest runs under a handler of SIGTERM")
def test_the_handler_goes_with_the_last_companion() -> None:
    async def test() -> None:
        async with feed_server() as server:
            bots = [make(Bot), make(Bot)]
            first, second = (bot_companion.attach(bot, url=server.url, key=KEY) for bot in bots)
            assert signal.getsignal(signal.SIGTERM) is _signals._terminate
            await first.close()
            assert signal.getsignal(signal.SIGTERM) is _signals._terminate
            await second.close()
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
            for bot in bots:
                await bot.close()

    asyncio.run(test())


def test_the_first_process_of_a_container_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended(Exception):
        pass

    def end(status: int) -> None:
        raise Ended(status)

    def kill(process: int, number: int) -> None:
        raise AssertionError("the kernel ignores this")

    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(os, "kill", kill)
    with pytest.raises(Ended, match="143"):
        _signals._end()
