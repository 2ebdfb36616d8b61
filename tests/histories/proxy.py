"""A TCP proxy between the bot and the service that loses connections, requests and responses on command."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Literal

# `refuse`: nobody listens. `cut`: the connection ends in the middle of a request. `lost`: the request arrives, the response doesn't.
# `busy`: 503. `slow`: the response takes a while. `hang`: the response never comes.
Kind = Literal["refuse", "cut", "lost", "busy", "slow", "hang"]
KINDS: tuple[Kind, ...] = ("refuse", "cut", "lost", "busy", "slow", "hang")
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy"
SLOW = 0.2


class Proxy:
    def __init__(self) -> None:
        # Keeps the port while nobody listens.
        self._reserved = _bound(0)
        self.port: int = self._reserved.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.target: tuple[str, int] | None = None
        self.requests = 0
        """How often a client has sent something."""
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.StreamWriter] = set()
        self._kind: Kind | None = None
        self._left = 0

    async def start(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, sock=_bound(self.port))

    async def stop(self) -> None:
        await self._close()
        self._reserved.close()

    async def fault(self, kind: Kind, times: int) -> None:
        """From now on this goes wrong: so many times, or until `heal` if nobody listens."""
        await self.heal()
        if kind == "refuse":
            await self._close()
        else:
            self._kind, self._left = kind, times

    async def heal(self) -> None:
        self._kind = None
        await self.start()

    @property
    def faulty(self) -> bool:
        return self._kind is not None or self._server is None

    def _strikes(self, *kinds: Kind) -> Kind | None:
        if self._kind not in kinds:
            return None
        kind = self._kind
        self._left -= 1
        if self._left <= 0:
            self._kind = None
        return kind

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for client in list(self._clients):
            client.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        upstream: asyncio.StreamWriter | None = None
        try:
            if self.target is None:
                return
            answers, upstream = await asyncio.open_connection(*self.target)
            pumps = {asyncio.create_task(self._send(reader, writer, upstream)), asyncio.create_task(self._answer(answers, writer))}
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            pass
        finally:
            self._clients.discard(writer)
            for side in (writer, upstream):
                if side is not None:
                    with contextlib.suppress(OSError):
                        await asyncio.wait_for(side.drain(), 1)
                    side.transport.abort() if side is upstream else side.close()

    async def _send(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            self.requests += 1
            struck = self._strikes("cut", "busy")
            if struck == "busy":
                writer.write(BUSY)
                return
            if struck == "cut":
                upstream.write(data[: len(data) * 2 // 3])
                await upstream.drain()
                writer.transport.abort()
                return
            upstream.write(data)
            await upstream.drain()

    async def _answer(self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await answers.read(65536):
            struck = self._strikes("lost", "slow", "hang")
            if struck == "lost":
                writer.transport.abort()
                return
            if struck == "hang":
                # The client gives up.
                await asyncio.Event().wait()
            if struck == "slow":
                await asyncio.sleep(SLOW)
            writer.write(data)
            await writer.drain()


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    return bound
