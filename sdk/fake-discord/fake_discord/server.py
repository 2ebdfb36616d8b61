"""`FakeDiscord`: the server, and what a test does to it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from aiohttp import web

from . import intents
from .control import Control
from .faults import Fault, Faults
from .gateway import Gateway
from .record import PATIENCE, Record
from .rest import Rest
from .sessions import INVALID_SESSION, RECONNECT, Connection, Session
from .shapes import Json
from .world import World


class FakeDiscord:
    """A Discord for tests: `await start()`, then point a bot at `addresses()`."""

    def __init__(self, world: Json | None = None) -> None:
        self.world = World(world)
        self.faults = Faults()
        self.record = Record()
        self.sessions: dict[str, Session] = {}
        self.connections: set[Connection] = set()
        # Whether heartbeats are acknowledged.
        self.acknowledge = True
        self.counts: Counter[str] = Counter()
        self.per_shard: dict[str, Counter[str]] = {}
        self.requests: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        # The number of 429 responses by limit: `global`, `user`, `shared` or `edge`.
        self.rate_limited: Counter[str] = Counter()
        self.url = ""
        self.gateway = Gateway(self)
        self._rest = Rest(self)
        self._runner: web.AppRunner | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        app = web.Application(client_max_size=256 * 1024 * 1024)
        app.router.add_get("/gateway", self.gateway.handle)
        app.router.add_get("/gateway/", self.gateway.handle)
        app.router.add_get("/", self.gateway.handle)
        app.router.add_route("*", "/api/{rest:.*}", self._rest.handle)
        Control(self).add_to(app)
        # Cancels the handler when the client disconnects, so that a hanging request doesn't outlive it.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        self.url = f"http://{host}:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        self.clear_faults()
        for connection in list(self.connections):
            await connection.close(None)
        self.gateway.stop()
        if self._runner is not None:
            await self._runner.cleanup()

    async def __aenter__(self) -> FakeDiscord:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def addresses(self) -> dict[str, str]:
        return {
            "url": self.url,
            "api": f"{self.url}/api",
            "api_v10": f"{self.url}/api/v10",
            "gateway": self.gateway_url(),
            "control": f"{self.url}/control",
            "token": self.world.token,
        }

    @property
    def token(self) -> str:
        return self.world.token

    def gateway_url(self) -> str:
        return f"{self.url.replace('http', 'ws', 1)}/gateway"

    def load(self, world: Json) -> None:
        """Replaces the world. Bots that are connected are not told."""
        self.world = World(world)
        self.gateway.last_member_request.clear()

    # Changes of the world

    def change(self, kind: str, data: Json) -> None:
        """Changes the world like `emit`, but no bot is told: what happens during an outage, or an event that got lost."""
        self.world.apply(kind, data)

    async def emit(self, kind: str, data: Json) -> int:
        """Changes the world, and tells the sessions that get such an event; how many of them are connected."""
        guild, event = self.world.apply(kind, data)
        reached = 0
        for session in list(self.sessions.values()):
            if not session.holds(guild) or not intents.wants(session.intents, kind, event, self.world.bot_id):
                continue
            if self.faults.strike("events", guild, session.shard, kind) is not None:
                continue
            if kind == "GUILD_CREATE" and guild is not None:
                event = self.world.guilds[guild].created(session.intents, session.large_threshold)
            session.dispatch(kind, intents.visible(session.intents, kind, event, self.world.bot_id))
            reached += session.connection is not None
        return reached

    # Faults

    def fault(self, where: str, do: str, **options: Any) -> Fault:
        """From now on something goes wrong, as the README describes; `times` bounds how often."""
        return self.faults.add(where, do, **options)

    def clear_faults(self) -> int:
        return self.faults.clear()

    def _chosen(self, shard: int | None) -> list[Connection]:
        return [one for one in list(self.connections) if shard is None or one.shard == shard]

    async def drop(self, shard: int | None = None, code: int | None = None, forget: bool = False) -> int:
        """Closes connections; without a code TCP is cut. `forget`: no session can be resumed, not even one whose client is
        away."""
        chosen = self._chosen(shard)
        if forget:
            for session in [one for one in self.sessions.values() if shard is None or one.shard == shard]:
                del self.sessions[session.id]
        for connection in chosen:
            await connection.close(code)
        return len(chosen)

    async def reconnect(self, shard: int | None = None) -> int:
        chosen = self._chosen(shard)
        for connection in chosen:
            await connection.send({"op": RECONNECT, "d": None})
        return len(chosen)

    async def invalid_session(self, shard: int | None = None, resumable: bool = False) -> int:
        chosen = self._chosen(shard)
        for connection in chosen:
            if connection.session is not None:
                if not resumable:
                    self.sessions.pop(connection.session.id, None)
                # The client may identify or resume on the same connection.
                connection.leave()
                connection.session = None
            await connection.send({"op": INVALID_SESSION, "d": resumable})
        return len(chosen)

    def make_zombies(self, shard: int | None = None) -> int:
        """The connections stay open, but nothing is sent or heard any more. What happens meanwhile waits for a RESUME."""
        chosen = self._chosen(shard)
        for connection in chosen:
            connection.zombie = True
        return len(chosen)

    # The bot's activity

    def count(self, what: str, shard: int) -> None:
        self.counts[what] += 1
        self.per_shard.setdefault(str(shard), Counter())[what] += 1

    def stats(self) -> Json:
        names = ("connected", "identifies", "resumes", "heartbeats", "refused")
        return {
            "connections": len(self.connections),
            "sessions": len(self.sessions),
            **{name: self.counts[name] for name in names},
            "per_shard": {shard: dict(counts) for shard, counts in self.per_shard.items()},
            "requests": dict(self.requests),
            "unknown_requests": dict(self.unknown),
            "rate_limited": {"total": self.rate_limited.total(), **self.rate_limited},
        }

    async def until(self, what: str, count: int = 1, since: int = 0, timeout: float = PATIENCE, **fields: Any) -> list[Json]:
        """Waits until the bot did something so often, for instance `until("GET /guilds/{id}/members", guild=1 << 22)`."""
        return await self.record.until(what, count, since, timeout, **fields)
