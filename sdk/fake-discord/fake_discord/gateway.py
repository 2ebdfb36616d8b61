"""The gateway: connections, IDENTIFY and RESUME, heartbeats, and the limits on what a client sends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from aiohttp import WSMsgType, web

from . import chunks, intents
from .faults import Fault
from .sessions import (
    ACKNOWLEDGED, HEARTBEAT, HELLO, IDENTIFY, INVALID_SESSION, PRESENCE, REQUEST_MEMBERS, RESUME, VOICE_STATE, Connection, Session, encode,
)  # fmt: skip
from .shapes import Json

if TYPE_CHECKING:
    from .server import FakeDiscord

Result = TypeVar("Result")
NAMES = {
    HEARTBEAT: "HEARTBEAT", IDENTIFY: "IDENTIFY", PRESENCE: "PRESENCE_UPDATE", VOICE_STATE: "VOICE_STATE_UPDATE", RESUME: "RESUME",
    REQUEST_MEMBERS: "REQUEST_GUILD_MEMBERS", 31: "REQUEST_SOUNDBOARD_SOUNDS", 43: "REQUEST_CHANNEL_INFO",
}  # fmt: skip
VERSIONS = {"6", "7", "8", "9", "10"}
PAYLOAD_BYTES = 4096
# The window in seconds of the limit on a client's messages, and the minimum time between two identifies of one bucket.
SEND_WINDOW = 60.0
IDENTIFY_INTERVAL = 5.0
# The maximum number of sessions that wait for a RESUME; beyond it, the oldest expires.
MOST_SESSIONS = 1000


def _shard(identify: Json) -> tuple[int, int]:
    """The shard and the number of shards that an IDENTIFY names; without any it is the only one."""
    match identify.get("shard"):
        case None:
            return 0, 1
        case [int(shard), int(count)]:
            return shard, count
        case _:
            return -1, 0


class Gateway:
    def __init__(self, fake: FakeDiscord) -> None:
        self.fake = fake
        self._last_identify: dict[int, float] = {}
        # When all of a guild's members were last requested.
        self.last_member_request: dict[int, float] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        fault = self.fake.faults.strike("gateway")
        self.fake.record.add("CONNECT", fault=fault.do if fault else None)
        if fault is not None and fault.do == "status":
            return web.Response(status=fault.status, text=str(fault.body or ""))
        if fault is not None and fault.do == "cut":
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=500)
        socket = web.WebSocketResponse(max_msg_size=0, compress=False, autoclose=False)
        await socket.prepare(request)
        connection = Connection(socket, request)
        self.fake.connections.add(connection)
        self.fake.counts["connected"] += 1
        beside = [self._start(self._greet(connection, fault))]
        if self.fake.world.strict_heartbeats:
            beside.append(self._start(self._watch(connection)))
        try:
            await self._serve(connection)
        finally:
            for task in beside:
                task.cancel()
            self._ended(connection)
        return socket

    async def _serve(self, connection: Connection) -> None:
        """Reads and writes, until either side closes. Only then the close frame: who writes it must not read at the same time."""
        reading, writing = self._start(self._read(connection)), self._start(connection.write())
        try:
            await asyncio.wait({reading, writing}, return_when=asyncio.FIRST_COMPLETED)
            code = writing.result() if writing.done() else None
            connection.sent_code = code
            if code is None:
                await reading
        finally:
            for task in (reading, writing):
                task.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)
        await connection.socket.close(code=code or connection.goodbye or 1000)

    async def _read(self, connection: Connection) -> None:
        while True:
            message = await connection.socket.receive()
            if message.type == WSMsgType.CLOSE:
                connection.goodbye = message.data
            if message.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR):
                return
            if message.type in (WSMsgType.TEXT, WSMsgType.BINARY) and not connection.zombie:
                self._received(connection, message.data)

    def _start(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _greet(self, connection: Connection, fault: Fault | None) -> None:
        if connection.request.query.get("v", "6") not in VERSIONS:
            return connection.put(4012)
        if connection.request.query.get("encoding", "json") != "json":
            return connection.put(4002)
        if fault is not None and fault.do == "hang":
            await fault.wait()
        elif fault is not None:
            await asyncio.sleep(fault.seconds)
        await connection.send({"op": HELLO, "d": {"heartbeat_interval": self.fake.world.heartbeat_interval, "_trace": ["fake"]}})
        return None

    async def _watch(self, connection: Connection) -> None:
        """Cuts off a client that sends no heartbeats."""
        loop = asyncio.get_running_loop()
        limit = 1.5 * self.fake.world.heartbeat_interval / 1000
        while (left := connection.last_heartbeat + limit - loop.time()) > 0:
            await asyncio.sleep(left)
        await connection.close(4000)

    def _ended(self, connection: Connection) -> None:
        self.fake.connections.discard(connection)
        self.fake.record.add("CLOSE", shard=connection.shard, code=connection.goodbye, sent=connection.sent_code)
        session = connection.session
        connection.leave()
        # A client that closes with one of these codes ends its session.
        if session is not None and session.connection is None and connection.goodbye in (1000, 1001):
            self.fake.sessions.pop(session.id, None)

    def _received(self, connection: Connection, text: str | bytes) -> None:
        size = len(text.encode() if isinstance(text, str) else text)
        try:
            payload = json.loads(text)
            op, data = payload["op"], payload.get("d")
        except (ValueError, TypeError, KeyError, AttributeError):
            return connection.put(4002)
        if size > PAYLOAD_BYTES:
            return connection.put(4002)
        if op not in NAMES:
            return connection.put(4001)
        if op != HEARTBEAT and self._sends_too_much(connection):
            return connection.put(4008)
        if op in (IDENTIFY, RESUME):
            if connection.session is not None:
                return connection.put(4005)
            if not isinstance(data, dict):
                return connection.put(4002)
        elif op != HEARTBEAT and connection.session is None:
            return connection.put(4003)
        return self._handle(connection, op, data)

    def _handle(self, connection: Connection, op: int, data: Any) -> None:
        if op == HEARTBEAT:
            return self._heartbeat(connection)
        about = data if isinstance(data, dict) else {}
        shard = _shard(about)[0] if op == IDENTIFY else connection.shard
        guild = about.get("guild_id")
        fields = {key: value for key, value in about.items() if key != "token"}
        self.fake.record.add(NAMES[op], shard=shard, guild=guild, data=fields)
        if op in (IDENTIFY, RESUME):
            self._start(self._begin(connection, op, about))
        elif op == REQUEST_MEMBERS:
            session = connection.session
            assert session is not None
            self._start(chunks.answer(self.fake, connection, session, about))

    def _sends_too_much(self, connection: Connection) -> bool:
        now = asyncio.get_running_loop().time()
        sent = connection.sent_by_client
        while sent and sent[0] <= now - SEND_WINDOW:
            sent.popleft()
        sent.append(now)
        return len(sent) > self.fake.world.send_limit

    def _heartbeat(self, connection: Connection) -> None:
        self.fake.count("heartbeats", -1 if connection.shard is None else connection.shard)
        self.fake.record.add("HEARTBEAT", shard=connection.shard)
        connection.last_heartbeat = asyncio.get_running_loop().time()
        fault = self.fake.faults.strike("heartbeats", shard=connection.shard)
        if fault is not None and fault.do in ("cut", "close"):
            self._start(connection.close(None if fault.do == "cut" else fault.code))
        elif fault is None and self.fake.acknowledge:
            connection.put(encode({"op": ACKNOWLEDGED}))

    async def _begin(self, connection: Connection, op: int, data: Json) -> None:
        """IDENTIFY or RESUME, unless a fault comes first."""
        former = self.fake.sessions.get(str(data.get("session_id")))
        shard = _shard(data)[0] if op == IDENTIFY else former.shard if former else None
        fault = self.fake.faults.strike("identify" if op == IDENTIFY else "resume", shard=shard)
        if fault is not None:
            if fault.do in ("cut", "close"):
                return await connection.close(None if fault.do == "cut" else fault.code)
            if fault.do == "invalid_session":
                return await connection.send({"op": INVALID_SESSION, "d": fault.resumable})
            if fault.do == "hang":
                await fault.wait()
            else:
                await asyncio.sleep(fault.seconds)
        if op == IDENTIFY:
            self._identify(connection, data)
        else:
            self._resume(connection, data)
        return None

    def _refuse(self, connection: Connection, code: int) -> None:
        self.fake.counts["refused"] += 1
        connection.put(code)

    def _is_token(self, given: object) -> bool:
        return str(given).removeprefix("Bot ") == self.fake.world.token

    def _identify(self, connection: Connection, data: Json) -> None:
        world = self.fake.world
        if not self._is_token(data.get("token")):
            return self._refuse(connection, 4004)
        shard, count = _shard(data)
        if not 0 <= shard < count:
            return self._refuse(connection, 4010)
        refused = intents.refusal(data.get("intents"), world.allowed_intents)
        if refused is not None:
            return self._refuse(connection, refused)
        if sum(1 for _ in world.of_shard(shard, count)) > world.guilds_per_session:
            return self._refuse(connection, 4011)
        if world.session_start_limit["remaining"] <= 0:
            return self._spend_last_session()
        if world.strict_identify and self._identifies_too_fast(shard):
            self.fake.counts["refused"] += 1
            connection.put(encode({"op": INVALID_SESSION, "d": False}))
            return None
        world.session_start_limit["remaining"] -= 1
        threshold = min(250, max(50, int(data.get("large_threshold") or 50)))
        session = Session(shard, count, data["intents"], threshold, world.resume_buffer)
        connection.payload_compression = bool(data.get("compress"))
        connection.session = session
        session.connection = connection
        self.fake.sessions[session.id] = session
        if len(self.fake.sessions) > MOST_SESSIONS:
            expired = next((old for old in self.fake.sessions.values() if old.connection is None), session)
            self.fake.sessions.pop(expired.id)
        self.fake.count("identifies", shard)
        self._start(self._welcome(session))
        return None

    def _identifies_too_fast(self, shard: int) -> bool:
        now = asyncio.get_running_loop().time()
        bucket = shard % self.fake.world.max_concurrency
        too_fast = now - self._last_identify.get(bucket, -IDENTIFY_INTERVAL) < IDENTIFY_INTERVAL
        if not too_fast:
            self._last_identify[bucket] = now
        return too_fast

    def _spend_last_session(self) -> None:
        """An IDENTIFY beyond the daily limit ends all sessions, and Discord resets the token."""
        self.fake.world.token = f"reset.{secrets.token_hex(16)}"
        self.fake.sessions.clear()
        for connection in list(self.fake.connections):
            connection.session = None
            self._refuse(connection, 4004)

    async def _welcome(self, session: Session) -> None:
        """READY, then the guilds one by one."""
        world = self.fake.world
        guilds = [guild.id for guild in world.of_shard(session.shard, session.count)]
        session.dispatch(
            "READY",
            {
                "v": 10,
                "user": {**world.user, "verified": True, "mfa_enabled": False, "flags": 0, "email": None},
                "guilds": [{"id": str(guild), "unavailable": True} for guild in guilds],
                "private_channels": [],
                "relationships": [],
                "session_id": session.id,
                "session_type": "normal",
                "resume_gateway_url": self.fake.gateway_url(),
                "shard": [session.shard, session.count],
                "application": {"id": world.user["id"], "flags": world.application_flags()},
                "_trace": ["fake"],
            },
        )
        self.fake.record.add("READY", shard=session.shard)
        if session.intents & intents.GUILDS:
            for guild in guilds:
                if session.connection is not None:
                    await session.connection.room()
                fault = self.fake.faults.strike("guilds", guild, session.shard)
                if fault is None:
                    self._announce(session, guild)
                elif fault.do != "drop":
                    self._start(self._announce_late(session, guild, fault))
        self.fake.record.add("GUILDS_SENT", shard=session.shard)

    def _announce(self, session: Session, guild_id: int) -> None:
        guild = self.fake.world.guilds.get(guild_id)
        if guild is not None and guild.unavailable:
            session.dispatch("GUILD_DELETE", {"id": str(guild_id), "unavailable": True})
        elif guild is not None:
            session.dispatch("GUILD_CREATE", guild.created(session.intents, session.large_threshold))

    async def _announce_late(self, session: Session, guild: int, fault: Fault) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(fault.wait(), None if fault.do == "hang" else fault.seconds)
        self._announce(session, guild)

    def _resume(self, connection: Connection, data: Json) -> None:
        if not self._is_token(data.get("token")):
            return self._refuse(connection, 4004)
        session = self.fake.sessions.get(str(data.get("session_id")))
        seen = data.get("seq")
        if session is not None and isinstance(seen, int) and seen > session.sequence:
            return self._refuse(connection, 4007)
        frames = session.missed(int(seen or 0)) if session is not None else None
        if session is None or frames is None:
            self.fake.sessions.pop(str(data.get("session_id")), None)
            connection.put(encode({"op": INVALID_SESSION, "d": False}))
            return None
        former = session.connection
        if former is not None and former is not connection:
            former.session = None
            former.put(4000)
        self.fake.count("resumes", session.shard)
        connection.session = session
        for frame in frames:
            connection.put(frame)
        session.connection = connection
        session.dispatch("RESUMED", {"_trace": ["fake"]})
        return None
