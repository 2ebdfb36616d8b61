"""A bare client of the gateway and of the REST API, which hides nothing."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from fake_discord import FakeDiscord

Json = dict[str, Any]
# Only a failing test waits this long.
PATIENCE = 300.0
GUILDS, MEMBERS, PRESENCES = 1 << 0, 1 << 1, 1 << 8
G1, G2 = 1 << 22, 2 << 22


def guild(number: int, people: int = 2, **fields: Any) -> Json:
    members = [{"user": {"id": str(10 + place), "username": f"person{place}"}, "roles": []} for place in range(people)]
    return {"id": str(number << 22), "name": f"Harbour {number}", "members": members, **fields}


async def until(condition: Callable[[], Any]) -> None:
    """For what the fake's record does not show: the state of a library."""

    async def poll() -> None:
        while not condition():
            await asyncio.sleep(0.01)

    await asyncio.wait_for(poll(), PATIENCE)


class Closed(Exception):
    def __init__(self, code: int | None) -> None:
        super().__init__(f"closed with {code}")
        self.code = code


class Gateway:
    def __init__(self, fake: FakeDiscord, socket: aiohttp.ClientWebSocketResponse, inflate: Callable[[bytes], bytes] | None) -> None:
        self.fake = fake
        self.socket = socket
        self.inflate = inflate
        self.sequence = 0
        self.session = ""

    async def next(self) -> Json:
        """The next payload; raises Closed at the end."""
        message = await asyncio.wait_for(self.socket.receive(), PATIENCE)
        if message.type == aiohttp.WSMsgType.TEXT:
            text: str | bytes = message.data
        elif message.type == aiohttp.WSMsgType.BINARY:
            text = self.inflate(message.data) if self.inflate else zlib.decompress(message.data)
        else:
            raise Closed(self.socket.close_code)
        payload: Json = json.loads(text)
        if payload["s"] is not None:
            self.sequence = payload["s"]
        return payload

    async def event(self, kind: str) -> Json:
        """The data of the next event, which must be of this type."""
        payload = await self.next()
        assert payload["t"] == kind, payload
        data: Json = payload["d"]
        return data

    async def closed(self) -> int | None:
        """The close code, whatever comes before it."""
        while True:
            try:
                await self.next()
            except Closed as end:
                return end.code

    async def send(self, op: int, data: Any) -> None:
        await self.socket.send_json({"op": op, "d": data})

    async def identify(self, intents: Any = GUILDS, **fields: Any) -> None:
        await self.send(2, {"token": self.fake.token, "intents": intents, "properties": {}, **fields})

    async def ready(self, intents: Any = GUILDS, **fields: Any) -> Json:
        await self.identify(intents, **fields)
        data = await self.event("READY")
        self.session = data["session_id"]
        return data

    async def resume(self, session: str, sequence: int) -> None:
        await self.send(6, {"token": self.fake.token, "session_id": session, "seq": sequence})

    async def request_members(self, guild: int, **fields: Any) -> None:
        await self.send(8, {"guild_id": str(guild), **({"query": "", "limit": 0} if "user_ids" not in fields else {}), **fields})


class Api:
    def __init__(self, fake: FakeDiscord, http: aiohttp.ClientSession) -> None:
        self.fake = fake
        self.http = http

    async def call(self, method: str, path: str, **options: Any) -> tuple[int, Any, Any]:
        """Status, body, headers."""
        headers = {"Authorization": f"Bot {self.fake.token}", **options.pop("headers", {})}
        async with self.http.request(method, f"{self.fake.addresses()['api_v10']}{path}", headers=headers, **options) as response:
            is_json = response.content_type == "application/json"
            return response.status, await response.json() if is_json else await response.text(), response.headers

    async def get(self, path: str) -> tuple[int, Any]:
        status, body, _ = await self.call("GET", path)
        return status, body


@asynccontextmanager
async def connected(fake: FakeDiscord, compress: str | None = None, **query: str) -> AsyncIterator[Gateway]:
    """A connection that has said HELLO."""
    inflate: Callable[[bytes], bytes] | None = None
    if compress == "zlib-stream":
        inflate = zlib.decompressobj().decompress
    elif compress == "zstd-stream":
        import zstandard

        inflate = zstandard.ZstdDecompressor().decompressobj().decompress
    asked = {"v": "10", "encoding": "json", **({"compress": compress} if compress else {}), **query}
    async with (
        aiohttp.ClientSession() as http,
        http.ws_connect(fake.gateway_url(), params=asked, max_msg_size=0) as socket,
    ):
        gateway = Gateway(fake, socket, inflate)
        hello = await gateway.next()
        assert hello["op"] == 10, hello
        yield gateway
