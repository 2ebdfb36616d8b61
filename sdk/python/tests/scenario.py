"""Plays one scenario of sdk/conformance against the core: simulated time, a scripted transport, a bot without a library."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from simulation import SimulatedLoop

from bot_companion._companion import Companion
from bot_companion._feedback import Delivery
from bot_companion._limits import Limits
from bot_companion._source import ListingRefused, Member, SourceGuild
from bot_companion._transport import NO_SERVICE, Answer, TransportError

Json = dict[str, Any]
EPOCH = 1_700_000_000
HEARTBEAT = "PUT /bot/heartbeat"
DOUBLED = re.compile(r"\.[;:,.]|\b(\d{3}),? \1\b")
"""A sentence that ends twice, or a status that is there twice: "…as JSON.; retrying", "413 413"."""


class World:
    """The bot, as the scenario describes it."""

    def __init__(self, given: Json) -> None:
        self.given = {"name": "lantern", "shard_count": 1, "shards": [0], "intents": ["guilds", "members"], **given}
        self.guilds: dict[int, Json] = {}
        self.listing: dict[str | None, str] = {None: "ok"}
        self.listing_changed: list[asyncio.Future[None]] = []
        for guild in given.get("guilds", ()):
            self.put(guild)

    def put(self, given: Json) -> int:
        identity = int(given["id"])
        known = self.guilds.get(identity) or {
            "name": f"guild {identity}", "icon": None, "owner": "10", "members": 5, "unavailable": False, "people": {}, "cached": True,
        }  # fmt: skip
        self.guilds[identity] = {**known, **given}
        return identity

    def change(self, given: Json) -> None:
        for guild in given.get("guilds", ()):
            self.put(guild)
        for guild in given.get("gone", ()):
            self.guilds.pop(int(guild), None)
        self.given.update({key: value for key, value in given.items() if key not in ("guilds", "gone")})

    # What `Source` asks for

    def name(self) -> str:
        return str(self.given["name"])

    def library(self) -> str | None:
        return "a scenario"

    def shard_count(self) -> int:
        return int(self.given["shard_count"])

    def own_shards(self) -> Sequence[int]:
        return sorted(self.given["shards"])

    def shard_health(self) -> list[Json]:
        return [{"id": shard, "sent_ms_ago": None, "acknowledged_ms_ago": None, "latency": None} for shard in self.own_shards()]

    def guild_ids(self) -> Iterable[int]:
        return list(self.guilds)

    def guild(self, guild: int) -> SourceGuild | None:
        found = self.guilds.get(guild)
        if found is None:
            return None
        raw = SimpleNamespace(id=guild)
        return SourceGuild(
            guild, found["name"], found["icon"], int(found["owner"]), found["members"], bool(found["unavailable"]), raw
        )

    def _people(self, guild: int) -> list[Member]:
        return [(int(user), [int(role) for role in roles]) for user, roles in self.guilds[guild]["people"].items()]

    def cached_members(self, guild: int) -> Iterable[Member] | None:
        return self._people(guild) if self.guilds[guild]["cached"] and self.has_members_intent() else None

    def has_members_intent(self) -> bool:
        return "members" in self.given["intents"]

    async def member_page(self, guild: int, after: int) -> tuple[Sequence[Member], int | None]:
        people = self._people(guild)
        while (how := self.listing.get(str(guild), self.listing[None])) == "hang":
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.listing_changed.append(changed)
            await changed
        if how == "forbidden":
            raise ListingRefused("403 Forbidden")
        if how == "fail":
            raise RuntimeError("500 Internal Server Error")
        return people, None

    def set_listing(self, how: str, guild: str | None) -> None:
        if guild is None:
            self.listing.clear()
        self.listing[guild] = how
        self.listing.setdefault(None, "ok")
        for changed in self.listing_changed:
            if not changed.done():
                changed.set_result(None)
        self.listing_changed.clear()


class Request:
    def __init__(self, name: str, headers: Mapping[str, str], lines: list[Json]) -> None:
        self.name = name
        self.number = int(headers.get("Feed-Sequence", 0))
        self.after = int(headers["Feed-After"]) if "Feed-After" in headers else None
        self.lines = lines
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def __repr__(self) -> str:
        return f"{self.name} {self.number} {json.dumps(self.lines)}"

    def acknowledgement(self) -> Json:
        if self.name == HEARTBEAT:
            return {}
        count = len(self.lines) if self.name.startswith("POST") else 0
        return {"applied": len(self.lines), "ignored": 0, "next": self.number + count}


class ScriptedTransport:
    def __init__(self, heartbeats_expected: bool) -> None:
        self.heartbeats_expected = heartbeats_expected
        self.away = False
        self.under_way: list[Request] = []

    async def request(self, method: str, path: str, headers: Mapping[str, str], lines: AsyncIterator[bytes]) -> Answer:
        found = [json.loads(line) async for line in lines]
        request = Request(f"{method} {path}", headers, found)
        if self.away:
            raise TransportError("out of reach")
        if request.name == HEARTBEAT and not self.heartbeats_expected:
            return Answer(200, {})
        if method == "PUT" and request.name != HEARTBEAT:
            end = request.lines.pop()
            assert end == {"end": len(request.lines)}, f"{request}: the end is {end}"
        self.under_way.append(request)
        self.arrived(request)
        try:
            return await request.answer
        finally:
            if request in self.under_way:
                self.under_way.remove(request)

    def arrived(self, request: Request) -> None:
        """A request is under way; a step of the scenario answers it."""

    def leave(self) -> None:
        self.away = True
        for request in self.under_way:
            request.answer.set_exception(TransportError("out of reach"))

    async def close(self) -> None:
        pass


class Scripted:
    """The bot's callbacks. Each answers, slips, fails or hangs, as the last step about it says."""

    def __init__(self, given: Json) -> None:
        self.does: dict[str, str] = {name: "answer" for name in given}
        self.value = dict(given)

    def configured(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name in self.does:
            made[name] = self._many(name) if name in ("subscriptions", "team") else self._one(name)
        return made

    async def _act(self, name: str) -> None:
        if self.does[name] == "fail":
            raise RuntimeError("the database is down")
        if self.does[name] == "hang":
            await asyncio.get_running_loop().create_future()
        if self.does[name] == "slow":
            await asyncio.sleep(1)

    async def _slip(self, name: str) -> Any:
        return self.value[name]

    def _one(self, name: str) -> Callable[[Any], Any]:
        async def callback(guild: Any) -> Any:
            await self._act(name)
            if self.does[name] == "slip":
                return self.value[name]
            return self.value[name].get(str(guild.id), {} if name == "grants" else False)

        return callback

    def _many(self, name: str) -> Callable[[], Any]:
        def callback() -> Any:
            return self._slip(name) if self.does[name] == "slip" else entries()

        async def entries() -> AsyncIterator[Any]:
            await self._act(name)
            for entry in self.value[name]:
                yield entry
                if self.does[name] == "hang_in_iteration":
                    await asyncio.get_running_loop().create_future()

        return callback


class Recorder(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.untaken: list[tuple[str, str]] = []
        self.infos: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if record.levelno >= logging.WARNING:
            self.untaken.append(("error" if record.levelno >= logging.ERROR else "warn", message))
        else:
            self.infos.append(message)


def matches(expected: Any, found: Any) -> bool:
    """The given fields are equal; a mapping may have others."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return all(key in found and matches(value, found[key]) for key, value in expected.items())
    return bool(expected == found)


class Player:
    def __init__(self, header: Json, loop: SimulatedLoop, recorder: Recorder) -> None:
        self.loop = loop
        self.recorder = recorder
        self.world = World(header.get("world", {}))
        self.callbacks = Scripted(header.get("callbacks", {}))
        self.transport = ScriptedTransport(header.get("heartbeats") == "expected")
        self.companion = Companion(
            self.world,
            self.transport,
            url="http://companion.example",
            limits=Limits(**header.get("limits", {})),
            random=lambda: 0.5,
            time=lambda: EPOCH + loop.time(),
            **self.callbacks.configured(),
        )
        self.events: list[tuple[str, str]] = []
        self.when_synced: list[Json] = []
        """Calls that the next `synced` makes."""
        self.companion.on("synced", self._synced)
        self.companion.on("error", lambda message: self.events.append(("error", message)))
        self.deliveries: dict[str, Delivery] = {}
        self.closing: asyncio.Task[None] | None = None

    def play(self, step: Json) -> None:
        kind = next(iter(step))
        # Calls need a running loop, like the one that a bot's own code has.
        self.loop.call_soon(self.companion.start)
        getattr(self, f"_{kind}")(step)
        self.loop.settle()

    def _synced(self) -> None:
        self.events.append(("synced", ""))
        calls, self.when_synced = self.when_synced, []
        for step in calls:
            self._make_call(step)

    def _do(self, action: Callable[[], Any]) -> None:
        self.loop.call_soon(action)
        self.loop.settle()

    # Steps

    def _bot(self, step: Json) -> None:
        world = self.world
        what: Any = step["bot"]
        hear = self.companion.hear
        if what == "session":
            shard = step["shard"]
            named = step.get("guilds") or [g for g in world.guilds if (g >> 22) % world.shard_count() == shard]
            return self._do(lambda: hear("session", shard, [int(guild) for guild in named]))
        if what == "ready":
            return self._do(lambda: hear("ready", step["shard"]))
        if what == "limited":
            return self._do(lambda: hear("limited", step["seconds"]))
        if isinstance(step["guild"], dict):
            guild = world.put({**step["guild"], "unavailable": False} if what == "guild_here" else step["guild"])
            return self._do(lambda: hear(what, guild))
        guild = int(step["guild"])
        if what == "guild_gone":
            world.guilds.pop(guild, None)
            return self._do(lambda: hear(what, guild))
        if what == "guild_unavailable":
            world.guilds[guild]["unavailable"] = True
            return self._do(lambda: hear(what, guild))
        if what == "role_changed":
            return self._do(lambda: hear(what, guild))
        if what == "role_gone":
            people = world.guilds[guild]["people"]
            held = {user: [role for role in roles if role != step["role"]] for user, roles in people.items()}
            world.guilds[guild]["people"] = held
            return self._do(lambda: hear(what, guild, int(step["role"])))
        return self._member(what, guild, step)

    def _member(self, what: Any, guild: int, step: Json) -> None:
        found = self.world.guilds[guild]
        people = found["people"] = dict(found["people"])
        if what == "member_gone":
            people.pop(step["user"], None)
            found["members"] -= 1
            return self._do(lambda: self.companion.hear(what, guild, int(step["user"])))
        people[step["user"]] = step.get("roles", [])
        found["members"] += what == "member_joined"
        roles: Iterable[int] = [int(role) for role in step.get("roles", [])]
        if step.get("fails"):
            roles = (1 // 0 for _ in "a role")
        return self._do(lambda: self.companion.hear(what, guild, int(step["user"]), roles))

    def _world(self, step: Json) -> None:
        self.world.change(step["world"])

    def _callback(self, step: Json) -> None:
        self.callbacks.does[step["callback"]] = step["does"]
        if "value" in step:
            self.callbacks.value[step["callback"]] = step["value"]

    def _listing(self, step: Json) -> None:
        self.world.set_listing(step["listing"], step.get("guild"))

    def _call(self, step: Json) -> None:
        when = step.get("when")
        if when == "synced":
            self.when_synced.append(step)
        elif when is not None:
            self.loop.create_task(self._make_call_after(self.deliveries[when], step))
        else:
            self._do(lambda: self._make_call(step))

    async def _make_call_after(self, delivery: Delivery, step: Json) -> None:
        await delivery
        self._make_call(step)

    def _make_call(self, step: Json) -> None:
        what = step["call"]
        if what == "close":
            self.closing = self.loop.create_task(self.companion.close())
        elif what == "changed" and "guild" in step:
            self.companion.changed(int(step["guild"]))
        elif what in ("feedback", "feedback_gone"):
            argument = step["entry"] if what == "feedback" else step["id"]
            self.deliveries[step.get("as", "")] = getattr(self.companion, what)(argument)
        else:
            getattr(self.companion, what)()

    def _service(self, step: Json) -> None:
        if step["service"] == "away":
            self.transport.leave()
        elif step["service"] == "back":
            self.transport.away = False
        # Other values are for the scenario checker; here the responses show the same thing.

    def _advance(self, step: Json) -> None:
        self.loop.advance(step["advance"])

    # Expectations

    def _expect(self, step: Json) -> None:
        under_way = self.transport.under_way
        if step["expect"] == "nothing":
            assert not under_way, f"under way: {under_way}"
            return
        beats = step["expect"] == HEARTBEAT
        concerned = [request for request in under_way if (request.name == HEARTBEAT) == beats]
        assert len(concerned) == 1, f"under way: {under_way}"
        (request,) = concerned
        assert request.name == step["expect"], f"under way: {under_way}"
        if "sequence" in step:
            assert request.number == step["sequence"], f"under way: {request}"
            if step["expect"].startswith("PUT"):
                assert request.after == step.get("after", step["sequence"] - 1), f"under way: {request}, after {request.after}"
        if "lines" in step:
            assert request.lines == step["lines"]
        if "count" in step:
            assert len(request.lines) == step["count"], f"under way: {request}"
        if "body" in step:
            assert matches(step["body"], request.lines[0]), f"under way: {request}"
        if request.name == HEARTBEAT:
            assert request.lines[0].get("leaving") == step.get("body", {}).get("leaving"), f"under way: {request}"
        under_way.remove(request)
        self._answer(request, step.get("answer", {"status": 200}))

    @staticmethod
    def _answer(request: Request, answer: Any) -> None:
        if answer == "hang":
            return
        if answer == "lost":
            request.answer.set_exception(TransportError("the connection was cut"))
        elif answer == "garbage":
            request.answer.set_exception(TransportError(NO_SERVICE))
        else:
            status = answer.get("status", 200)
            data = answer.get("data", request.acknowledgement() if status == 200 else {})
            request.answer.set_result(Answer(status, data, "", answer.get("retry_after")))

    def _log(self, step: Json) -> None:
        level, text = step["log"], step.get("contains", "")
        if level == "info":
            assert any(text in message for message in self.recorder.infos), self.recorder.infos
            return
        found = next((line for line in self.recorder.untaken if line[0] == level and text in line[1]), None)
        assert found is not None, f"written: {self.recorder.untaken}"
        assert not DOUBLED.search(found[1]), f"the sentence ends twice: {found[1]}"
        self.recorder.untaken.remove(found)

    def _delivery(self, step: Json) -> None:
        found = self.deliveries[step["delivery"]]
        expected = step["delivered"]
        assert found.delivered is (None if expected == "pending" else expected), found
        assert step.get("contains", "") in (found.reason or ""), found

    def _status(self, step: Json) -> None:
        found = self.companion.status()
        assert matches(step["status"], found), found

    def _event(self, step: Json) -> None:
        name, text = step["event"], step.get("contains", "")
        assert any(kind == name and text in message for kind, message in self.events), self.events
        self.events.clear()

    def _closed(self, step: Json) -> None:
        assert self.closing is not None and self.closing.done() is step["closed"]


def play(path: Path) -> None:
    header, *steps = (json.loads(line) for line in path.read_text().splitlines() if line.strip())
    assert header["scenario"] == path.stem
    logger = logging.getLogger("bot_companion")
    recorder = Recorder()
    level, propagate = logger.level, logger.propagate
    logger.addHandler(recorder)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    loop = SimulatedLoop()
    try:
        player = Player(header, loop, recorder)
        for number, step in enumerate(steps, 2):
            try:
                player.play(step)
            except AssertionError as error:
                raise AssertionError(f"line {number}, at {loop.time()} s, {json.dumps(step)}\n{error}") from None
        assert not player.transport.under_way, f"still under way at the end: {player.transport.under_way}"
        assert not recorder.untaken, f"logged, but not expected by any step: {recorder.untaken}"
    finally:
        logger.removeHandler(recorder)
        logger.setLevel(level)
        logger.propagate = propagate
        loop.finish()
