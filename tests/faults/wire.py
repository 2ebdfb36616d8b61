"""HTTP/1.1 over asyncio with as little work as possible, for load."""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import Iterable

NO_BODY = {204, 304}


class Closed(Exception):
    """The service closed the connection instead of answering."""


class Wire:
    """One connection that stays open as long as the service lets it."""

    def __init__(self, url: str, source: str = "127.0.0.1") -> None:
        parts = urllib.parse.urlsplit(url)
        self.host, self.port, self.source = str(parts.hostname), parts.port, source
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def send(self, text: bytes) -> None:
        if self.writer is None or self.writer.is_closing():
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port, local_addr=(self.source, 0), limit=1 << 20)
        self.writer.write(text)
        # After refusing a body, the service closes its end while the body is still being sent.
        try:
            await self.writer.drain()
        except ConnectionError:
            pass

    async def head(self) -> tuple[int, dict[str, str]]:
        assert self.reader is not None
        try:
            while True:
                block = await self.reader.readuntil(b"\r\n\r\n")
                first, *lines = block.decode("latin-1").split("\r\n")
                status = int(first.split(" ", 2)[1])
                if status >= 200:
                    return status, {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
        except (asyncio.IncompleteReadError, ConnectionError, OSError) as error:
            self.close()
            raise Closed(repr(error)) from None

    async def body(self, method: str, status: int, headers: dict[str, str]) -> bytes:
        assert self.reader is not None
        try:
            if method == "HEAD" or status in NO_BODY:
                text = b""
            elif "content-length" in headers:
                text = await self.reader.readexactly(int(headers["content-length"]))
            else:
                text = await self.reader.read()
                self.close()
        except (asyncio.IncompleteReadError, ConnectionError, OSError) as error:
            self.close()
            raise Closed(repr(error)) from None
        if headers.get("connection", "").lower() == "close":
            self.close()
        return text

    async def ask(self, method: str, path: str, headers: Iterable[tuple[str, str]] = (), body: bytes | None = None) -> tuple[int, dict[str, str], bytes]:
        text = "".join(f"{name}: {value}\r\n" for name, value in headers)
        if body is not None:
            text += f"Content-Length: {len(body)}\r\n"
        await self.send(f"{method} {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n{text}\r\n".encode() + (body or b""))
        status, got = await self.head()
        return status, got, await self.body(method, status, got)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None
