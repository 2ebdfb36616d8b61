"""A whole site: database, provider, replicas, networks and balancer, started and ended together."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from aiohttp.abc import AbstractResolver

from .certificate import Certificate
from .faults import Network
from .testbed import SLOWEST, Failed, Testbed, last_lines, output
from .replicas import REPLICAS, Balancer, Replica, service_configuration
from .postgres import PORT, USER, Pair
from .provider import Provider


# The service's default, in seconds.
STORE_WAIT = 2.0
# How long a query from a new process takes on two lightly loaded cores.
USUAL = 0.1


class Proxy(Protocol):
    """What stands before the replicas."""

    url: str
    log: Path

    async def start(self, replicas: list[Replica]) -> None: ...
    async def sees(self, *replicas: Replica) -> None: ...
    async def end(self) -> None: ...


class Site:
    """`configuration` are variables that every replica gets beside the usual ones; a certificate is the balancer's."""

    def __init__(self, testbed: Testbed, configuration: dict[str, str] | None = None, certificate: Certificate | None = None) -> None:
        self.testbed, self.configuration = testbed, configuration or {}
        self.base_path = self.configuration.get("COMPANION_HTTP_BASE_PATH", "")
        # The CA that clients trust.
        self.trust: ssl.SSLContext | bool = certificate.trust() if certificate else True
        # Name resolution for clients; a test may replace it.
        self.names: AbstractResolver | None = None
        self.database = Pair(testbed)
        self.provider = Provider()
        self.replicas = [Replica(testbed, number, self.base_path) for number in range(1, REPLICAS + 1)]
        self.networks: list[Network] = []
        self.haproxy = Balancer(testbed, self.base_path, certificate)
        # The target of the load; a test may replace it and then stops it itself.
        self.balancer: Proxy = self.haproxy
        self.key = ""

    @property
    def url(self) -> str:
        """Where clients go: to the balancer."""
        return self.balancer.url

    async def start(self, with_standby: bool, with_faults: bool) -> None:
        await self.database.start(with_standby)
        await self.measure()
        await self.provider.start(self.testbed.address(200))
        if with_faults:
            for replica in self.replicas:
                network = Network(self.testbed.address(50 + replica.number), (self.database.primary.address, PORT))
                await network.start()
                self.networks.append(network)
                # Without TLS, so that the network can read who connects.
                self.tell(replica, f"postgres://{USER}@{network.address}:{network.port}/{USER}?sslmode=disable")
        else:
            self.connect_directly()
        # All start at once on an empty database, which must work, too.
        await asyncio.gather(*(replica.start() for replica in self.replicas))
        await asyncio.gather(*(replica.ready() for replica in self.replicas))
        said = await output(self.replicas[0].binary, "key", "create", "--label", "cluster", env=self.replicas[0].environment)
        found = re.search(r"bck_[0-9A-Za-z]+", said)
        if found is None:
            raise Failed("no bot key was made")
        self.key = found[0]
        await self.haproxy.start(self.replicas)

    async def measure(self) -> None:
        """How slow the machine is: by a few programs that connect to the database and ask it something."""
        took = []
        for _ in range(5):
            began = time.monotonic()
            await self.database.primary.ask("SELECT 1")
            took.append(time.monotonic() - began)
        self.testbed.slowness = min(SLOWEST, max(1.0, sorted(took)[2] / USUAL))
        if self.testbed.slowness > 1.0:
            print(f"this machine is slow, or has other things to do: all times are {self.testbed.slowness:.1f} times as long", flush=True)

    def tell(self, replica: Replica, store: str) -> None:
        folder = self.testbed.folder / f"replica-{replica.number}"
        folder.mkdir(exist_ok=True)
        replica.environment = service_configuration(folder, self.provider.url, store, self.testbed.scaled(STORE_WAIT)) | self.configuration

    def connect_directly(self) -> None:
        """From their next start on, the replicas connect to both servers themselves."""
        for replica in self.replicas:
            self.tell(replica, self.database.url())

    async def end(self) -> None:
        async def each() -> None:
            await self.haproxy.end()
            for replica in self.replicas:
                await replica.end(signal.SIGKILL)
            for network in self.networks:
                await network.end()
            await self.database.end()
            await self.provider.end()

        # Also if this is called because someone wants to stop: nothing may be left behind.
        ending = asyncio.create_task(each())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await ending
            raise


@contextlib.asynccontextmanager
async def running_site(with_standby: bool = False, with_faults: bool = False, strict: bool = True) -> AsyncIterator[Site]:
    testbed = Testbed()
    testbed.strict = strict
    try:
        site = Site(testbed)
        async with running(site, with_standby, with_faults):
            yield site
    finally:
        testbed.remove()


@contextlib.asynccontextmanager
async def running(site: Site, with_standby: bool = False, with_faults: bool = False) -> AsyncIterator[None]:
    """A site from its start to its end."""
    try:
        await site.start(with_standby, with_faults)
        yield
    except Failed as failed:
        logs = [*(replica.log for replica in site.replicas), site.balancer.log, site.database.primary.log]
        told = "\n".join(f"-- {log.name}\n{last_lines(log, 8)}" for log in logs)
        raise Failed(f"{failed}\n{told}") from failed
    finally:
        await site.end()
