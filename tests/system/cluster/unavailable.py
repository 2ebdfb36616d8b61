"""Reads that a replica answers with 503: each proxy sends them to another replica, once, and keeps every replica in the rotation."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import aiohttp

from .faults import Mode
from .load import Load
from .replicas import Replica
from .site import Proxy, Site
from .testbed import PATIENCE, Failed, eventually

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
READS = 30
# Of the replicas that are overloaded: how many requests each works on at a time, and how many come.
PLACES, CROWD = 5, 60


@contextlib.asynccontextmanager
async def pretended(site: Site, proxy: Proxy, number: int, serving: list[Serve]) -> AsyncIterator[None]:
    """The proxy before replicas that a test pretends to be. It may use addresses after this number."""
    servers, replicas = [], []
    for each, serve in enumerate(serving, start=1):
        server = await asyncio.start_server(serve, site.testbed.address(number + each), 0)
        servers.append(server)
        replica = Replica(site.testbed, each, site.base_path)
        replica.address, replica.port = server.sockets[0].getsockname()
        replicas.append(replica)
    await proxy.start(replicas)
    try:
        yield
    finally:
        await proxy.end()
        for server in servers:
            server.close()


class Pretended:
    """A replica that is always ready, and answers 200 as long as it has places."""

    def __init__(self, places: int, free: asyncio.Event) -> None:
        self.places, self.free = places, free
        self.working = 0
        # Each request's method, client and ID.
        self.requests: list[tuple[str, str, str]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.rstrip().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            status = "200 OK"
            if not first.split(" ")[1].endswith("/ready"):
                self.requests.append((first.split(" ")[0], headers["x-forwarded-for"], headers["x-request-id"]))
                if self.working < self.places:
                    self.working += 1
                    await self.free.wait()
                    self.working -= 1
                else:
                    status = "503 Service Unavailable"
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}".encode())
            await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def three(site: Site, proxy: Proxy, number: int, places: list[int], free: bool = True) -> AsyncIterator[list[Pretended]]:
    event = asyncio.Event()
    if free:
        event.set()
    replicas = [Pretended(each, event) for each in places]
    async with pretended(site, proxy, number, [each.serve for each in replicas]):
        yield replicas


async def statuses(site: Site, number: int, method: str, url: str, count: int) -> Counter[int]:
    """Of requests that come one after the other, from this address."""
    seen: Counter[int] = Counter()
    connector = aiohttp.TCPConnector(ssl=site.trust, resolver=site.names, local_addr=(site.testbed.address(number), 0))
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE), connector=connector) as client:
        client._retry_connection = False
        for _ in range(count):
            async with client.request(method, url) as response:
                await response.read()
                seen[response.status] += 1
    return seen


def check(holds: bool, what: str) -> None:
    if not holds:
        raise Failed(what)


async def one_refuses(site: Site, proxy: Proxy, number: int) -> None:
    """Every read is answered, and the one that refuses keeps getting its share. A sign-in is never sent again."""
    async with three(site, proxy, number, [CROWD, 0, CROWD]) as replicas:
        seen = await statuses(site, number, "GET", f"{proxy.url}/team", READS)
        check(seen == {200: READS}, f"while one replica refuses, reads succeed: {seen}")
        refused = replicas[1].requests
        check(len(refused) >= READS // 6, f"the one that refuses is still asked: {len(refused)} of {READS}")
        sent = [request for replica in replicas for request in replica.requests]
        check(len(sent) == READS + len(refused), f"each refused read is sent once more: {len(sent)} for {READS}, {len(refused)} refused")
        ids = {request[2] for request in sent}
        check(len(ids) == READS, f"a repeat has the ID of its request: {len(ids)}")
        check({request[1] for request in sent} == {site.testbed.address(number)}, f"a repeat has the client's address: {sent}")
        seen = await statuses(site, number, "POST", f"{proxy.url}/auth", READS)
        sent = [request for replica in replicas for request in replica.requests if request[0] == "POST"]
        check(len(sent) == READS, f"sign-ins are sent once: {len(sent)} for {READS}")


async def all_refuse(site: Site, proxy: Proxy, number: int) -> None:
    """No storm: nothing is sent more than twice. Everyone learns the replicas' own answer."""
    async with three(site, proxy, number, [0, 0, 0]) as replicas:
        seen = await statuses(site, number, "GET", f"{proxy.url}/team", READS)
        check(seen == {503: READS}, f"all replicas refuse: {seen}")
        sent = Counter(request[2] for replica in replicas for request in replica.requests)
        check(set(sent.values()) == {2}, f"each read is sent twice: {Counter(sent.values())}")
        check(all(replica.requests for replica in replicas), "all are still asked")
        for replica in replicas:
            replica.places = CROWD
        seen = await statuses(site, number, "GET", f"{proxy.url}/team", READS)
        check(seen == {200: READS}, f"when they are back, the first read succeeds: {seen}")


async def overloaded(site: Site, proxy: Proxy, number: int) -> None:
    """More reads than places: all places are used, the rest is refused after two tries, and nobody is taken out."""
    async with three(site, proxy, number, [PLACES] * 3, free=False) as replicas:
        url, places = f"{proxy.url}/team", PLACES * len(replicas)
        crowd = [asyncio.create_task(statuses(site, number, "GET", url, 1)) for _ in range(CROWD)]

        async def refused() -> bool:
            return sum(task.done() for task in crowd) == CROWD - places

        await eventually(refused, "all places are used and all others are refused")
        replicas[0].free.set()
        seen = sum(await asyncio.gather(*crowd), Counter())
        check(seen == {200: places, 503: CROWD - places}, f"of a crowd: {seen}")
        sent = Counter(request[2] for replica in replicas for request in replica.requests)
        check(max(sent.values()) <= 2, f"nothing is sent more than twice: {Counter(sent.values())}")
        seen = await statuses(site, number, "GET", url, READS)
        check(seen == {200: READS}, f"after the crowd: {seen}")


async def refusals(site: Site, make: Callable[[], Proxy], number: int) -> None:
    for scenario in (one_refuses, all_refuse, overloaded):
        await scenario(site, make(), number)


async def without_the_database(site: Site, load: Load, proxies: list[Proxy]) -> None:
    """Real replicas: one that has lost the database costs no read; without the database for all, cached responses are still served."""
    token = {"Token": load.watcher}

    async def reads(expected: int, path: str) -> None:
        for proxy in proxies:
            for _ in range(READS):
                answer = await load.expect(expected, "GET", f"{proxy.url}{path}", headers=token)
                if expected != 200:
                    check(answer["data"]["error"] == "store_unavailable", f"the service says it itself: {answer}")

    async def all_answer(expected: int, replicas: list[Replica]) -> None:
        """Waits for what each replica says about something that it doesn't cache."""

        async def answers(replica: Replica) -> bool:
            return (await load.call("check", "GET", f"{replica.url}/sessions", headers=token))[0] == expected

        for replica in replicas:
            await eventually(partial(answers, replica), f"replica {replica.number} answers {expected}")

    await load.warm()
    site.networks[1].set(Mode.SILENT)
    await all_answer(503, site.replicas[1:2])
    await reads(200, "/sessions")
    await all_answer(503, site.replicas[1:2])
    site.networks[1].set(Mode.PASS)
    await all_answer(200, site.replicas)
    await load.warm()
    for network in site.networks:
        network.set(Mode.SILENT)
    await all_answer(503, site.replicas)
    await reads(200, "/team")
    await reads(503, "/sessions")
    for network in site.networks:
        network.set(Mode.PASS)
    await all_answer(200, site.replicas)
    await reads(200, "/sessions")
