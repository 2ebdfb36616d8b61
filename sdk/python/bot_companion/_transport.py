"""The transport: one HTTP request and its response, and what all requests have in common."""

from __future__ import annotations

import asyncio
import email.utils
import json
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import aiohttp

from ._limits import Limits
from ._status import Status

ANSWER_BYTES = 1024 * 1024
PLAIN_BYTES = 16 * 1024
"""Bodies up to this size are sent as they are."""
PIECE_BYTES = 256 * 1024
"""How many bytes of lines to compress into one chunk of a body."""

TOO_LARGE = "the service, or a proxy in front of it, refuses a body of this size"
NO_SERVICE = "the response is not from a bot-companion service (is the address right, with its path?)"


class TransportError(Exception):
    """There was no response, or not from a bot-companion service."""


@dataclass
class Answer:
    status: int
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    message: str = ""
    retry_after: str | None = None

    def refused(self, sent: int) -> dict[int, str]:
        """The lines that a 422 refuses, counted from 0 and in order, and why. Only lines that were sent count."""
        if self.status != 422:
            return {}
        named = self.data.get("lines")
        # An older service only names the first one.
        found: list[Any] = [{**self.data, "reason": self.reason}, *(named if isinstance(named, list) else [])]  # pyright: ignore[reportUnknownArgumentType]
        entries = [cast(dict[str, Any], entry) for entry in found if isinstance(entry, dict)]
        lines = {entry.get("line"): str(entry.get("reason") or self.reason) for entry in entries}
        return {number - 1: lines[number] for number in range(1, sent + 1) if number in lines}

    @property
    def next(self) -> int:
        value = self.data.get("next")
        return value if isinstance(value, int) and not isinstance(value, bool) else 1

    @property
    def is_gap(self) -> bool:
        """The service has lost something that this process sent."""
        return self.status == 409 and self.data.get("error") != "snapshot_outdated"

    def shards(self, name: str, count: int) -> list[int]:
        """The shards of a bot with this many in one of the response's lists: `replaced` or `free`."""
        listed: Any = self.data.get(name)
        entries: list[Any] = listed if isinstance(listed, list) else []  # pyright: ignore[reportUnknownVariableType]
        shards = [cast(dict[str, Any], shard) for shard in entries if isinstance(shard, dict)]
        ids = [shard.get("shard_id") for shard in shards if shard.get("shard_count") == count]
        return [id for id in ids if isinstance(id, int)]

    @property
    def reason(self) -> str:
        if self.status == 413:
            return TOO_LARGE
        return str(self.data.get("reason") or self.message or self.data.get("error") or "no reason given")


class Transport(Protocol):
    async def request(self, method: str, path: str, headers: Mapping[str, str], lines: AsyncIterator[bytes]) -> Answer:
        """The response, whatever its status. Raises `TransportError` if there is none."""
        ...

    async def close(self) -> None: ...


class Failure(Exception):
    """The same request has to be sent again later."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


def retry_delay(limits: Limits, random: Callable[[], float], failures: int, failure: Failure | None = None) -> float:
    """How long to wait after this many failures in a row."""
    backoff = min(limits.longest_retry, limits.first_retry * 2.0 ** min(failures - 1, 32))
    backoff = backoff / 2 + random() * backoff / 2
    if failure is None or not failure.retry_after:
        return backoff
    asked = min(failure.retry_after, limits.longest_retry_after)
    asked += random() * min(1.0, asked)
    return max(backoff, asked)


def seconds_to_wait(value: str | None, now: float) -> float | None:
    """What a `Retry-After` header asks for: seconds, or a date."""
    if not value:
        return None
    try:
        return max(0.0, float(int(value)))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, TypeError):
        return None


class Channel:
    """Makes requests: counts them, gives up on those that stall, notices outages, and logs what else the service says in its response."""

    def __init__(self, transport: Transport, instance: str, limits: Limits, status: Status, time: Callable[[], float]) -> None:
        self._transport = transport
        self._instance = instance
        self._limits = limits
        self._status = status
        self._time = time
        self.when_back: Callable[[], None] = lambda: None
        """Called when an outage has ended."""

    async def send(
        self,
        method: str,
        path: str,
        lines: AsyncIterator[bytes] | Iterable[bytes],
        number: int | None = None,
        after: int | None = None,
        handles: Callable[[Answer], bool] = lambda answer: False,
    ) -> Answer:
        """The response, if it's an acknowledgement or one that the caller handles. Anything else is a `Failure`."""
        loop = asyncio.get_running_loop()
        headers = {"Feed-Instance": self._instance}
        if number is not None:
            headers["Feed-Sequence"] = str(number)
        if after is not None:
            headers["Feed-After"] = str(after)
        kind = "heartbeat" if path == "/bot/heartbeat" else "data"
        self._status.counters["requests"] += 1
        try:
            answer = await self._exchange(method, path, headers, lines)
        except TransportError as error:
            self._status.failed(kind, str(error), loop.time(), key_refused=False)
            raise Failure(str(error)) from None
        if answer.status == 200 or handles(answer):
            if self._status.succeeded(kind, loop.time()):
                self.when_back()
            self._note(answer)
            return answer
        reason = f"status {answer.status}, {answer.reason}"
        if answer.status != 429:
            self._status.failed(kind, reason, loop.time(), key_refused=answer.status == 401)
        raise Failure(reason, seconds_to_wait(answer.retry_after, self._time()))

    async def _exchange(
        self, method: str, path: str, headers: Mapping[str, str], lines: AsyncIterator[bytes] | Iterable[bytes]
    ) -> Answer:
        loop = asyncio.get_running_loop()
        moved = loop.time()

        async def watched() -> AsyncIterator[bytes]:
            nonlocal moved
            async for line in plain(lines):
                moved = loop.time()
                yield line
                moved = loop.time()

        request = asyncio.ensure_future(self._transport.request(method, path, headers, watched()))
        try:
            while not request.done():
                left = moved + self._limits.stall_timeout - loop.time()
                if left <= 0:
                    raise TransportError(f"no progress for {self._limits.stall_timeout:g} s")
                await asyncio.wait({request}, timeout=left)
            return request.result()
        finally:
            request.cancel()
            await asyncio.gather(request, return_exceptions=True)

    def _note(self, answer: Answer) -> None:
        ignored = answer.data.get("ignored")
        if isinstance(ignored, int):
            self._status.counters["lines_ignored"] += ignored
        reasons = answer.data.get("reasons")
        for reason in map(str, reasons if isinstance(reasons, list) else ()):  # pyright: ignore[reportUnknownArgumentType]
            # It may start with a count.
            self._status.warn(f"the service ignores something: {reason}", once=("reason", reason.lstrip("0123456789")))

    async def close(self) -> None:
        await self._transport.close()


async def plain(lines: AsyncIterator[bytes] | Iterable[bytes]) -> AsyncIterator[bytes]:
    if isinstance(lines, AsyncIterator):
        async for line in lines:
            yield line
    else:
        for line in lines:
            yield line


class HttpTransport:
    """Uses aiohttp. Bodies are sent as gzip, and are never completely in memory."""

    def __init__(self, url: str, key: str, limits: Limits | None = None) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}", "User-Agent": "bot-companion-python"}
        self._limits = limits or Limits()
        self._session: aiohttp.ClientSession | None = None

    async def request(self, method: str, path: str, headers: Mapping[str, str], lines: AsyncIterator[bytes]) -> Answer:
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(headers=self._headers)
        # The channel gives up on stalled requests; a big snapshot can take as long as it needs.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._limits.stall_timeout)
        kind = "application/json" if path == "/bot/heartbeat" else "application/x-ndjson"
        sent = {**headers, "Content-Type": kind}
        first = await self._small(lines)
        body: bytes | AsyncIterator[bytes] = first
        if len(first) > PLAIN_BYTES:
            sent["Content-Encoding"] = "gzip"
            body = pack(first, lines, self._limits.flush_interval)
        try:
            async with self._session.request(
                method, self._url + path, headers=sent, data=body, timeout=timeout, allow_redirects=False
            ) as response:
                text = b""
                while len(text) < ANSWER_BYTES and (piece := await response.content.read(ANSWER_BYTES - len(text))):
                    text += piece
                return self._answer(response.status, response.headers.get("Retry-After"), text)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError) as error:
            raise TransportError(f"{type(error).__name__}: {error}".rstrip(": ")) from error

    @staticmethod
    async def _small(lines: AsyncIterator[bytes]) -> bytes:
        """The first lines; all of them if they are only a few bytes."""
        first = bytearray()
        async for line in lines:
            first += line
            if len(first) > PLAIN_BYTES:
                break
        return bytes(first)

    @staticmethod
    def _answer(status: int, retry_after: str | None, text: bytes) -> Answer:
        try:
            found: Any = json.loads(text)
        except ValueError:
            found = None
        envelope = cast(dict[str, Any], found) if isinstance(found, dict) else {}
        if "code" not in envelope:
            if status < 300:
                # Some other server, or a captive portal: its 200 acknowledges nothing.
                raise TransportError(NO_SERVICE)
            envelope = {}
        given = envelope.get("data")
        data = cast(dict[str, Any], given) if isinstance(given, dict) else {}
        return Answer(status, data, str(envelope.get("message", "")), retry_after)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


async def pack(first: bytes, lines: AsyncIterator[bytes], flush_interval: float) -> AsyncIterator[bytes]:
    """The lines as gzip, in chunks. If lines come slowly, something is sent at least once per `flush_interval`."""
    squeeze = zlib.compressobj(5, zlib.DEFLATED, 31)
    waiting = bytearray(first)
    full, room = asyncio.Event(), asyncio.Event()

    async def read() -> None:
        async for line in lines:
            waiting.extend(line)
            if len(waiting) >= PIECE_BYTES:
                room.clear()
                full.set()
                await room.wait()

    reading = asyncio.ensure_future(read())
    try:
        while not reading.done():
            filled = asyncio.ensure_future(full.wait())
            await asyncio.wait({reading, filled}, timeout=flush_interval, return_when=asyncio.FIRST_COMPLETED)
            filled.cancel()
            full.clear()
            if waiting:
                yield squeeze.compress(bytes(waiting)) + squeeze.flush(zlib.Z_SYNC_FLUSH)
                waiting.clear()
            room.set()
        reading.result()
        yield squeeze.compress(bytes(waiting)) + squeeze.flush()
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
