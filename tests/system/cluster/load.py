"""The load: people and a bot who use the site all the time and record what was acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import random
import time
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

import aiohttp

from .testbed import Failed
from .provider import CHANGING, MEMBERS, QUIET, WATCHER
from .site import Site

Json = dict[str, Any]
PUBLIC = ("/", "/team", "/feedback")
# Requests per second of each kind. A request is sent when its time has come, whether or not the ones before were answered.
RATES = {"/": 20.0, "/team": 20.0, "/feedback": 20.0, "/guilds": 25.0, "sign in": 5.0, "sign out": 2.0, "heartbeat": 2.0}
# The bot sends one batch after the other, with a pause.
FEED_PAUSE = 0.05
PEOPLE = 6
TOO_LONG = 300.0


@dataclasses.dataclass
class Answer:
    kind: str
    sent: float
    took: float
    # None: there was none.
    status: int | None
    why: str = ""


class Load:
    def __init__(self, site: Site, seed: int = 1) -> None:
        self.site, self.rng = site, random.Random(seed)
        self.answers: list[Answer] = []
        self.watcher = ""
        # Those who look at their guilds all the time.
        self.people: list[str] = []
        # What was acknowledged: sessions that were made, and sessions that were ended.
        self.sessions: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.signed_in = self.made = self.ended_ever = 0
        self.lost: list[Answer] = []
        self.bot = Bot(self)
        self.under_way: set[asyncio.Task[None]] = set()
        self.pacers: list[asyncio.Task[None]] = []
        self.client = self.new_client()

    def new_client(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=0, ssl=self.site.trust, resolver=self.site.names)
        client = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TOO_LONG), connector=connector)
        # The client would retry a read without a word, and a connection that was closed on it would go unseen.
        client._retry_connection = False
        return client

    async def call(self, kind: str, method: str, url: str, **options: Any) -> tuple[int | None, Json]:
        """One request, written down."""
        sent, status, why, body = time.monotonic(), None, "", {}
        try:
            async with self.client.request(method, url, **options) as response:
                text = await response.read()
                status = response.status
                with contextlib.suppress(ValueError):
                    body = json.loads(text)
                if status != 200:
                    why = str(body.get("data", {}).get("error", text[:80]))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            why = f"{type(error).__name__}: {error}"
        self.answers.append(Answer(kind, sent, time.monotonic() - sent, status, why))
        return status, body

    # What people do

    @property
    def lasting(self) -> list[str]:
        """The sessions that stay."""
        return [self.watcher, *self.people]

    async def sign_in(self, number: int | None = None, url: str | None = None) -> str | None:
        self.signed_in += 1
        number = self.rng.randrange(MEMBERS, 10 * MEMBERS) if number is None else number
        code = f"{number}.{self.signed_in}"
        status, body = await self.call("sign in", "POST", f"{url or self.site.url}/auth", headers={"Idp-Code": code})
        if status != 200:
            return None
        token = str(body["data"]["token"])
        self.sessions[token] = time.monotonic()
        self.made += 1
        return token

    async def sign_out(self) -> None:
        old = [token for token in list(self.sessions)[:50] if token not in self.lasting]
        if not old:
            return
        # Until it is acknowledged, whether the session still works is unknown.
        token = self.rng.choice(old)
        del self.sessions[token]
        status, _ = await self.call("sign out", "DELETE", f"{self.site.url}/auth", headers={"Token": token})
        if status == 200:
            self.ended[token] = time.monotonic()
            self.ended_ever += 1
        elif status == 401:
            self.lost.append(self.answers[-1])

    async def look(self, path: str) -> None:
        headers = {"Token": self.rng.choice(self.people)} if path == "/guilds" else {}
        await self.call(path, "GET", f"{self.site.url}{path}", headers=headers)

    # The load

    async def prepare(self) -> None:
        """People sign in, the bot says everything, and every replica has answered everything once."""
        tokens = [await self.sign_in(number) for number in (WATCHER, *range(1, PEOPLE + 1))]
        self.watcher, *self.people = [token for token in tokens if token is not None]
        if len(self.people) < PEOPLE:
            raise Failed(f"nobody can sign in: {self.answers[-1]}")
        await self.bot.introduce()
        await self.warm()

    async def warm(self) -> None:
        for replica in self.site.replicas:
            for path in PUBLIC:
                await self.expect(200, "GET", f"{replica.url}{path}")
            for token in self.people:
                await self.expect(200, "GET", f"{replica.url}/guilds", headers={"Token": token})

    async def expect(self, expected: int, method: str, url: str, **options: Any) -> Json:
        status, body = await self.call("check", method, url, **options)
        if status != expected:
            raise Failed(f"{method} {url}: {expected} was expected: {self.answers[-1]}")
        return body

    def start(self) -> None:
        acts: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {path: partial(self.look, path) for path in (*PUBLIC, "/guilds")}
        acts |= {"sign in": self.sign_in, "sign out": self.sign_out, "heartbeat": self.bot.heartbeat}
        self.pacers = [asyncio.create_task(self.pace(RATES[kind], act)) for kind, act in acts.items()]
        self.pacers.append(asyncio.create_task(self.bot.live()))

    async def pace(self, rate: float, act: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        following = time.monotonic() + self.rng.random() / rate
        while True:
            await asyncio.sleep(max(0.0, following - time.monotonic()))
            following += self.site.testbed.scaled(1 / rate)
            task = asyncio.create_task(act())
            self.under_way.add(task)
            task.add_done_callback(self.under_way.discard)

    async def stop(self) -> None:
        """Sends nothing more, and waits for all answers."""
        pacers, self.pacers = self.pacers, []
        self.bot.stopping = True
        for pacer in pacers[:-1]:
            pacer.cancel()
        failures = await asyncio.gather(*pacers, *self.under_way, return_exceptions=True)
        self.bot.stopping = False
        for failure in failures:
            if isinstance(failure, Exception):
                raise failure
        self.broken()

    def broken(self) -> None:
        """Raises what went wrong in the load itself."""
        if self.lost:
            raise Failed(f"an acknowledged session was not there to be ended: {self.lost[0]}")
        for pacer in self.pacers:
            if pacer.done():
                pacer.result()

    async def end(self) -> None:
        for task in (*self.pacers, *self.under_way):
            task.cancel()
        await asyncio.gather(*self.pacers, *self.under_way, return_exceptions=True)
        await self.client.close()

    # What became of it

    def since(self, first: int, kinds: Iterable[str] | None = None) -> list[Answer]:
        wanted = None if kinds is None else set(kinds)
        return [answer for answer in self.answers[first:] if answer.kind != "check" and (wanted is None or answer.kind in wanted)]

    async def check_sessions(self, urls: list[str]) -> tuple[int, int]:
        """Every acknowledged session works, and every ended one is refused, at each of these addresses."""
        limit = asyncio.Semaphore(16)

        async def one(url: str, token: str, expected: int) -> None:
            async with limit:
                try:
                    await self.expect(expected, "GET", f"{url}/guilds", headers={"Token": token})
                except Failed as failed:
                    what = "an acknowledged session is lost" if expected == 200 else "an ended session is back"
                    raise Failed(f"{what}: {failed}") from None

        made, ended = list(self.sessions), list(self.ended)
        work = [one(url, token, 200) for url in urls for token in made] + [one(url, token, 401) for url in urls for token in ended]
        for failure in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(failure, BaseException):
                raise failure
        return len(made), len(ended)


class Bot:
    """Numbers what it says, and says it again until it is acknowledged. Each batch changes two guilds to the batch's own number."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.instance = f"bot-{time.time_ns()}"
        self.started_at = time.time()
        self.sequence, self.number = 1, 0
        # The number that each guild was acknowledged with, and the one that it may have.
        self.world: dict[int, int] = {}
        self.pending: dict[int, int] = {}
        self.acknowledged = self.repeated = 0
        self.latest_acknowledged = 0.0
        self.stopping = False

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.load.site.key}", "Feed-Instance": self.instance, "Feed-Sequence": str(self.sequence)}

    @staticmethod
    def guild(identity: int, number: int) -> Json:
        known: Json = {"icon": None, "owner": "5", "setup": True, "linked": False, "grants": {}}
        return {"id": str(identity), "name": f"n{number}", "members": number, **known}

    @staticmethod
    def lines(lines: list[Json]) -> bytes:
        return b"".join(json.dumps(line).encode() + b"\n" for line in lines)

    async def introduce(self) -> None:
        await self.heartbeat()
        guilds = [self.guild(identity, 0) for identity in CHANGING + QUIET]
        body, url = self.lines([*guilds, {"end": len(guilds)}]), f"{self.load.site.url}/bot/shards/1/0/guilds"
        answer = await self.load.expect(200, "PUT", url, headers=self.headers, data=body)
        self.sequence = int(answer["data"]["next"])
        self.world = dict.fromkeys(CHANGING, 0)
        team = {"username": "crew", "name": "Crew", "avatar": "https://cdn.example/a.png", "discord_id": "201", "role": "Keeper",
                "color": "#E0A030", "category": "crew", "position": 1, "permissions": []}  # fmt: skip
        submitter = {"id": "90", "username": "rater", "name": "Rater", "avatar": None}
        said = {"type": "feedback", "feedback": "Fine", "rating": 5, "timestamp": 1_700_000_000, "submitter": submitter}
        lines: list[Json] = [{"type": "team", "members": [team]}, *({**said, "id": f"f{n}"} for n in range(5))]
        url = f"{self.load.site.url}/bot/events"
        answer = await self.load.expect(200, "POST", url, headers=self.headers, data=self.lines(lines))
        self.sequence = int(answer["data"]["next"])

    async def heartbeat(self) -> None:
        shards = [{"id": 0, "sent_ms_ago": 1, "acknowledged_ms_ago": 1, "latency": 1}]
        beat = {"instance": self.instance, "started_at": self.started_at, "memory": 1, "shard_count": 1, "shards": shards}
        headers = {"Authorization": f"Bearer {self.load.site.key}"}
        await self.load.call("heartbeat", "PUT", f"{self.load.site.url}/bot/heartbeat", headers=headers, json=beat)

    async def live(self) -> None:
        while not self.stopping:
            await self.say()
            await asyncio.sleep(FEED_PAUSE)

    async def say(self, url: str | None = None) -> None:
        """One batch, until it is acknowledged."""
        self.number += 1
        self.pending = {identity: self.number for identity in self.load.rng.sample(CHANGING, 2)}
        lines = self.lines([{"type": "guild", **self.guild(identity, self.number)} for identity in self.pending])
        place = f"{url or self.load.site.url}/bot/events"
        while True:
            status, body = await self.load.call("events", "POST", place, headers=self.headers, data=lines)
            if status == 200:
                break
            if status == 409:
                raise Failed(f"acknowledged events are lost: the next is {body['data']}, and {self.sequence} was sent")
            if status is not None and status not in (502, 503, 504):
                raise Failed(f"a batch of events was refused: {body}")
            self.repeated += 1
            await asyncio.sleep(FEED_PAUSE)
        # It may have been applied by a try before, the balancer's included, and then it is ignored: `next` is what counts.
        data = body["data"]
        if data["next"] != self.sequence + 2:
            raise Failed(f"a batch of two events at {self.sequence}: {data}")
        self.sequence += 2
        self.world |= self.pending
        self.pending = {}
        self.acknowledged += 1
        self.latest_acknowledged = time.monotonic()

    async def check(self, url: str) -> None:
        """Nothing is being said: what is shown is exactly what was acknowledged."""
        answer = await self.load.expect(200, "GET", f"{url}/guilds", headers={"Token": self.load.watcher})
        seen = {int(entry["id"]): int(entry["members"]) for entry in answer["data"]}
        wrong = [f"{identity}: {seen.get(identity)} instead of {number}" for identity, number in self.world.items() if seen.get(identity) != number]
        if wrong:
            raise Failed(f"acknowledged events are not shown by {url}: {'; '.join(wrong[:5])}")
