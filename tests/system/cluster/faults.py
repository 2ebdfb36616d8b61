"""A network that fails on demand: everything between a replica and PostgreSQL goes through it."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import socket
import struct


class Mode(enum.Enum):
    PASS = "pass"
    # Every connection is reset, and so is every new one.
    CUT = "cut"
    # Nothing comes through, and no connection is closed.
    SILENT = "silent"


class Kind(enum.Enum):
    LISTENER = "listener"
    WORK = "work"


class Connection:
    """A connection of a replica, and the connection to the database that it is forwarded to."""

    def __init__(self, network: Network, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.network, self.reader, self.writer = network, reader, writer
        self.upstream: asyncio.StreamWriter | None = None
        self.kind = Kind.WORK

    async def run(self) -> None:
        length = struct.unpack("!I", await self.reader.readexactly(4))[0]
        hello = await self.reader.readexactly(length - 4)
        # The first packet names the program; the listener says that it is one.
        words = hello[4:].split(b"\0")
        name = words[words.index(b"application_name") + 1] if b"application_name" in words else b""
        self.kind = Kind.LISTENER if name.endswith(b" listener") else Kind.WORK
        if self.network.modes[self.kind] is Mode.CUT:
            return
        await self.network.passable(self.kind)
        if self.reader.at_eof():
            # A client that gave up while the network was silent never reached the server.
            return
        reader, self.upstream = await asyncio.open_connection(*self.network.target)
        self.upstream.write(struct.pack("!I", length) + hello)
        both = [asyncio.create_task(self.pump(self.reader, self.upstream)), asyncio.create_task(self.pump(reader, self.writer))]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await self.network.passable(self.kind)
            data = await reader.read(65536)
            # What was on its way when the line went silent arrives when it speaks again, as TCP has it.
            await self.network.passable(self.kind)
            if not data:
                return
            writer.write(data)
            await writer.drain()

    def reset(self) -> None:
        for writer in (self.writer, self.upstream):
            if writer is not None and not writer.is_closing():
                with contextlib.suppress(OSError):
                    raw: socket.socket = writer.get_extra_info("socket")
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()


class Network:
    """Between one replica and the database."""

    def __init__(self, address: str, target: tuple[str, int]) -> None:
        self.address, self.target = address, target
        self.modes = dict.fromkeys(Kind, Mode.PASS)
        self.open = {kind: asyncio.Event() for kind in Kind}
        self.connections: set[Connection] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.server: asyncio.Server | None = None
        for event in self.open.values():
            event.set()

    async def start(self) -> None:
        self.server = await asyncio.start_server(self.accept, self.address, 0)

    @property
    def port(self) -> int:
        assert self.server is not None
        return int(self.server.sockets[0].getsockname()[1])

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(self, reader, writer)
        self.connections.add(connection)
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            await connection.run()
        except (OSError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            # Only `end` does this, and the stream's own machinery would report it.
            pass
        finally:
            self.tasks.discard(task)
            self.connections.discard(connection)
            connection.reset()

    async def passable(self, kind: Kind) -> None:
        await self.open[kind].wait()

    def set(self, mode: Mode, *kinds: Kind) -> None:
        for kind in kinds or tuple(Kind):
            self.modes[kind] = mode
            if mode is Mode.SILENT:
                self.open[kind].clear()
            else:
                self.open[kind].set()
            if mode is Mode.CUT:
                for connection in [each for each in self.connections if each.kind is kind]:
                    connection.reset()

    async def end(self) -> None:
        if self.server is not None:
            self.server.close()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
