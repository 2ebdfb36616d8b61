"""One request and its answer, over aiohttp."""

from __future__ import annotations

import asyncio
import email.utils
import json
import time
from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp

ANSWER_BYTES = 1024 * 1024


class TransportError(Exception):
    """No answer came."""


@dataclass
class Answer:
    status: int
    data: dict[str, Any] = field(default_factory=dict)
    message: str = ""
    retry_after: float | None = None

    @property
    def error(self) -> str:
        return str(self.data.get("error", ""))


class Transport(Protocol):
    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | AsyncIterable[bytes] | None
    ) -> Answer:
        """The answer, whatever its status; `TransportError` if none came."""

    async def close(self) -> None:
        """Lets go of the connections."""


def seconds_to_wait(value: str | None) -> float | None:
    """What a `Retry-After` header asks for: seconds, or a date."""
    if not value:
        return None
    try:
        return max(0.0, float(int(value)))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


class HttpTransport:
    def __init__(self, url: str, key: str) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}", "User-Agent": "bot-companion-python"}
        self._session: aiohttp.ClientSession | None = None

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | AsyncIterable[bytes] | None
    ) -> Answer:
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(headers=self._headers)
        # A snapshot may take as long as it likes, as long as bytes flow.
        whole = 30.0 if body is None or isinstance(body, bytes) else None
        timeout = aiohttp.ClientTimeout(total=whole, sock_connect=10, sock_read=60 if whole is None else 20)
        try:
            async with self._session.request(
                method, self._url + path, headers=headers, data=body, timeout=timeout, allow_redirects=False
            ) as response:
                text = await response.content.read(ANSWER_BYTES)
                while len(text) < ANSWER_BYTES and not response.content.at_eof():
                    text += await response.content.read(ANSWER_BYTES - len(text))
                return self._answer(response.status, response.headers.get("Retry-After"), text)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError) as error:
            raise TransportError(f"{type(error).__name__}: {error}".rstrip(": ")) from error

    @staticmethod
    def _answer(status: int, retry_after: str | None, text: bytes) -> Answer:
        try:
            envelope = json.loads(text)
        except ValueError:
            envelope = None
        if not isinstance(envelope, dict):
            if status < 300:
                # Some other server, or a captive portal: its 200 acknowledges nothing.
                raise TransportError("the answer is not of a bot-companion service")
            envelope = {}
        data = envelope.get("data")
        return Answer(
            status=status,
            data=data if isinstance(data, dict) else {},
            message=str(envelope.get("message", "")),
            retry_after=seconds_to_wait(retry_after),
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
