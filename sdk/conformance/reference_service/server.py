"""The feed behind a socket, with faults on command."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from .feed import Answer, Feed, Shard
from .lines import SHARDS, Json, is_instance

KEY = "bck_reference0service0key"
EVENTS_BYTES = 16 << 20
HEARTBEAT_BYTES = 1 << 20
SNAPSHOT_BYTES = 1 << 30
LAST_SEQUENCE = 1 << 62
SNAPSHOTS_AT_ONCE = 4
SNAPSHOT_RETRY_AFTER = "2"


@dataclass
class Fault:
    """Something that goes wrong with the next requests.

    `kind` is one of:

    - `away`: the connection ends before the request is looked at
    - `lost`: the request is applied, and the connection ends without an answer
    - `status`: the answer has this `status` (and `error`, `retry_after`, `data`); nothing is applied
    - `garbage`: 200, but not the envelope; nothing is applied
    - `hang`: no answer comes for `seconds` (then the connection ends); nothing is applied
    - `slow`: the request is applied and answered after `seconds`
    """

    kind: str
    times: int = 1
    """How many requests it hits; 0: all, until the faults are cleared."""
    path: str = "/bot/"
    """How the path of these requests begins."""
    status: int = 503
    error: str = "overloaded"
    retry_after: str | None = None
    data: Json | None = None
    seconds: float = 0.0

    KINDS = ("away", "lost", "status", "garbage", "hang", "slow")

    def __post_init__(self) -> None:
        if self.kind not in self.KINDS:
            raise ValueError(f"a fault is one of {', '.join(self.KINDS)}, not {self.kind!r}")

    def answer(self) -> Answer:
        return Answer(self.status, {"error": self.error, **(self.data or {})}, "A fault.", self.retry_after)


class ReferenceService:
    """A service on its own port: `async with ReferenceService() as service: …`.

    `stop` and `start` keep the port and the data, like a service that restarts.
    """

    def __init__(self, key: str = KEY, host: str = "127.0.0.1", port: int = 0, feed: Feed | None = None) -> None:
        self.key = key
        self.feed = feed or Feed()
        self.faults: list[Fault] = []
        self.requests: list[Json] = []
        """What was asked and answered, the newest last: `method`, `path`, `instance`, `sequence`, `lines`, `status`."""
        self._host, self._port = host, port
        self._uploads: set[str] = set()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://{self._host}:{self._port}"

    async def start(self) -> None:
        app = web.Application(client_max_size=SNAPSHOT_BYTES)
        app.router.add_route("*", "/control/{what:.*}", self._control)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port, reuse_address=True).start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> ReferenceService:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # Called by tests

    def add_fault(self, kind: str, **options: Any) -> Fault:
        """Faults hit requests in the order in which they were added."""
        fault = Fault(kind, **options)
        self.faults.append(fault)
        return fault

    def clear_faults(self) -> None:
        self.faults.clear()

    def forget(self) -> None:
        """The service loses all its data."""
        self.feed.forget()

    # The bot's calls

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        fault = self._take_fault(request.path)
        kind = fault.kind if fault is not None else ""
        if kind == "away":
            return hang_up(request)
        if fault is not None and kind == "hang":
            await asyncio.sleep(fault.seconds or 3600)
            return hang_up(request)
        is_snapshot = request.method == "PUT" and request.path != "/bot/heartbeat"
        if is_snapshot and (request.path in self._uploads or len(self._uploads) >= SNAPSHOTS_AT_ONCE):
            return respond(Answer.error("snapshot_busy", SNAPSHOT_RETRY_AFTER))
        if is_snapshot:
            self._uploads.add(request.path)
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return respond(Answer.error("body_too_large"))
        finally:
            if is_snapshot:
                self._uploads.discard(request.path)
        if kind == "garbage":
            return web.Response(text="<html>It works!</html>", content_type="text/html")
        answer = fault.answer() if fault is not None and kind == "status" else self._answer(request, body)
        self._note(request, body, answer)
        if fault is not None and kind == "slow":
            await asyncio.sleep(fault.seconds)
        return hang_up(request) if kind == "lost" else respond(answer)

    def _take_fault(self, path: str) -> Fault | None:
        fault = next((fault for fault in self.faults if path.startswith(fault.path)), None)
        if fault is not None and fault.times:
            fault.times -= 1
            if fault.times == 0:
                self.faults.remove(fault)
        return fault

    def _answer(self, request: web.Request, body: bytes) -> Answer:
        if request.headers.get("Authorization") != f"Bearer {self.key}":
            return Answer.error("bot_key_invalid")
        if request.headers.get("Content-Encoding", "").strip().lower() not in ("", "identity", "gzip", "x-gzip"):
            return Answer.error("encoding_unsupported")
        path = request.path.split("/")[1:]
        shard = parse_shard(path[2:]) if path[:2] == ["bot", "shards"] else None
        what = "guilds" if shard is not None else "/".join(path).removeprefix("bot/")
        methods = {"heartbeat": "PUT", "guilds": "PUT", "subscriptions": "PUT", "events": "POST", "state": "GET"}
        if path[0] != "bot" or what not in methods:
            return Answer.error("not_found")
        if request.method != methods[what]:
            return Answer.error("method_not_allowed")
        if what == "state":
            return Answer(200, self.feed.state())
        if what == "heartbeat":
            return Answer.error("body_too_large") if len(body) > HEARTBEAT_BYTES else self.feed.heartbeat(body)
        name, sequence = request.headers.getall("Feed-Instance", []), request.headers.getall("Feed-Sequence", [])
        after = request.headers.getall("Feed-After", ["1"])
        if len(name) != 1 or not is_instance(name[0]) or not all(len(one) == 1 and is_sequence(one[0]) for one in (sequence, after)):
            return Answer.error("feed_header_invalid")
        if what == "events":
            too_large = len(body) > EVENTS_BYTES
            return Answer.error("body_too_large") if too_large else self.feed.events(name[0], int(sequence[0]), body)
        if shard is not None:
            return self.feed.guilds_of(shard, name[0], int(sequence[0]), body, int(after[0]))
        return self.feed.all_subscriptions(name[0], int(sequence[0]), body, int(after[0]))

    def _note(self, request: web.Request, body: bytes, answer: Answer) -> None:
        noted = {"method": request.method, "path": request.path, "status": answer.status}
        for name, header in (("instance", "Feed-Instance"), ("sequence", "Feed-Sequence"), ("after", "Feed-After")):
            if header in request.headers:
                noted[name] = request.headers[header]
        self.requests.append({**noted, "lines": [line.decode(errors="replace") for line in body.split(b"\n") if line.strip()]})

    # The control API, for tests in other languages

    async def _control(self, request: web.Request) -> web.Response:
        call = request.method, request.match_info["what"]
        try:
            given = json.loads(await request.read() or b"{}")
            if call == ("POST", "faults"):
                self.add_fault(**given)
            elif call == ("DELETE", "faults"):
                self.clear_faults()
            elif call == ("POST", "forget"):
                self.forget()
            elif call == ("POST", "expect"):
                self.feed.expect(given["instance"], given["next"])
            elif call == ("GET", "data"):
                return web.json_response(self.feed.data())
            elif call == ("GET", "requests"):
                return web.json_response(self.requests)
            elif call == ("DELETE", "requests"):
                self.requests.clear()
            else:
                return web.json_response({"error": f"there is no {' /control/'.join(call)}"}, status=404)
        except (ValueError, TypeError, KeyError) as error:
            return web.json_response({"error": f"{type(error).__name__}: {error}"}, status=400)
        return web.json_response({})


def respond(answer: Answer) -> web.Response:
    headers = {"Retry-After": answer.retry_after} if answer.retry_after is not None else {}
    return web.json_response(answer.envelope(), status=answer.status, headers=headers)


def hang_up(request: web.Request) -> web.Response:
    """Ends the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def is_sequence(text: str) -> bool:
    return text.isascii() and text.isdigit() and 1 <= int(text) <= LAST_SEQUENCE


def parse_shard(path: list[str]) -> Shard | None:
    """The shard in `…/{count}/{id}/guilds`, if there can be such a one."""
    if len(path) != 3 or path[2] != "guilds" or not all(part.isascii() and part.isdigit() for part in path[:2]):
        return None
    count, id = int(path[0]), int(path[1])
    return Shard(count, id) if id < count <= SHARDS else None
