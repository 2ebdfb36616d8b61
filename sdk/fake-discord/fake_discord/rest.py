"""The REST API: what comes before a route (faults, the token, rate limits), and what an answer looks like."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aiohttp import web

from .buckets import Buckets, Limit, refusal
from .faults import Fault
from .routes import ApiError, Call, Routes
from .shapes import Json

if TYPE_CHECKING:
    from .server import FakeDiscord

# Bodies that are longer are not recorded.
RECORDED_BODY = 16 * 1024
# Set by the proxy in front of Discord's API; discord.py treats a 429 without this header as a ban.
PROXY = {"Via": "1.1 fake"}


def response(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    if body is None:
        return web.Response(status=status, headers=headers)
    if isinstance(body, str):
        return web.Response(text=body, status=status, headers=headers, content_type="text/html")
    # Without a charset, like Discord: discord.py compares the whole header.
    return web.Response(body=json.dumps(body).encode(), status=status, headers=headers, content_type="application/json")


class Rest:
    def __init__(self, fake: FakeDiscord) -> None:
        self.fake = fake
        self.routes = Routes(fake)
        self.buckets = Buckets()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = re.sub(r"^/v\d+(?=/)", "", "/" + request.match_info["rest"])
        what = f"{request.method} {path}"
        body = await self._body(request)
        guild = path.split("/")[2] if path.startswith("/guilds/") else None
        self.fake.requests[what] += 1
        entry = self.fake.record.add(what, guild=guild, query=dict(request.query), body=body, status=None)
        fault = self.fake.faults.strike(what, guild)
        if fault is not None:
            entry["fault"] = fault.do
            early = await self._fail(request, fault, entry)
            if early is not None:
                entry["status"] = early.status
                return early
        answer = await self._answer(request, what, path, body, entry)
        entry["status"] = answer.status
        if fault is not None and fault.do == "truncate":
            return await self._truncate(request, answer)
        return answer

    @staticmethod
    async def _body(request: web.Request) -> Any:
        raw = await request.read()
        if len(raw) > RECORDED_BODY or not request.content_type.endswith("json"):
            return None
        try:
            return json.loads(raw)
        except ValueError:
            return None

    async def _answer(self, request: web.Request, what: str, path: str, body: Any, entry: Json) -> web.Response:
        open_to_all = what == "GET /gateway" or path.startswith(("/interactions/", "/webhooks/"))
        if not open_to_all and request.headers.get("Authorization") != f"Bot {self.fake.world.token}":
            return response({"message": "401: Unauthorized", "code": 0}, 401, PROXY)
        world = self.fake.world
        taken = self.buckets.take(what, world.rate_limits, world.global_rate_limit)
        if isinstance(taken, Limit):
            return self._limited(taken, entry)
        headers = {**PROXY, **taken}
        try:
            status, data = await self.routes.find(Call(request.method, path, dict(request.query), body))
        except ApiError as error:
            if error.is_unknown_route:
                self.fake.unknown[what] += 1
            return response(error.body(), error.status, headers)
        return response(data, status, headers)

    def _limited(self, limit: Limit, entry: Json) -> web.Response:
        self.fake.rate_limited[limit.scope] += 1
        entry["limited"] = limit.scope
        body, headers = refusal(limit)
        return response(body, 429, headers if limit.scope == "edge" else {**PROXY, **headers})

    async def _fail(self, request: web.Request, fault: Fault, entry: Json) -> web.Response | None:
        """What a fault answers; None: the request goes on."""
        if fault.do == "status":
            body = {"message": f"{fault.status}: fault on command", "code": 0} if fault.body is None else fault.body
            return response(body, fault.status, PROXY)
        if fault.do == "rate_limit":
            headers = {"X-RateLimit-Global": "true"} if fault.scope == "global" else {}
            return self._limited(Limit(fault.retry_after, fault.scope, headers), entry)
        if fault.do == "slow":
            await asyncio.sleep(fault.seconds)
            return None
        if fault.do == "hang":
            await fault.wait()
        if fault.do in ("hang", "cut"):
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=500)
        return None

    @staticmethod
    async def _truncate(request: web.Request, whole: web.Response) -> web.StreamResponse:
        """Promises the whole answer, sends half of it, and cuts the connection."""
        body = whole.body if isinstance(whole.body, bytes) else b""
        half = web.StreamResponse(status=whole.status, headers={"Content-Type": whole.content_type, **PROXY})
        half.content_length = len(body)
        await half.prepare(request)
        await half.write(body[: len(body) // 2])
        if request.transport is not None:
            # Not abort(), which would throw away what is still to be sent.
            request.transport.close()
        return half
