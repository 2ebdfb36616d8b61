"""A websocket, and the session that outlives it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import zlib
from collections import deque
from collections.abc import Callable
from typing import Any

from aiohttp import web

from .shapes import Json

DISPATCH, HEARTBEAT, IDENTIFY, PRESENCE, VOICE_STATE, RESUME, RECONNECT, REQUEST_MEMBERS, INVALID_SESSION, HELLO, ACKNOWLEDGED = (
    0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11,
)  # fmt: skip

# Frames queued for a slow client; a new session's guilds wait for room.
WAITING_FRAMES = 64
# A client with this many queued frames is disconnected.
MOST_FRAMES = 20_000
# With payload compression only big payloads are compressed.
COMPRESSED_PAYLOAD = 1024

_JSON = json.JSONEncoder(separators=(",", ":"))


def encode(payload: Json) -> bytes:
    # Discord always sends all four keys, and some libraries rely on that.
    return _JSON.encode({"t": None, "s": None, "op": None, "d": None, **payload}).encode()


class Session:
    """One identified shard. It outlives its connection, so that RESUME can replay what was missed."""

    def __init__(self, shard: int, count: int, intents: int, large_threshold: int, buffer: int) -> None:
        self.id = secrets.token_hex(16)
        self.shard = shard
        self.count = count
        self.intents = intents
        self.large_threshold = large_threshold
        self.sequence = 0
        self.connection: Connection | None = None
        self._buffer: deque[tuple[int, bytes]] = deque(maxlen=buffer)

    def holds(self, guild: int | None) -> bool:
        """Whether events of this guild go to this session. Events without a guild go to shard 0."""
        return self.shard == (0 if guild is None else (guild >> 22) % self.count)

    def dispatch(self, kind: str, data: Json) -> None:
        self.sequence += 1
        frame = encode({"op": DISPATCH, "t": kind, "s": self.sequence, "d": data})
        self._buffer.append((self.sequence, frame))
        if self.connection is not None:
            self.connection.put(frame)

    def missed(self, sequence: int) -> list[bytes] | None:
        """The frames after this number; None if they are no longer there."""
        frames = [frame for number, frame in self._buffer if number > sequence]
        return frames if len(frames) == self.sequence - sequence else None


class Connection:
    """One websocket, compressed as its query asks. Frames leave in the order in which they were put."""

    def __init__(self, socket: web.WebSocketResponse, request: web.Request) -> None:
        self.socket = socket
        self.request = request
        self.session: Session | None = None
        # Nothing is sent or read, but the TCP connection stays open.
        self.zombie = False
        # The client's close code; none if it just disconnected.
        self.goodbye: int | None = None
        # The fake's own close code.
        self.sent_code: int | None = None
        self.payload_compression = False
        self.sent_by_client: deque[float] = deque()
        self.last_heartbeat = asyncio.get_running_loop().time()
        asked = request.query.get("compress")
        self._stream: Callable[[bytes], bytes] | None = None
        if asked == "zlib-stream":
            self._stream = zlib_stream()
        elif asked == "zstd-stream":
            self._stream = zstd_stream()
        self._frames: deque[bytes | int] = deque()
        self._waiting = asyncio.Event()
        self._room = asyncio.Event()

    @property
    def shard(self) -> int | None:
        return None if self.session is None else self.session.shard

    def put(self, frame: bytes | int) -> None:
        """Queues a frame; a number closes the connection with that code, after what was put before."""
        if not self.zombie:
            self._push(frame)

    def _push(self, frame: bytes | int) -> None:
        self._frames.append(frame)
        self._waiting.set()
        if len(self._frames) > MOST_FRAMES:
            self.leave()
            self.cut()

    async def send(self, payload: Json) -> None:
        self.put(encode(payload))

    async def room(self) -> None:
        """Waits until few frames wait."""
        while len(self._frames) >= WAITING_FRAMES and not self.zombie:
            self._room.clear()
            await self._room.wait()

    async def write(self) -> int | None:
        """Sends the queued frames, until one is the code to close with, or the connection has ended."""
        with contextlib.suppress(ConnectionError, RuntimeError):
            while True:
                while self._frames:
                    frame = self._frames.popleft()
                    if len(self._frames) < WAITING_FRAMES // 2:
                        self._room.set()
                    if isinstance(frame, int):
                        return frame
                    await self._write_frame(frame)
                self._waiting.clear()
                await self._waiting.wait()
        return None

    async def _write_frame(self, frame: bytes) -> None:
        if self._stream is not None:
            await self.socket.send_bytes(self._stream(frame))
        elif self.payload_compression and len(frame) > COMPRESSED_PAYLOAD:
            await self.socket.send_bytes(zlib.compress(frame))
        else:
            await self.socket.send_str(frame.decode())

    def leave(self) -> None:
        """Lets go of the session, which then waits for a RESUME."""
        if self.session is not None and self.session.connection is self:
            self.session.connection = None
        self._room.set()

    async def close(self, code: int | None) -> None:
        """Closes with a code; without one the TCP connection is cut."""
        self.leave()
        if code is not None:
            self._push(code)
        else:
            self.cut()

    def cut(self) -> None:
        if self.request.transport is not None:
            self.request.transport.abort()


def zlib_stream() -> Callable[[bytes], bytes]:
    stream = zlib.compressobj(1)
    return lambda data: stream.compress(data) + stream.flush(zlib.Z_SYNC_FLUSH)


def zstd_stream() -> Callable[[bytes], bytes]:
    """One zstd stream; Python has it since 3.14, before that a package."""
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]

        modern: Any = zstd.ZstdCompressor()
        return lambda data: modern.compress(data, zstd.ZstdCompressor.FLUSH_BLOCK)  # type: ignore[no-any-return,unused-ignore]
    except ImportError:
        import zstandard

        inner = zstandard.ZstdCompressor().compressobj()
        return lambda data: inner.compress(data) + inner.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
