"""The feed's rules in a page: what the service keeps, and how it answers, behind a socket."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

Json = dict[str, Any]
KEY = "bck_for-the-tests"


class Feed:
    def __init__(self) -> None:
        self.forget()
        self.requests: list[tuple[str, str]] = []
        self.answers: list[int] = []
        self.scripted: list[tuple[int, Json, dict[str, str]]] = []
        """Answers to give before any other, to any write but the heartbeat."""
        self.invalid: set[str] = set()
        """Names that make a line invalid."""
        self.lose_answers = 0
        """So many times the request is applied, but the answer is lost."""
        self.largest = 0
        self.snapshots: list[list[Json]] = []
        """The guilds' lines of each snapshot that was taken."""

    def forget(self) -> None:
        """As after a restore from nothing."""
        self.next: dict[str, int] = {}
        self.guilds: dict[str, Json] = {}
        self.subscriptions: dict[str, Json] = {}
        self.feedback: dict[str, Json] = {}
        self.team: list[Json] = []
        self.heartbeats: dict[str, Json] = {}
        self.shards: dict[tuple[int, int], str] = {}
        self.events: list[Json] = []

    def state(self) -> Json:
        return {"instances": [{"instance": name, "next": next_} for name, next_ in self.next.items()]}

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Json, dict[str, str]]:
        self.requests.append((method, path))
        if path == "/bot/state":
            return 200, self.state(), {}
        if path == "/bot/heartbeat":
            beat = json.loads(body)
            self.heartbeats[beat["instance"]] = beat
            return 200, {}, {}
        if self.scripted:
            return self.scripted.pop(0)
        self.largest = max(self.largest, len(body))
        lines = [json.loads(line) for line in body.splitlines() if line]
        instance, sequence = headers["Feed-Instance"], int(headers["Feed-Sequence"])
        for index, line in enumerate(lines):
            if line.get("name") in self.invalid or line.get("feedback") in self.invalid:
                return 422, {"error": "line_invalid", "line": index + 1, "reason": "the name is bad"}, {}
        if path == "/bot/events":
            return self._events(instance, sequence, lines)
        if lines[-1] != {"end": len(lines) - 1}:
            return 422, {"error": "line_invalid", "line": len(lines), "reason": "the end is wrong"}, {}
        if self.next.get(instance, 1) > sequence:
            return 409, {"error": "snapshot_outdated", "next": self.next[instance]}, {}
        self.next[instance] = sequence
        if path == "/bot/subscriptions":
            self.subscriptions = {line["userid"]: line for line in lines[:-1]}
        else:
            self.snapshots.append(lines[:-1])
            count, shard = (int(part) for part in path.split("/")[3:5])
            self.shards[count, shard] = instance
            old = {key: value for key, value in self.guilds.items() if (int(key) >> 22) % count == shard}
            for key in old:
                del self.guilds[key]
            for line in lines[:-1]:
                assert (int(line["id"]) >> 22) % count == shard
                if not line.get("unavailable"):
                    # Omitted grants and staff stay unchanged.
                    kept = {name: old.get(line["id"], {}).get(name, {}) for name in ("grants", "staff")}
                    self.guilds[line["id"]] = {**kept, **line}
                elif line["id"] in old:
                    self.guilds[line["id"]] = old[line["id"]]
        return 200, {"applied": len(lines) - 1, "ignored": 0, "next": sequence}, {}

    def _events(self, instance: str, first: int, lines: list[Json]) -> tuple[int, Json, dict[str, str]]:
        next_ = self.next.get(instance, 1)
        if first > next_:
            return 409, {"error": "resync_required", "next": next_}, {}
        new = lines[next_ - first :]
        if not all(self._covers(line) for line in new):
            return 409, {"error": "resync_required", "next": next_}, {}
        for line in new:
            self._apply(line)
            self.events.append(line)
        self.next[instance] = next_ + len(new)
        return 200, {"applied": len(new), "ignored": 0, "next": self.next[instance]}, {}

    def _covers(self, line: Json) -> bool:
        """Whether the snapshot of the guild's shard is here."""
        guild = line.get("guild") or (line["id"] if line["type"] in ("guild", "guild_gone") else None)
        return guild is None or any((int(guild) >> 22) % count == shard for count, shard in self.shards)

    def _apply(self, line: Json) -> None:
        kind = line["type"]
        rest = {key: value for key, value in line.items() if key != "type"}
        if kind == "guild":
            old = self.guilds.get(line["id"], {})
            kept = {name: old.get(name, {}) for name in ("grants", "staff")}
            self.guilds[line["id"]] = {**kept, **rest}
        elif kind == "guild_gone":
            self.guilds.pop(line["id"], None)
        elif kind in ("member", "member_gone"):
            guild = self.guilds.get(line["guild"], {"staff": {}, "grants": {}})
            guild["staff"].pop(line["user"], None)
            held = [role for role in line.get("roles", []) if role in guild["grants"]]
            if held:
                guild["staff"][line["user"]] = held
        elif kind == "feedback":
            self.feedback[line["id"]] = rest
        elif kind == "feedback_gone":
            self.feedback.pop(line["id"], None)
        elif kind == "team":
            self.team = line["members"]


class FeedServer:
    """The model behind a socket. `stop` and `start` again keep the port, like a service that restarts."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.port = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.Request) -> web.Response:
        status, data, headers = 401, {"error": "bot_key_invalid"}, {"WWW-Authenticate": "Bearer"}
        if request.headers.get("Authorization") == f"Bearer {KEY}":
            # aiohttp has already decompressed it.
            plain = {name: value for name, value in request.headers.items() if name != "Content-Encoding"}
            status, data, headers = self.feed.handle(request.method, request.path, plain, await request.read())
        self.feed.answers.append(status)
        # The service's own words.
        message = "Send a valid bot key as `Authorization: Bearer <key>`. Create one with `bot-companion key create`." if status == 401 else ""
        body = {"code": status, "message": message, "data": data}
        return web.json_response(body, status=status, headers=headers)
