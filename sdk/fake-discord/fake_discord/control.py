"""The control API: the same as the methods of `FakeDiscord`, for tests in other languages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from .record import PATIENCE
from .rest import response
from .shapes import Json

if TYPE_CHECKING:
    from .server import FakeDiscord


class Control:
    def __init__(self, fake: FakeDiscord) -> None:
        self.fake = fake

    def add_to(self, app: web.Application) -> None:
        app.router.add_get("/control/world", self._show_world)
        app.router.add_post("/control/world", self._load_world)
        app.router.add_post("/control/emit", self._emit)
        app.router.add_post("/control/change", self._change)
        app.router.add_post("/control/drop", self._drop)
        app.router.add_post("/control/reconnect", self._reconnect)
        app.router.add_post("/control/invalid_session", self._invalid_session)
        app.router.add_post("/control/zombie", self._zombie)
        app.router.add_post("/control/acknowledge", self._acknowledge)
        app.router.add_post("/control/fault", self._fault)
        app.router.add_get("/control/faults", self._show_faults)
        app.router.add_delete("/control/faults", self._clear_faults)
        app.router.add_get("/control/stats", self._stats)
        app.router.add_get("/control/log", self._log)
        app.router.add_get("/control/wait", self._wait)

    @staticmethod
    async def _body(request: web.Request) -> Json:
        body = await request.json() if request.can_read_body else {}
        if not isinstance(body, dict):
            raise web.HTTPBadRequest(text="the body is not a JSON object")
        return body

    async def _show_world(self, request: web.Request) -> web.Response:
        return response(self.fake.world.export())

    async def _load_world(self, request: web.Request) -> web.Response:
        try:
            self.fake.load(await self._body(request))
        except (ValueError, KeyError, TypeError) as error:
            return refused(error)
        return response(self.fake.addresses())

    async def _emit(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        try:
            return response({"delivered": await self.fake.emit(body["type"], body.get("data") or {})})
        except (ValueError, KeyError) as error:
            return refused(error)

    async def _change(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        try:
            self.fake.change(body["type"], body.get("data") or {})
        except (ValueError, KeyError) as error:
            return refused(error)
        return response({})

    async def _drop(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        dropped = await self.fake.drop(body.get("shard"), code=body.get("code"), forget=bool(body.get("forget")))
        return response({"dropped": dropped})

    async def _reconnect(self, request: web.Request) -> web.Response:
        return response({"sent": await self.fake.reconnect((await self._body(request)).get("shard"))})

    async def _invalid_session(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        return response({"sent": await self.fake.invalid_session(body.get("shard"), resumable=bool(body.get("resumable")))})

    async def _zombie(self, request: web.Request) -> web.Response:
        return response({"zombies": self.fake.make_zombies((await self._body(request)).get("shard"))})

    async def _acknowledge(self, request: web.Request) -> web.Response:
        self.fake.acknowledge = bool((await self._body(request)).get("on", True))
        return response({"on": self.fake.acknowledge})

    async def _fault(self, request: web.Request) -> web.Response:
        body = await self._body(request)
        try:
            return response(self.fake.fault(body.pop("where"), body.pop("do"), **body).show())
        except (ValueError, KeyError, TypeError) as error:
            return refused(error)

    async def _show_faults(self, request: web.Request) -> web.Response:
        return response({"faults": self.fake.faults.show()})

    async def _clear_faults(self, request: web.Request) -> web.Response:
        return response({"cleared": self.fake.clear_faults()})

    async def _stats(self, request: web.Request) -> web.Response:
        return response(self.fake.stats())

    async def _log(self, request: web.Request) -> web.Response:
        pattern, since, fields = self._asked(request)
        return response({"next": self.fake.record.next, "entries": list(self.fake.record.entries(pattern, since, **fields))})

    async def _wait(self, request: web.Request) -> web.Response:
        pattern, since, fields = self._asked(request)
        if pattern is None:
            return response({"message": "say what to wait for: /control/wait?for=IDENTIFY"}, 400)
        count, timeout = int(request.query.get("count", 1)), float(request.query.get("timeout", PATIENCE))
        try:
            found = await self.fake.record.until(pattern, count, since, timeout, **fields)
        except TimeoutError as error:
            return response({"message": str(error)}, 408)
        return response({"next": self.fake.record.next, "count": len(found), "entries": found})

    @staticmethod
    def _asked(request: web.Request) -> tuple[str | None, int, dict[str, Any]]:
        fields = {key: value for key, value in request.query.items() if key in RECORDED}
        return request.query.get("for"), int(request.query.get("since", 0)), fields


# The filters of `log` and `wait`.
RECORDED = ("guild", "shard", "status", "limited", "fault", "code", "sent")


def refused(error: Exception) -> web.Response:
    message = f"there is no {error}" if isinstance(error, KeyError) else str(error)
    return response({"message": message}, 400)
