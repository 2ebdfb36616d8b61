"""Strangers who do what anyone can do to a service, as often as they can."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable

from .testbed import Testbed, eventually

# The first of their addresses, which have no privileges at the service.
FIRST_ADDRESS = 150
# Each of them does one thing at a time.
UNFINISHED, FOLLOWERS, SIGN_INS = 16, 8, 4
# More than the admin listener has room for.
SILENT = 100


class Strangers:
    """They send bodies that never come, ask for live streams that are all taken, send made-up codes, and open connections to the admin
    listener on which they say nothing."""

    def __init__(self, testbed: Testbed, service: tuple[str, int], admin: tuple[str, int]) -> None:
        self.testbed, self.service, self.admin = testbed, service, admin
        # How often each status was answered.
        self.told: Counter[int] = Counter()
        acts: list[Callable[[str], Awaitable[None]]] = [self.leave_unfinished] * UNFINISHED + [self.follow] * FOLLOWERS
        acts += [self.sign_in] * SIGN_INS + [self.hold_stream] + [self.say_nothing] * SILENT
        self.codes = 0
        self.tasks = [asyncio.create_task(self.repeat(act, number)) for number, act in enumerate(acts)]

    async def repeat(self, act: Callable[[str], Awaitable[None]], number: int) -> None:
        address = self.testbed.address(FIRST_ADDRESS + number % 40)
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await act(address)
            await asyncio.sleep(0.1)

    async def ask(self, address: str, request: str) -> None:
        reader, writer = await asyncio.open_connection(*self.service, local_addr=(address, 0))
        try:
            writer.write(request.encode())
            status = await reader.readuntil(b"\r\n")
            self.told[int(status.split()[1])] += 1
        finally:
            writer.close()

    async def leave_unfinished(self, address: str) -> None:
        await self.ask(address, "POST /auth HTTP/1.1\r\nHost: x\r\nIdp-Code: x\r\nContent-Length: 10\r\n\r\n")

    async def follow(self, address: str) -> None:
        await self.ask(address, "GET /live HTTP/1.1\r\nHost: x\r\n\r\n")

    async def sign_in(self, address: str) -> None:
        self.codes += 1
        await self.ask(address, f"POST /auth HTTP/1.1\r\nHost: x\r\nIdp-Code: made-up-{self.codes}\r\n\r\n")

    async def hold_stream(self, address: str) -> None:
        reader, writer = await asyncio.open_connection(*self.service, local_addr=(address, 0))
        try:
            writer.write(b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.read()
        finally:
            writer.close()

    async def say_nothing(self, address: str) -> None:
        reader, writer = await asyncio.open_connection(*self.admin, local_addr=(address, 0))
        try:
            await reader.read()
        finally:
            writer.close()

    async def have_been_told(self, status: int, times: int) -> None:
        """Waits until so many more were answered like this."""
        expected = self.told[status] + times

        async def told() -> bool | None:
            return self.told[status] >= expected or None

        await eventually(told, f"{times} strangers are answered with {status}; so far: {dict(self.told)}")

    async def end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
