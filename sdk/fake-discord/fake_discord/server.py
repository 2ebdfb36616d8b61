"""The sockets: REST under /api, the gateway, and the control API by which a test plays fate."""

from __future__ import annotations

import asyncio
import json
import secrets
import zlib
from collections import Counter
from typing import Any

from aiohttp import WSMsgType, web

from .world import Json, World

DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, REQUEST_MEMBERS, INVALID_SESSION, HELLO, ACKNOWLEDGED = (
    0, 1, 2, 6, 7, 8, 9, 10, 11,
)  # fmt: skip


def answer(body: Any, status: int = 200) -> web.Response:
    # Without a charset, as Discord: discord.py compares the header as a whole.
    return web.Response(body=json.dumps(body).encode(), status=status, content_type="application/json")


class Session:
    """One identified shard. It outlives its connection, so that RESUME can replay what was missed."""

    def __init__(self, shard: int, count: int) -> None:
        self.id = secrets.token_hex(16)
        self.shard = shard
        self.count = count
        self.log: list[Json] = []
        self.connection: Connection | None = None

    async def dispatch(self, kind: str, data: Json) -> None:
        payload = {"op": DISPATCH, "t": kind, "s": len(self.log) + 1, "d": data}
        self.log.append(payload)
        if self.connection is not None:
            await self.connection.send(payload)


class Connection:
    """One websocket, compressed as its query asks."""

    def __init__(self, socket: web.WebSocketResponse, request: web.Request) -> None:
        self.socket = socket
        self.request = request
        self.session: Session | None = None
        asked = request.query.get("compress")
        self.deflate = zlib.compressobj() if asked == "zlib-stream" else None
        self.zstd = zstd_stream() if asked == "zstd-stream" else None

    async def send(self, payload: Json) -> None:
        # Discord sends all four keys always, and some libraries count on it.
        text = json.dumps({"op": None, "d": None, "s": None, "t": None, **payload})
        # Both compressors are streams: a frame out of turn would break the next one, and nothing here waits between the two.
        try:
            if self.deflate is not None:
                frame = self.deflate.compress(text.encode()) + self.deflate.flush(zlib.Z_SYNC_FLUSH)
                await self.socket.send_bytes(frame)
            elif self.zstd is not None:
                await self.socket.send_bytes(self.zstd(text.encode()))
            else:
                await self.socket.send_str(text)
        except (ConnectionError, RuntimeError):
            pass

    async def close(self, code: int | None) -> None:
        if self.session is not None and self.session.connection is self:
            self.session.connection = None
        if code is not None:
            await self.socket.close(code=code)
        elif self.request.transport is not None:
            self.request.transport.abort()


def zstd_stream() -> Any:
    """A compressor of one stream, from whichever library is there."""
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]

        stream = zstd.ZstdCompressor()
        return lambda data: stream.compress(data, zstd.ZstdCompressor.FLUSH_BLOCK)
    except ImportError:
        import zstandard  # type: ignore[import-not-found,unused-ignore]

        inner = zstandard.ZstdCompressor().compressobj()
        return lambda data: inner.compress(data) + inner.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)


class FakeDiscord:
    """The whole of it; `start`, then point a bot at `addresses()`."""

    def __init__(self, world: Json | None = None) -> None:
        self.world = World(world)
        self.sessions: dict[str, Session] = {}
        self.connections: set[Connection] = set()
        self.acknowledge = True
        self.counts: Counter[str] = Counter()
        self.per_shard: dict[str, Counter[str]] = {}
        self.requests: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        app = web.Application(client_max_size=256 * 1024 * 1024)
        app.router.add_get("/gateway", self._gateway)
        app.router.add_get("/gateway/", self._gateway)
        app.router.add_get("/control/stats", self._stats)
        app.router.add_get("/control/world", self._show_world)
        app.router.add_post("/control/world", self._load_world)
        for name in ("emit", "drop", "reconnect", "invalid_session", "acknowledge"):
            app.router.add_post(f"/control/{name}", getattr(self, f"_{name}"))
        app.router.add_route("*", "/api/{rest:.*}", self._rest)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        bound = self._runner.addresses[0][1]
        self.url = f"http://{host}:{bound}"

    async def stop(self) -> None:
        for connection in list(self.connections):
            await connection.close(None)
        if self._runner is not None:
            await self._runner.cleanup()

    def addresses(self) -> dict[str, str]:
        return {
            "url": self.url,
            "api": f"{self.url}/api",
            "api_v10": f"{self.url}/api/v10",
            "gateway": self._gateway_url(),
            "control": f"{self.url}/control",
            "token": self.world.token,
        }

    def _gateway_url(self) -> str:
        return f"{self.url.replace('http', 'ws', 1)}/gateway"

    def _count(self, what: str, shard: int) -> None:
        self.counts[what] += 1
        self.per_shard.setdefault(str(shard), Counter())[what] += 1

    # REST

    async def _rest(self, request: web.Request) -> web.StreamResponse:
        path = "/" + request.match_info["rest"]
        path = path.removeprefix("/v10")
        known = f"{request.method} {path}"
        self.requests[known] += 1
        if known == "GET /gateway":
            return answer({"url": self._gateway_url()})
        if request.headers.get("Authorization") != f"Bot {self.world.token}":
            return answer({"message": "401: Unauthorized", "code": 0}, status=401)
        application = {
            "id": self.world.user["id"],
            "name": self.world.user["username"],
            "icon": None,
            "description": "",
            "bot_public": True,
            "bot_require_code_grant": False,
            "verify_key": "00",
            "flags": 0,
            "owner": {"id": "901", "username": "owner", "discriminator": "0", "avatar": None, "global_name": None},
            "team": None,
            "rpc_origins": [],
            "tags": [],
            "bot": self.world.user,
        }
        if known == "GET /gateway/bot":
            limit = {"total": 1000, "remaining": 999, "reset_after": 86400000, "max_concurrency": 16}
            body = {"url": self._gateway_url(), "shards": self.world.shards, "session_start_limit": limit}
            return answer(body)
        if known == "GET /users/@me":
            return answer({**self.world.user, "verified": True, "mfa_enabled": False, "locale": "en-US"})
        if known in ("GET /applications/@me", "GET /oauth2/applications/@me"):
            return answer(application)
        if path.startswith(f"/applications/{application['id']}/") and path.endswith("/commands"):
            return answer([])
        if known.startswith("GET /guilds/"):
            parts = path.split("/")
            guild = self.world.guilds.get(int(parts[2])) if parts[2].isdigit() else None
            if guild is not None and len(parts) == 3:
                return answer({**guild.base(), "approximate_member_count": guild.member_count})
            if guild is not None and len(parts) == 5 and parts[3] == "members" and parts[4] in guild.members:
                return answer(guild.members[parts[4]])
        self.unknown[known] += 1
        return answer({"message": "404: Not Found", "code": 0}, status=404)

    # The gateway

    async def _gateway(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(max_msg_size=0, compress=False)
        await socket.prepare(request)
        connection = Connection(socket, request)
        self.connections.add(connection)
        self.counts["connected"] += 1
        try:
            await connection.send({"op": HELLO, "d": {"heartbeat_interval": self.world.heartbeat_interval}})
            async for message in socket:
                if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                    await self._received(connection, json.loads(message.data))
        finally:
            self.connections.discard(connection)
            if connection.session is not None and connection.session.connection is connection:
                connection.session.connection = None
        return socket

    async def _received(self, connection: Connection, payload: Json) -> None:
        op, data = payload.get("op"), payload.get("d")
        if op == HEARTBEAT:
            self._count("heartbeats", connection.session.shard if connection.session else -1)
            if self.acknowledge:
                await connection.send({"op": ACKNOWLEDGED})
        elif op == IDENTIFY:
            await self._identify(connection, data or {})
        elif op == RESUME:
            await self._resume(connection, data or {})
        elif op == REQUEST_MEMBERS and connection.session is not None:
            await self._members(connection.session, data or {})

    async def _identify(self, connection: Connection, data: Json) -> None:
        if data.get("token", "").removeprefix("Bot ") != self.world.token:
            self.counts["refused"] += 1
            return await connection.close(4004)
        shard, count = data.get("shard") or [0, 1]
        if not 0 <= shard < count:
            self.counts["refused"] += 1
            return await connection.close(4010)
        self._count("identifies", shard)
        session = connection.session = Session(shard, count)
        session.connection = connection
        self.sessions[session.id] = session
        guilds = list(self.world.of_shard(shard, count))
        ready = {
            "v": 10,
            "user": {**self.world.user, "verified": True, "mfa_enabled": False, "flags": 0},
            "guilds": [{"id": str(guild.id), "unavailable": True} for guild in guilds],
            "private_channels": [],
            "relationships": [],
            "session_id": session.id,
            "session_type": "normal",
            "resume_gateway_url": self._gateway_url(),
            "shard": [shard, count],
            "application": {"id": self.world.user["id"], "flags": 0},
            "_trace": ["fake"],
        }
        await session.dispatch("READY", ready)
        for guild in guilds:
            if not guild.unavailable:
                await session.dispatch("GUILD_CREATE", guild.whole())
        return None

    async def _resume(self, connection: Connection, data: Json) -> None:
        session = self.sessions.get(data.get("session_id", ""))
        if session is None or data.get("token", "").removeprefix("Bot ") != self.world.token:
            return await connection.send({"op": INVALID_SESSION, "d": False})
        self._count("resumes", session.shard)
        connection.session = session
        seen = int(data.get("seq") or 0)
        for payload in session.log[seen:]:
            await connection.send(payload)
        session.connection = connection
        await session.dispatch("RESUMED", {"_trace": ["fake"]})
        return None

    async def _members(self, session: Session, data: Json) -> None:
        guild = self.world.guilds.get(int(data.get("guild_id", 0)))
        if guild is None:
            return
        listed = [guild.bot, *guild.members.values()]
        if data.get("user_ids"):
            wanted = data["user_ids"] if isinstance(data["user_ids"], list) else [data["user_ids"]]
            listed = [entry for entry in listed if entry["user"]["id"] in {str(one) for one in wanted}]
        elif data.get("query"):
            listed = [entry for entry in listed if entry["user"]["username"].startswith(data["query"])]
        chunks = [listed[at : at + 1000] for at in range(0, len(listed), 1000)] or [[]]
        for index, chunk in enumerate(chunks):
            part: Json = {
                "guild_id": str(guild.id),
                "members": chunk,
                "chunk_index": index,
                "chunk_count": len(chunks),
                "not_found": [],
            }
            if data.get("presences"):
                part["presences"] = []
            if data.get("nonce"):
                part["nonce"] = data["nonce"]
            await session.dispatch("GUILD_MEMBERS_CHUNK", part)

    # Control

    async def _load_world(self, request: web.Request) -> web.Response:
        self.world = World(await request.json())
        return answer(self.addresses())

    async def _show_world(self, request: web.Request) -> web.Response:
        return answer(self.world.export())

    async def _stats(self, request: web.Request) -> web.Response:
        return answer(self.stats())

    def stats(self) -> Json:
        names = ("connected", "identifies", "resumes", "heartbeats", "refused")
        return {
            "connections": len(self.connections),
            **{name: self.counts[name] for name in names},
            "per_shard": {shard: dict(counts) for shard, counts in self.per_shard.items()},
            "requests": dict(self.requests),
            "unknown_requests": dict(self.unknown),
        }

    async def emit(self, kind: str, data: Json) -> int:
        """Changes the world, and tells the sessions of the guild's shard."""
        guild, event = self.world.apply(kind, data)
        reached = 0
        for session in list(self.sessions.values()):
            if session.shard == (0 if guild is None else (guild >> 22) % session.count):
                await session.dispatch(kind, event)
                reached += session.connection is not None
        return reached

    async def _emit(self, request: web.Request) -> web.Response:
        body = await request.json()
        try:
            return answer({"delivered": await self.emit(body["type"], body.get("data") or {})})
        except KeyError as error:
            return answer({"message": f"there is no {error}"}, status=400)

    def _chosen(self, body: Json) -> list[Connection]:
        wanted = body.get("shard")
        return [
            connection
            for connection in self.connections
            if wanted is None or (connection.session is not None and connection.session.shard == wanted)
        ]

    @staticmethod
    async def _body(request: web.Request) -> Json:
        body: Json = await request.json() if request.can_read_body else {}
        return body

    async def _drop(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        chosen = self._chosen(body)
        await asyncio.gather(*(connection.close(body.get("code")) for connection in chosen))
        return answer({"dropped": len(chosen)})

    async def _reconnect(self, request: web.Request) -> web.Response:
        chosen = self._chosen(await self._body(request))
        for connection in chosen:
            await connection.send({"op": RECONNECT, "d": None})
        return answer({"sent": len(chosen)})

    async def _invalid_session(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        chosen = self._chosen(body)
        resumable = bool(body.get("resumable", False))
        for connection in chosen:
            if not resumable and connection.session is not None:
                self.sessions.pop(connection.session.id, None)
                connection.session = None
            await connection.send({"op": INVALID_SESSION, "d": resumable})
        return answer({"sent": len(chosen)})

    async def _acknowledge(self, request: web.Request) -> web.Response:
        self.acknowledge = bool((await self._body(request)).get("on", True))
        return answer({"on": self.acknowledge})
