"""Thousands of connections that do as little as they can, from many addresses, in their own process."""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import socket
import ssl
import time
import urllib.parse
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.synchronize import Event

from service import Failed

# The service allows 256 connections per address.
PER_ADDRESS = 250
GET = b"GET /team HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
LARGE = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@dataclass(frozen=True)
class Kind:
    """What a connection sends at first, and then once per second."""

    name: str
    first: bytes = b""
    then: bytes = b""
    # Whether it completes a TLS handshake first.
    secure: bool = False
    # Whether it reads everything, a little at a time, or nothing.
    reads: str = "all"


def client_hello() -> bytes:
    """The first thing that a TLS client says."""
    context = ssl.create_default_context()
    given, taken = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(given, taken, server_hostname="localhost").do_handshake()
    return taken.read()


POST = b"POST /auth HTTP/1.1\r\nHost: 127.0.0.1\r\nIdp-Code: x\r\n"
HELLO = client_hello()
PLAIN = [
    Kind("silent"),
    Kind("a slow request line", b"GE", b"T"),
    Kind("slow headers", b"GET /team HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ", b"a"),
    Kind("many slow headers", b"GET /team HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"X-Slow: a\r\n"),
    Kind("a slow body", POST + b"Content-Length: 60000\r\n\r\n", b"x"),
    Kind("slow chunks", POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    Kind("a body that never comes", POST + b"Content-Length: 60000\r\n\r\n"),
    Kind("half of a second request", GET + b"GET /te", b"a"),
    Kind("idle after a request", GET),
    Kind("unread answers", LARGE * 50, reads="nothing"),
    Kind("slowly read answers", LARGE * 50, reads="little"),
]
TLS = [
    Kind("silent"),
    Kind("half a handshake", HELLO[: len(HELLO) // 2]),
    Kind("a slow handshake", HELLO[:50], b"\0"),
    Kind("a handshake without its end", HELLO),
    Kind("a handshake and silence", secure=True),
    Kind("a handshake and slow headers", b"GET /team HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ", b"a", secure=True),
]


class Slow(asyncio.Protocol):
    def __init__(self, kind: Kind, siege: Siege) -> None:
        self.kind, self.siege, self.open, self.handshaken = kind, siege, True, not kind.secure
        self.transport: asyncio.Transport | None = None
        if kind.secure:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self.arrived, self.leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
            self.tls = context.wrap_bio(self.arrived, self.leaving)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self.kind.secure:
            self.handshake()
        else:
            transport.write(self.kind.first)
        if self.kind.reads != "all":
            transport.pause_reading()

    def handshake(self) -> None:
        with suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
            self.handshaken = True
        self.flush(self.kind.first if self.handshaken else b"")

    def flush(self, text: bytes) -> None:
        if self.kind.secure and text:
            self.tls.write(text)
        assert self.transport is not None
        self.transport.write(self.leaving.read() if self.kind.secure else text)

    def data_received(self, data: bytes) -> None:
        if not self.handshaken:
            self.arrived.write(data)
            try:
                self.handshake()
            except ssl.SSLError:
                assert self.transport is not None
                self.transport.abort()
        elif self.kind.reads == "little":
            assert self.transport is not None
            self.transport.pause_reading()

    def tick(self, attacking: bool) -> None:
        assert self.transport is not None
        if self.kind.then and self.handshaken and not self.transport.is_closing():
            self.flush(self.kind.then)
        if self.kind.reads == "little" and attacking:
            with suppress(RuntimeError):
                self.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False
        self.siege.ended[self.kind.name] += 1


class Siege:
    def __init__(self, url: str, kinds: list[Kind], many: int, hold: float, first_address: int) -> None:
        parts = urllib.parse.urlsplit(url)
        self.address, self.kinds, self.many, self.hold, self.first_address = (str(parts.hostname), int(parts.port or 0)), kinds, many, hold, first_address
        self.slow: list[Slow] = []
        self.opened, self.refused, self.most = 0, 0, 0
        self.ended: Counter[str] = Counter()

    async def start(self, number: int) -> Slow | None:
        kind = self.kinds[number % len(self.kinds)]
        place = number // PER_ADDRESS
        source = f"127.{self.first_address}.{place // 250}.{place % 250 + 1}"
        plain = socket.socket()
        plain.setblocking(False)
        try:
            if kind.reads != "all":
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            # `connect` chooses the port, because it knows the other end.
            plain.setsockopt(socket.IPPROTO_IP, 24, 1)
            plain.bind((source, 0))
            loop = asyncio.get_running_loop()
            await asyncio.wait_for(loop.sock_connect(plain, self.address), 30)
            _, protocol = await loop.create_connection(lambda: Slow(kind, self), sock=plain)
        except (OSError, TimeoutError):
            plain.close()
            self.refused += 1
            return None
        self.opened += 1
        return protocol

    async def fill(self) -> None:
        """Opens as many as are missing, in waves: a crowd larger than the service's limit, all at once, would push out a normal client whose
        request is still on its way."""
        missing = self.many - len(self.slow)
        numbers = iter(range(self.opened, self.opened + missing))
        while group := [number for _, number in zip(range(min(500, self.many // 8)), numbers)]:
            started = await asyncio.gather(*(self.start(number) for number in group))
            self.slow += [one for one in started if one is not None]
            await asyncio.sleep(0.1)

    async def run(self) -> None:
        attack_ends = time.monotonic() + self.hold
        await self.fill()
        # On a slow machine, opening all of them can take longer than the time they had to reconnect.
        last_opened = time.monotonic()
        while True:
            attacking = time.monotonic() < attack_ends
            self.slow = [one for one in self.slow if one.open]
            self.most = max(self.most, len(self.slow))
            if attacking:
                await self.fill()
                last_opened = time.monotonic()
            # A connection that doesn't read can't see that it was closed, so the service is asked.
            elif all(one.kind.reads != "all" for one in self.slow):
                return
            # Idle connections have the longest time: 75 s.
            if time.monotonic() - last_opened > 150:
                left = Counter(one.kind.name for one in self.slow)
                raise Failed(f"{len(self.slow)} slow connections were never closed: {dict(left)}")
            for one in self.slow:
                one.tick(attacking)
            await asyncio.sleep(1)


@dataclass
class Outcome:
    opened: int
    most: int
    refused: int
    took: float
    failed: str


def besiege(url: str, kinds: list[Kind], many: int, hold: float, first_address: int, outcome: multiprocessing.Queue[Outcome], released: Event) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    siege, failed, began = Siege(url, kinds, many, hold, first_address), "", time.monotonic()
    try:
        asyncio.run(siege.run())
    except Failed as error:
        failed = str(error)
    outcome.put(Outcome(siege.opened, siege.most, siege.refused, time.monotonic() - began, failed))
    released.wait(600)


class Besieged:
    """A siege in its own process, so that normal clients here are not slowed down by it."""

    def __init__(self, url: str, kinds: list[Kind], many: int, hold: float, first_address: int) -> None:
        self.outcomes: multiprocessing.Queue[Outcome] = multiprocessing.Queue()
        self.released = multiprocessing.Event()
        self.process = multiprocessing.Process(target=besiege, args=(url, kinds, many, hold, first_address, self.outcomes, self.released), daemon=True)
        self.process.start()

    def wait(self) -> Outcome:
        """Until all are closed but those that don't read, which stay as they are."""
        outcome = self.outcomes.get(timeout=900)
        if outcome.failed:
            raise Failed(outcome.failed)
        return outcome

    def end(self) -> None:
        self.released.set()
        self.process.join(30)
