"""Feeds a service that is killed again and again; see `kill-feed`.

Two bots feed it at once. The *recorder* speaks the feed itself, one request at a time, and writes down what was acknowledged. Each of its
requests carries one number in everything that it says, so that what is read back tells which requests were applied, and whether wholly.
The *pretend bot* changes at random and reports through the Python SDK, which is told nothing of the kills.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import re
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
from aiohttp import web

import bot_companion
from bot_companion._companion import Companion, Limits
from bot_companion._transport import HttpTransport

Json = dict[str, Any]
BINARY = os.environ["BOT_COMPANION"]
WORK = Path(os.environ["KILL_WORK"])
ROUNDS = int(os.environ.get("KILL_ROUNDS") or 200)
SEED = int(os.environ.get("KILL_SEED") or random.SystemRandom().randrange(1 << 32))
DEADLINE = 300.0
REPORT = 20

PERSON, OWNER, PAYER = 77, 5, 78
MOD_ROLE, ADMIN_ROLE = 60, 61
# Of two shards: the pretend bot is shard 0, the recorder shard 1.
BOT_GUILDS = [(2 * number) << 22 for number in range(1, 41)]
RECORDED = [(2 * number + 1) << 22 for number in range(1, 41)]
FILLERS = [(2 * number + 1) << 22 for number in range(1000, 3000)]
GRANTS = {str(MOD_ROLE): ["MOD"], str(ADMIN_ROLE): ["ADMIN"]}


class Wrong(Exception):
    """Something that must never be."""


class Findings:
    def __init__(self) -> None:
        self.lost: list[str] = []
        self.half: list[str] = []
        self.other: list[str] = []

    def any(self) -> bool:
        return bool(self.lost or self.half or self.other)


async def eventually(condition: Callable[[], Awaitable[Any]], what: str) -> None:
    """Waits for a condition, not for a time."""
    end = time.monotonic() + DEADLINE
    last: Any = None
    while time.monotonic() < end:
        last = await condition()
        if last is True:
            return
        await asyncio.sleep(0.02)
    raise Wrong(f"never came true: {what}; last: {last}")


# The provider


def member_of() -> list[Json]:
    return [{"id": str(guild), "name": "x", "permissions": "0"} for guild in BOT_GUILDS + RECORDED]


async def provider() -> tuple[web.AppRunner, str]:
    """Signs in whoever has a code: `person`, who is in every guild that can be seen, and any number of visitors, who are in none."""

    def who(request: web.Request) -> str:
        return request.headers["Authorization"].removeprefix("Bearer ").partition("-")[2]

    async def token(request: web.Request) -> web.Response:
        form = await request.post()
        code = str(form.get("code") or "") or str(form["refresh_token"]).partition("-")[2]
        life = {"token_type": "Bearer", "expires_in": 604800, "scope": "identify guilds"}
        return web.json_response({"access_token": f"a-{code}", "refresh_token": f"r-{code}", **life})

    async def user(request: web.Request) -> web.Response:
        code = who(request)
        number = PERSON if code == "person" else 1_000_000 + int(code)
        return web.json_response({"id": str(number), "username": f"user{number}", "global_name": None, "avatar": None})

    async def guilds(request: web.Request) -> web.Response:
        return web.json_response(member_of() if who(request) == "person" else [])

    app = web.Application()
    app.router.add_post("/api/oauth2/token", token)
    app.router.add_get("/api/users/@me", user)
    app.router.add_get("/api/users/@me/guilds", guilds)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    return runner, f"http://127.0.0.1:{port}/api"


# The service


class Service:
    def __init__(self, provider_url: str) -> None:
        # A free port now; the service comes back to the same one each time.
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.listen = f"127.0.0.1:{free.getsockname()[1]}"
        self.url = f"http://{self.listen}"
        self.log = WORK / "service.log"
        self.environment = {
            **os.environ,
            "COMPANION_STORE_URL": f"sqlite:{WORK / 'service.db'}",
            "COMPANION_IDP_BASE_URL": provider_url,
            "COMPANION_IDP_CLIENT_ID": "client",
            "COMPANION_IDP_CLIENT_SECRET": "a-secret-of-nobody",
            "COMPANION_IDP_REDIRECT_URI": "http://localhost:3000/callback",
            "COMPANION_IDP_CODE_MEMORY": "0s",
            "COMPANION_HTTP_ALLOWED_ORIGINS": "http://localhost:3000",
            # A member who has left is taken off the list until the provider is asked again; here that is each time.
            "COMPANION_GUILDS_FRESH": "0s",
            "COMPANION_GUILDS_STALE_WHILE_REVALIDATE": "0s",
            "COMPANION_LIMITS_EXEMPT": "127.0.0.0/8",
            "COMPANION_FEED_REQUESTS_PER_SECOND": "0",
            "COMPANION_LOG_FILTER": "warn",
        }
        self.process: asyncio.subprocess.Process | None = None
        self.key = ""

    async def make_key(self) -> None:
        process = await asyncio.create_subprocess_exec(
            BINARY, "key", "create", "--label", "kill-feed", env=self.environment, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await process.communicate()
        found = re.search(rb"bck_[0-9A-Za-z]+", said)
        if found is None:
            raise Wrong("no bot key was made")
        self.key = found[0].decode()

    async def spawn(self) -> None:
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                BINARY, "serve", "--listen", self.listen, env=self.environment, stdout=log, stderr=log
            )

    async def kill(self) -> None:
        assert self.process is not None
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGKILL)
        if await self.process.wait() != -signal.SIGKILL:
            raise Wrong(f"the service has ended by itself: {self.process.returncode}")


class Client:
    """Reads what the service shows. One for each life of the service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=DEADLINE))

    async def get(self, path: str, **headers: str) -> Any:
        async with self.session.get(self.service.url + path, headers=headers) as response:
            body = await response.json()
            if response.status != 200:
                raise Wrong(f"GET {path}: {body}")
            return body["data"]

    async def state(self) -> Json:
        return dict(await self.get("/bot/state", Authorization=f"Bearer {self.service.key}"))

    async def guilds(self, token: str) -> dict[int, Json]:
        return {int(entry["id"]): entry for entry in await self.get("/guilds", Token=token)}

    async def sign_in(self, code: str) -> str:
        async with self.session.post(f"{self.service.url}/auth", headers={"Idp-Code": code}) as response:
            body = await response.json()
            if response.status != 200:
                raise Wrong(f"signing in: {body}")
            return str(body["data"]["token"])

    async def ready(self) -> None:
        end = time.monotonic() + DEADLINE
        while True:
            try:
                await self.state()
                return
            except aiohttp.ClientError:
                process = self.service.process
                if time.monotonic() > end or (process is not None and process.returncode is not None):
                    raise Wrong("the service does not start again") from None
                await asyncio.sleep(0.01)


def feedback_line(identity: str, text: str) -> Json:
    submitter = {"id": "90", "username": "rater", "name": "Rater", "avatar": None}
    return {"type": "feedback", "id": identity, "feedback": text, "rating": 5, "timestamp": 1_700_000_000, "submitter": submitter}


def roster(role: str) -> list[Json]:
    known = {"username": "crew", "name": "Crew", "avatar": "https://cdn.example/a.png", "color": "#E0A030", "category": "crew"}
    return [{**known, "discord_id": str(200 + n), "role": role, "position": n, "permissions": []} for n in (1, 2, 3)]


# The recorder


class Request:
    """One request, and the parts of the recorder's world that have its number once it is applied."""

    def __init__(self, number: int, sequence: int, method: str, path: str, lines: list[Json], parts: Json) -> None:
        self.number, self.sequence, self.method, self.path, self.parts = number, sequence, method, path, parts
        self.body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        self.count = len(lines)
        self.next = sequence + (self.count if path == "/bot/events" else 0)
        self.tries = 0


class Recorder:
    """Its world is a number for each part; a request is applied if all of its parts have its number."""

    def __init__(self, service: Service, rng: random.Random, act: str, findings: Findings) -> None:
        self.service, self.rng, self.act, self.findings = service, rng, act, findings
        self.instance = f"recorder-{act}"
        self.started_at = time.time()
        self.number = 0
        self.next = 1
        self.world: Json = {}
        self.pending: Request | None = None
        self.acknowledged = 0
        self.cut = 0
        self.kept = 0
        self.first = asyncio.Event()

    def guild(self, identity: int, number: int) -> Json:
        known = {"icon": None, "owner": str(OWNER), "setup": True, "linked": False, "grants": GRANTS}
        return {"id": str(identity), "name": f"n{number}", "members": number, **known}

    def role(self, number: int) -> str:
        return str(ADMIN_ROLE if number % 2 else MOD_ROLE)

    def subscription(self, number: int) -> Json:
        return {"userid": str(PAYER), "slots": number, "guilds": [str(RECORDED[0]), str(RECORDED[-1])], "active_until": None}

    def snapshot(self, number: int) -> Request:
        staff = {str(PERSON): [self.role(number)]}
        fillers = FILLERS[: self.rng.randrange(200, 1500)]
        identities = RECORDED + fillers
        self.rng.shuffle(identities)
        lines: list[Json] = [{**self.guild(identity, number), "staff": staff} for identity in identities]
        lines.append({"end": len(identities)})
        parts = {"guilds": number, "held": len(identities)}
        return Request(number, self.next, "PUT", "/bot/shards/2/1/guilds", lines, parts)

    def events(self, number: int) -> Request:
        lines: list[Json] = []
        for guild in RECORDED:
            lines.append({"type": "guild", **self.guild(guild, number)})
            lines.append({"type": "member", "guild": str(guild), "user": str(PERSON), "roles": [self.role(number)]})
        lines += [feedback_line(f"recorder-{n}", f"n{number}") for n in (1, 2, 3)]
        parts = {"guilds": number, "feedback": number}
        if self.act == "team":
            lines.append({"type": "team", "members": roster(f"n{number}")})
            parts["team"] = number
        else:
            lines.append({"type": "subscription", **self.subscription(number)})
            parts["subscription"] = number
        self.rng.shuffle(lines)
        return Request(number, self.next, "POST", "/bot/events", lines, parts)

    def make(self) -> Request:
        self.number += 1
        if self.number == 1:
            return self.snapshot(self.number)
        if self.number == 2:
            return self.events(self.number)
        chance = self.rng.random()
        if chance < 0.1 and self.act != "team":
            lines: list[Json] = [self.subscription(self.number), {"end": 1}]
            return Request(self.number, self.next, "PUT", "/bot/subscriptions", lines, {"subscription": self.number})
        return self.snapshot(self.number) if chance < 0.5 else self.events(self.number)

    async def chunks(self, body: bytes) -> AsyncIterator[bytes]:
        size, pause = self.rng.choice([4096, 65536]), self.rng.choice([0.0, 0.0, 0.002])
        for start in range(0, len(body), size):
            yield body[start : start + size]
            await asyncio.sleep(pause)

    async def run(self) -> None:
        """Sends one request after the other, until the service is gone."""
        headers = {"Authorization": f"Bearer {self.service.key}", "Feed-Instance": self.instance}
        async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=DEADLINE)) as session:
            with contextlib.suppress(aiohttp.ClientError):
                beat = {"instance": self.instance, "started_at": self.started_at, "memory": 1, "shard_count": 2}
                beat["shards"] = [{"id": 1, "sent_ms_ago": 1, "acknowledged_ms_ago": 1, "latency": 1}]
                async with session.put(f"{self.service.url}/bot/heartbeat", json=beat) as response:
                    if response.status != 200:
                        raise Wrong(f"heartbeat: {await response.text()}")
                while True:
                    await self.send(session, self.pending or self.make())

    async def send(self, session: aiohttp.ClientSession, request: Request) -> None:
        self.pending = request
        request.tries += 1
        url, number = self.service.url + request.path, {"Feed-Sequence": str(request.sequence)}
        async with session.request(request.method, url, headers=number, data=self.chunks(request.body)) as response:
            body = await response.json()
        data = body["data"]
        if response.status == 429:
            # The upload that was cut is still being put away.
            await asyncio.sleep(0.05)
            return
        if response.status != 200 or data["next"] != request.next:
            raise Wrong(f"{request.method} {request.path} at {request.sequence}, try {request.tries}: {body}")
        if request.tries == 1 and data["ignored"]:
            raise Wrong(f"ignored: {body}")
        self.apply(request)
        self.acknowledged += 1
        self.first.set()

    def apply(self, request: Request) -> None:
        self.world = {**self.world, **request.parts}
        self.next = request.next
        self.pending = None

    def seen_guilds(self, guilds: dict[int, Json]) -> Any:
        """The number that all of them have, or what they have instead."""
        found: set[int | str] = set()
        for identity in RECORDED:
            entry = guilds.get(identity)
            if entry is None:
                found.add("missing")
                continue
            number = int(entry["members"])
            whole = entry["name"] == f"n{number}" and entry["permissions"]["ADMIN"] == bool(number % 2)
            found.add(number if whole else f"{entry['name']}/{number}/{entry['permissions']['ADMIN']}")
        return found.pop() if len(found) == 1 else sorted(map(str, found))

    async def observe(self, client: Client, token: str) -> tuple[Json, int]:
        guilds, state = await client.guilds(token), await client.state()
        seen: Json = {"guilds": self.seen_guilds(guilds)}
        shards = {(entry["shard_count"], entry["shard_id"]): entry["guilds"] for entry in state["shards"]}
        seen["held"] = shards.get((2, 1), 0)

        def one(found: set[Any]) -> Any:
            return found.pop() if len(found) == 1 else sorted(map(str, found))

        if "feedback" in self.world or self.number >= 2:
            entries = [entry["feedback"] for entry in await client.get("/feedback")]
            texts = [text for text in entries if text.startswith("n")]
            seen["feedback"] = one({int(text[1:]) for text in texts}) if len(texts) == 3 else texts
            if self.act == "team":
                team = await client.get("/team")
                seen["team"] = one({entry["role"] for entry in team})
                if len(team) == 3 and isinstance(seen["team"], str) and seen["team"].startswith("n"):
                    seen["team"] = int(seen["team"][1:])
            else:
                plus = [guilds[identity]["plus"]["plus"] for identity in (RECORDED[0], RECORDED[-1]) if identity in guilds]
                seen["subscription"] = one({entry["slots"] for entry in plus})
        instances = {entry["instance"]: entry["next"] for entry in state["instances"]}
        return seen, instances.get(self.instance, 1)

    async def check(self, client: Client, token: str, where: str) -> None:
        """After a kill: everything acknowledged is there, and the request whose fate is unknown wholly or not at all."""
        if self.number <= 2 and self.pending is not None or not self.world:
            return  # the first two requests make the world
        pending = self.pending
        seen, following = await self.observe(client, token)
        before, after = (self.world, self.next), (self.world, self.next)
        if pending is not None:
            self.cut += 1
            after = {**self.world, **pending.parts}, pending.next
        if (seen, following) == before:
            return
        if (seen, following) == after:
            self.kept += 1
            return
        told = f"{where}: seen {seen}, next {following}; acknowledged {before}, under way {pending and after}"
        behind = following < self.next or any(
            not isinstance(seen[part], list) and seen[part] not in (before[0][part], after[0][part]) for part in before[0]
        )
        (self.findings.lost if behind else self.findings.half).append(told)


# The pretend bot


class PretendBot:
    """Has what discord.py's `Bot` has, as far as the SDK looks. Everything about it changes at random."""

    shard_count, shard_id, latency = 2, 0, 0.04

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.user = SimpleNamespace(id=900)
        self.world: dict[int, Any] = {}
        self.listeners: dict[str, list[Any]] = {}
        self.premium: dict[int, Json] = {}
        self.team_role = "b0"
        self.said = {"bot-1": "", "bot-2": ""}
        self.count = 0
        self.changes = 0
        for identity in BOT_GUILDS[::2]:
            self.join(identity)

    # As the library

    @property
    def guilds(self) -> list[Any]:
        return list(self.world.values())

    def get_guild(self, identity: int) -> Any:
        return self.world.get(identity)

    def is_ready(self) -> bool:
        return True

    def add_listener(self, function: Any, name: str) -> None:
        self.listeners.setdefault(name, []).append(function)

    def remove_listener(self, function: Any, name: str) -> None:
        self.listeners[name].remove(function)

    async def close(self) -> None:
        pass

    async def emit(self, event: str, *arguments: Any) -> None:
        for listener in list(self.listeners.get(f"on_{event}", ())):
            await listener(*arguments)

    # What changes

    def join(self, identity: int) -> Any:
        self.count += 1
        guild = SimpleNamespace(id=identity, name=f"b{self.count}", icon=None, owner_id=OWNER, unavailable=False)
        guild.member_count, guild.setup, guild.linked = self.rng.randrange(1, 1000), self.rng.random() < 0.5, False
        guild.members = [self.member(guild, PERSON, self.roles())] if self.rng.random() < 0.7 else []
        self.world[identity] = guild
        return guild

    def roles(self) -> list[int]:
        return [role for role in (MOD_ROLE, ADMIN_ROLE, 62) if self.rng.random() < 0.5]

    @staticmethod
    def member(guild: Any, identity: int, roles: list[int]) -> Any:
        return SimpleNamespace(id=identity, guild=guild, roles=[SimpleNamespace(id=role) for role in (guild.id, *roles)])

    async def change(self, companion: Companion) -> None:
        self.count += 1
        self.changes += 1
        what = self.rng.randrange(9)
        guild = self.rng.choice(self.guilds) if self.world else None
        if what == 0 or guild is None:
            absent = [identity for identity in BOT_GUILDS if identity not in self.world]
            if absent:
                await self.emit("guild_join", self.join(self.rng.choice(absent)))
        elif what == 1 and len(self.world) > 5:
            del self.world[guild.id]
            await self.emit("guild_remove", guild)
        elif what in (2, 3):
            guild.name = f"b{self.count}"
            await self.emit("guild_update", guild, guild)
        elif what in (4, 5):
            if guild.members and self.rng.random() < 0.3:
                left = guild.members.pop()
                guild.member_count -= 1
                await self.emit("member_remove", left)
            elif guild.members:
                before, after = guild.members[0], self.member(guild, PERSON, self.roles())
                guild.members[0] = after
                await self.emit("member_update", before, after)
            else:
                guild.members = [self.member(guild, PERSON, self.roles())]
                guild.member_count += 1
                await self.emit("member_join", guild.members[0])
        elif what == 6:
            guild.setup, guild.linked = self.rng.random() < 0.5, self.rng.random() < 0.5
            companion.changed(guild)
        elif what == 7:
            identity = self.rng.choice(list(self.said))
            self.said[identity] = f"b{self.count}"
            rater = {"id": "91", "username": "other", "name": "Other", "avatar": None}
            companion.feedback(identity, f"b{self.count}", 5, rater, 1_700_000_000)
        elif self.rng.random() < 0.5:
            self.team_role = f"b{self.count}"
            companion.team_changed()
        else:
            payer = self.rng.randrange(300, 310)
            if payer in self.premium:
                del self.premium[payer]
            else:
                # A guild each, so that what is shown of it is certain.
                guilds = [str(BOT_GUILDS[payer - 300])]
                self.premium[payer] = {"userid": str(payer), "slots": self.count, "guilds": guilds, "active_until": None}
            companion.subscriptions_changed()

    async def live(self, companion: Companion) -> None:
        while True:
            await self.change(companion)
            await asyncio.sleep(self.rng.choice([0, 0.005, 0.01, 0.03]))

    # What the service should show of it

    def difference(self, act: str, guilds: dict[int, Json], feedback: list[Json], team: list[Json]) -> list[str]:
        found = []
        for identity in BOT_GUILDS:
            guild, entry = self.world.get(identity), guilds.get(identity)
            if guild is None or entry is None:
                if (guild is None) != (entry is None):
                    found.append(f"guild {identity}: {'not there' if entry is None else 'still there'}")
                continue
            held = {role.id for member in guild.members for role in member.roles}
            permissions = entry["permissions"]
            expected = (guild.name, guild.member_count, guild.setup, guild.linked, ADMIN_ROLE in held, bool({ADMIN_ROLE, MOD_ROLE} & held))
            shown = (entry["name"], entry["members"], permissions["SETUP"], permissions["ERLC_LINKED"], permissions["ADMIN"],
                     permissions["ADMIN"] or permissions["MOD"])  # fmt: skip
            if expected != shown:
                found.append(f"guild {identity}: {shown} is not {expected}")
            if act == "team":
                slots = next((paid["slots"] for paid in self.premium.values() if paid["guilds"] == [str(identity)]), 0)
                if entry["plus"]["plus"]["slots"] != slots:
                    found.append(f"premium of {identity}: {entry['plus']['plus']} is not {slots}")
        said, shown_said = sorted(filter(None, self.said.values())), sorted(
            entry["feedback"] for entry in feedback if entry["feedback"].startswith("b")
        )
        if said != shown_said:
            found.append(f"feedback: {shown_said} is not {said}")
        if act != "team" and {entry["role"] for entry in team} != {self.team_role}:
            found.append(f"team: {team} is not {self.team_role}")
        return found


def attach(bot: PretendBot, service: Service, act: str) -> Companion:
    limits = Limits(heartbeat_interval=0.5, flush_interval=0.02, first_delay=0.02, longest_delay=0.3, member_count_interval=0.2)
    companion = Companion(
        bot,
        HttpTransport(service.url, service.key),
        grants=lambda guild: GRANTS,
        setup=lambda guild: bool(guild.setup),
        linked=lambda guild: bool(guild.linked),
        # What one of the two bots says, the other leaves alone: both are told whole.
        subscriptions=(lambda: list(bot.premium.values())) if act == "team" else None,
        team=(lambda: roster(bot.team_role)) if act != "team" else None,
        limits=limits,
    )
    bot_companion.connect(bot, companion)
    return companion


# The kills


class Kills:
    def __init__(self, service: Service) -> None:
        self.service = service
        self.rng = random.Random(SEED)
        self.findings = Findings()
        self.bot = PretendBot(random.Random(SEED + 1))
        self.token = ""
        self.visitors: list[str] = []
        self.signed_in = 0
        self.kills = self.early = self.cut = self.kept = self.acknowledged = self.reads = 0
        self.began = time.monotonic()

    async def sign_ins(self, client: Client) -> None:
        """Until the service is gone."""
        with contextlib.suppress(aiohttp.ClientError):
            while True:
                self.signed_in += 1
                self.visitors = [*self.visitors[-2:], await client.sign_in(str(self.signed_in))]
                await asyncio.sleep(self.rng.choice([0.01, 0.05]))

    async def reads_beside(self, client: Client, recorder: Recorder) -> None:
        """What is acknowledged is in the next read, and a read never shows a half."""
        with contextlib.suppress(aiohttp.ClientError):
            while True:
                least = recorder.world.get("guilds", 0)
                seen = recorder.seen_guilds(await client.guilds(self.token))
                self.reads += 1
                if least > 0 and not isinstance(seen, int):
                    self.findings.half.append(f"a read beside the feed: {seen}")
                elif least > 0 and seen < least:
                    self.findings.lost.append(f"a read beside the feed: {seen}, acknowledged {least}")
                await asyncio.sleep(0.02)

    async def check_sessions(self, client: Client, where: str) -> None:
        for token in (self.token, *self.visitors):
            try:
                await client.guilds(token)
            except Wrong as refused:
                self.findings.lost.append(f"{where}: a session: {refused}")

    async def life(self, recorder: Recorder) -> None:
        """One life of the service, from its start to its kill."""
        where = f"after kill {self.kills}"
        await self.service.spawn()
        if self.kills and self.rng.random() < 0.1:
            # It may be killed before it is there, too.
            await asyncio.sleep(self.rng.uniform(0, 0.3))
            await self.service.kill()
            self.kills += 1
            self.early += 1
            return
        client = Client(self.service)
        tasks: list[asyncio.Task[None]] = []
        try:
            await client.ready()
            if not self.token:
                self.token = await client.sign_in("person")
            await self.check_sessions(client, where)
            await recorder.check(client, self.token, where)
            recorder.first.clear()
            loop = asyncio.get_running_loop()
            work = recorder.run(), self.sign_ins(client), self.reads_beside(client, recorder)
            tasks = [loop.create_task(each) for each in work]
            first = loop.create_task(recorder.first.wait())
            try:
                done, _ = await asyncio.wait({first, *tasks}, timeout=DEADLINE, return_when=asyncio.FIRST_COMPLETED)
            finally:
                first.cancel()
            if first not in done:
                for task in tasks:
                    if task.done():
                        task.result()
                raise Wrong("nothing is acknowledged")
            await asyncio.sleep(self.rng.uniform(0, self.rng.choice([0.02, 0.1, 0.4])))
            await self.service.kill()
            self.kills += 1
            await asyncio.wait_for(asyncio.gather(*tasks), DEADLINE)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await client.session.close()

    async def healed(self, act: str, recorder: Recorder) -> None:
        """Nothing changes any more, and nobody helps: what is shown must become what the bot is."""
        await self.service.spawn()
        client = Client(self.service)
        try:
            await client.ready()
            # What the last kill has left.
            await self.check_sessions(client, f"after kill {self.kills}")
            await recorder.check(client, self.token, f"after kill {self.kills}")

            async def equal() -> Any:
                seen = await client.guilds(self.token), await client.get("/feedback"), await client.get("/team")
                return self.bot.difference(act, *seen) or True

            await eventually(equal, "the service shows the pretend bot's world")
        finally:
            await client.session.close()
        await self.service.kill()

    async def act(self, act: str, until: int) -> None:
        """With a new start of both bots."""
        recorder = Recorder(self.service, self.rng, act, self.findings)
        companion = attach(self.bot, self.service, act)
        try:
            while self.kills < until and not self.findings.any():
                stop = min(until, (self.kills // REPORT + 1) * REPORT)
                living = asyncio.get_running_loop().create_task(self.bot.live(companion))
                try:
                    while self.kills < stop and not self.findings.any():
                        await self.life(recorder)
                finally:
                    living.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await living
                if not self.findings.any():
                    await self.healed(act, recorder)
                print(
                    f"{self.kills:4} of {ROUNDS} kills ({self.early} while starting) in {time.monotonic() - self.began:.0f} s: "
                    f"{self.acknowledged + recorder.acknowledged} requests acknowledged, {self.cut + recorder.cut} cut "
                    f"of which {self.kept + recorder.kept} had been applied; {self.reads} reads, {self.signed_in} sign-ins, "
                    f"{self.bot.changes} changes through the SDK",
                    flush=True,
                )
        finally:
            await self.bot.close()
            self.acknowledged += recorder.acknowledged
            self.cut += recorder.cut
            self.kept += recorder.kept


async def main() -> int:
    print(f"seed {SEED}", flush=True)
    runner, url = await provider()
    service = Service(url)
    kills = Kills(service)
    healed = False
    try:
        await service.make_key()
        await kills.act("subscriptions", ROUNDS // 2)
        await kills.act("team", ROUNDS)
        healed = not kills.findings.any()
    except Wrong as wrong:
        kills.findings.other.append(str(wrong))
    finally:
        if service.process is not None and service.process.returncode is None:
            service.process.kill()
            await service.process.wait()
        await runner.cleanup()
    findings = kills.findings
    for found in (*findings.lost, *findings.half, *findings.other):
        print(found, file=sys.stderr)
    print(
        f"{kills.kills} kills: {len(findings.lost)} acknowledged writes lost, {len(findings.half)} half-applied, "
        f"{'healed' if healed else 'NOT healed'}"
    )
    if not healed:
        if service.log.exists():
            print("".join(service.log.read_text(errors="replace").splitlines(keepends=True)[-20:]), file=sys.stderr)
        print(f"again with KILL_SEED={SEED}", file=sys.stderr)
    return 0 if healed else 1


if __name__ == "__main__":
    # The SDK says each time that the service is gone; that is why we are here.
    logging.getLogger("bot_companion").setLevel(logging.ERROR)
    sys.exit(asyncio.run(main()))
