"""Shows that nginx, HAProxy and Caddy work with the configurations of `deploy`, with TLS and below a path, before three replicas.

Whose address counts, live streams, uploads, errors, what is sent again and what never is, a lost database, a rolling restart. Caddy gets
its certificate from Pebble. `make test-proxies`; what can be set: `tests/system/cluster/run`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp

from . import rolling_restart
from .acme import SPARE, Authority, Caddy, Names
from .certificate import Certificate
from .load import Load
from .nginx import Nginx
from .provider import CHANGING, QUIET
from .replicas import REPLICAS, Balancer
from .site import Proxy, Site, running
from .testbed import PATIENCE, Failed, Testbed, run
from .unavailable import pretended, refusals, without_the_database

ORIGIN = "https://dashboard.example"
# Rate limits that a test can reach. They count per replica.
BURST = 20
CONFIGURATION = {"COMPANION_HTTP_BASE_PATH": "/api", "COMPANION_LIMITS_REQUESTS_PER_SECOND": "1", "COMPANION_LIMITS_REQUESTS_BURST": str(BURST)}
# A live stream on which nothing happens has a comment every 15 s. When it is this old, in seconds, it has outlived every timeout of the
# proxies that is not for streams; the longest is 40 s.
OUTLIVED = 45
SNAPSHOT_BYTES = 20_000_000
# What a connection says about itself, and what is different in each answer: the ID, whose length differs, too.
OF_THE_HOP = {"date", "server", "connection", "keep-alive", "transfer-encoding", "strict-transport-security", "x-request-id", "content-length"}
# There is one bot, and it says one thing after the other.
BOT = asyncio.Lock()


def check(holds: bool, what: str) -> None:
    if not holds:
        raise Failed(what)


class Client:
    """Someone with their own address."""

    def __init__(self, site: Site, number: int) -> None:
        connector = aiohttp.TCPConnector(limit=0, ssl=site.trust, resolver=site.names, local_addr=(site.testbed.address(number), 0))
        self.session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE), connector=connector)
        self.session._retry_connection = False

    async def ask(self, method: str, url: str, headers: dict[str, str] | None = None, **options: Any) -> tuple[int, dict[str, str], Any]:
        async with self.session.request(method, url, headers=headers, **options) as response:
            text = await response.read()
            body = json.loads(text) if text else None
            return response.status, {name.lower(): value for name, value in response.headers.items()}, body

    async def statuses(self, url: str, count: int) -> list[int]:
        return [(await self.ask("GET", url))[0] for _ in range(count)]

    async def is_refused(self, url: str, forwarded: Callable[[int], str | None]) -> bool:
        """Whether one of many requests is one too many. Each may claim to come from somewhere."""
        for number in range(REPLICAS * BURST * 10):
            claim = forwarded(number)
            status, _, _ = await self.ask("GET", url, {"X-Forwarded-For": claim} if claim else {})
            if status == 429:
                return True
            check(status == 200, f"{url} is answered: {status}")
        return False


@contextlib.asynccontextmanager
async def client(site: Site, number: int) -> AsyncIterator[Client]:
    made = Client(site, number)
    try:
        yield made
    finally:
        await made.session.close()


async def addresses(site: Site, proxy: Proxy, first: int) -> None:
    """The rate limit counts each client for itself, whatever the client says about its address."""
    url = f"{proxy.url}/team"
    async with client(site, first) as greedy, client(site, first + 1) as other:
        check(await greedy.is_refused(url, lambda _: None), "of many requests of a client, some are too many")
        seen = await other.statuses(url, BURST)
        check(set(seen) == {200}, f"another client is not refused for it: {Counter(seen)}")
        # Each time as someone else: were that believed, nobody would ever have asked too often.
        everybody = await greedy.is_refused(url, lambda number: f"203.0.{number // 250}.{number % 250}")
        check(everybody, "a forged X-Forwarded-For is not believed")
        # As the proxy itself, which is exempt.
        check(await greedy.is_refused(url, lambda _: "127.0.0.1"), "a forged X-Forwarded-For with the proxy's address is not believed")


async def errors(site: Site, proxy: Proxy, number: int) -> None:
    """What the service says to someone who does something wrong comes through as it is, CORS headers included."""
    direct = site.replicas[0].url
    asked: list[tuple[int, str, str, dict[str, str], bytes | None]] = [
        (401, "GET", "/guilds", {"Origin": ORIGIN}, None),
        (400, "POST", "/auth", {"Origin": ORIGIN}, None),
        (404, "GET", "/nothing", {"Origin": ORIGIN}, None),
        # The admin listener is not behind the proxy.
        (404, "GET", "/metrics", {"Origin": ORIGIN}, None),
        (405, "DELETE", "/team", {"Origin": ORIGIN}, None),
        (431, "GET", "/team", {"Origin": ORIGIN, "X-Much": "x" * 18_000}, None),
        (401, "PUT", "/bot/heartbeat", {}, b"{}"),
        (204, "OPTIONS", "/guilds", {"Origin": ORIGIN, "Access-Control-Request-Method": "GET"}, None),
    ]
    async with client(site, number) as visitor:
        for status, method, path, headers, body in asked:
            what = f"{method} {path}"
            expected = await visitor.ask(method, direct + path, headers, data=body)
            got = await visitor.ask(method, proxy.url + path, {**headers, "X-Request-Id": "mine"}, data=body)
            check(expected[0] == status, f"{what} gives {status}: {expected}")
            check(got[0] == status, f"{what} gives {status} behind the proxy, too: {got}")
            for answer in (expected, got):
                for name in OF_THE_HOP - {"x-request-id"}:
                    answer[1].pop(name, None)
                given = answer[1].pop("x-request-id")
                if answer[2] is not None:
                    check(answer[2]["data"].pop("request_id") == given, f"{what} has one id in header and body: {answer}")
            check(given != "mine", f"{what}: a client's id does not get through")
            check(got == expected, f"{what} says behind the proxy what it says without:\n{got}\n{expected}")
            if path in ("/guilds", "/auth"):
                check(got[1].get("access-control-allow-origin") == ORIGIN, f"{what} may be read by the page: {got}")
        # Whoever refuses it, the service or the proxy, for which the page's origin is like any other.
        headers = {"Origin": ORIGIN, "Idp-Code": "1.x"}
        # The body waits to be asked for: a client that is still sending when the connection is closed may miss the answer.
        much = {"data": b"x" * 2_000_000, "expect100": True}
        status, got_headers, got_body = await visitor.ask("POST", f"{proxy.url}/auth", headers, **much)
        check(status == 413 and got_body["data"]["error"] == "body_too_large", f"a body that nobody asked for: {status}, {got_body}")
        check(got_headers.get("access-control-allow-origin") in (ORIGIN, "*"), f"the page may read why: {got_headers}")


class Stream:
    """A live stream that stays open."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def line(self) -> str:
        try:
            line = await asyncio.wait_for(self.response.content.readline(), PATIENCE)
        except aiohttp.ClientError as error:
            raise Failed(f"a live stream was cut: {error}") from None
        check(line != b"", "a live stream stays open")
        return line.decode().rstrip("\n")

    async def hears(self, topic: str) -> None:
        while True:
            line = await self.line()
            if line.startswith("data:") and topic in json.loads(line.removeprefix("data:"))["changed"]:
                return


async def streams(load: Load, proxy: Proxy) -> None:
    """What the bot changes is told at once, to everyone and to a user; and nothing cuts a stream on which little happens."""
    timeout = aiohttp.ClientTimeout(total=None)
    async with (
        load.client.get(f"{proxy.url}/live", timeout=timeout) as public,
        load.client.get(f"{proxy.url}/me/live", headers={"Token": load.watcher}, timeout=timeout) as own,
    ):
        check(public.status == own.status == 200, f"streams open: {public.status}, {own.status}")
        both, opened = ((Stream(public), "stats"), (Stream(own), "guilds")), time.monotonic()
        # The first event names every topic.
        for stream, topic in both:
            await stream.hears(topic)
        async with BOT:
            await load.bot.say()
        for stream, topic in both:
            await stream.hears(topic)

        async def outlives(stream: Stream) -> None:
            while time.monotonic() - opened < OUTLIVED:
                await stream.line()

        await asyncio.gather(*(outlives(stream) for stream, _ in both))
        async with BOT:
            await load.bot.say()
        for stream, topic in both:
            await stream.hears(topic)


async def upload(load: Load, proxy: Proxy) -> None:
    """A large snapshot goes through, piece by piece."""
    bot = load.bot
    guilds = [bot.guild(identity, bot.world.get(identity, 0)) for identity in CHANGING + QUIET]
    # Fields that the service does not know are ignored, but they have to get there.
    filler = "x" * (SNAPSHOT_BYTES // len(guilds))
    lines = [bot.lines([{**guild, "filler": filler}]) for guild in guilds] + [bot.lines([{"end": len(guilds)}])]

    async def pieces() -> AsyncIterator[bytes]:
        for line in lines:
            yield line

    url = f"{proxy.url}/bot/shards/1/0/guilds"
    answer = await load.expect(200, "PUT", url, headers=bot.headers, data=pieces())
    check(answer["data"]["applied"] == len(guilds), f"all of the snapshot is there: {answer}")
    await bot.check(proxy.url)


class Dying:
    """A replica that is ready, takes every request, and dies of it."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            method, path, _ = head.split(" ", 2)
            if path.endswith("/ready"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                await writer.drain()
            else:
                self.requests[method] += 1
        writer.close()


async def repeats(site: Site, proxy: Proxy, number: int) -> None:
    """A proxy before three replicas that die of each request: a read is tried at another, a sign-in never."""
    dying = Dying()
    async with pretended(site, proxy, number, [dying.serve] * REPLICAS):
        for method, path, times in (("POST", "/auth", {1}), ("GET", "/team", {2, 3, 4})):
            dying.requests.clear()
            # A connection each: where an earlier request was answered, HAProxy only closes it, and leaves the next try to the client.
            async with client(site, number) as visitor:
                status, headers, body = await visitor.ask(method, proxy.url + path, {"Idp-Code": "1.x", "Origin": ORIGIN})
            check(status == 502 and body["data"]["error"] == "bad_gateway", f"{method} {path}: {status}, {body}")
            check(headers["access-control-allow-origin"] == "*", f"the page may read why: {headers}")
            check(headers["x-request-id"] == body["data"]["request_id"], f"one id: {headers}, {body}")
            check(dying.requests[method] in times, f"{method} {path} was sent {dying.requests[method]} times")


async def checks(site: Site, load: Load, proxy: Proxy, number: int) -> None:
    """What needs no restart. Addresses from this number on are free for it."""
    await errors(site, proxy, number)
    await addresses(site, proxy, number + 1)
    async with BOT:
        await upload(load, proxy)


async def program() -> None:
    began = time.monotonic()
    testbed = Testbed()
    testbed.strict = False
    try:
        certificate = await Certificate.make(testbed.folder, [testbed.address(100), testbed.address(101)])
        site = Site(testbed, CONFIGURATION, certificate)
        nginx = Nginx(testbed, site.base_path, certificate)
        authority = Authority(testbed)
        caddy = Caddy(testbed, site.base_path, authority)
        site.names = Names(authority.names)
        async with running(site, with_faults=True):
            load, haproxy = Load(site), site.haproxy
            try:
                await authority.start()
                assert isinstance(site.trust, ssl.SSLContext)
                authority.trusted_by(site.trust)
                await nginx.start(site.replicas)
                await caddy.start(site.replicas)
                await load.prepare()
                print(f"a site in {time.monotonic() - began:.1f} s", flush=True)
                async with asyncio.TaskGroup() as group:
                    for proxy, number in ((haproxy, 110), (nginx, 120), (caddy, 130)):
                        group.create_task(streams(load, proxy))
                        group.create_task(checks(site, load, proxy, number))
                    group.create_task(repeats(site, Balancer(testbed, site.base_path, certificate), 140))
                    group.create_task(repeats(site, Nginx(testbed, site.base_path, certificate), 150))
                    group.create_task(repeats(site, Caddy(testbed, site.base_path, authority, SPARE), 160))
                print(f"addresses, errors, streams, uploads and repeats are as they should be: {time.monotonic() - began:.1f} s", flush=True)
                await refusals(site, lambda: Balancer(testbed, site.base_path, certificate), 140)
                await refusals(site, lambda: Nginx(testbed, site.base_path, certificate), 150)
                await refusals(site, lambda: Caddy(testbed, site.base_path, authority, SPARE), 160)
                print(f"refused reads are sent twice at most: {time.monotonic() - began:.1f} s", flush=True)
                await without_the_database(site, load, [haproxy, nginx, caddy])
                print(f"a replica without the database costs no read: {time.monotonic() - began:.1f} s", flush=True)
                check("temporary file" not in nginx.log.read_text(), "nginx writes nothing to the disk")
                for name, proxy in (("HAProxy", haproxy), ("nginx", nginx), ("Caddy", caddy)):
                    site.balancer = proxy
                    print(f"{name}:", flush=True)
                    await rolling_restart.rounds(site, load, 1)
            except* Failed as several:
                raise Failed("; ".join(str(each) for each in several.exceptions)) from several
            finally:
                await load.end()
                await nginx.end()
                await caddy.end()
                await authority.end()
    finally:
        testbed.remove()
    print(f"{time.monotonic() - began:.0f} s in all", flush=True)


if __name__ == "__main__":
    sys.exit(run(program))
