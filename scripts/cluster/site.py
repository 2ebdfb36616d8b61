"""All of it together."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
from collections.abc import AsyncIterator

from .faults import Network
from .ground import Failed, Ground, last_lines, output
from .parts import BINARY, REPLICAS, Balancer, Replica, service_settings
from .postgres import PORT, USER, Pair
from .provider import Provider


class Site:
    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.database = Pair(ground)
        self.provider = Provider()
        self.replicas = [Replica(ground, number) for number in range(1, REPLICAS + 1)]
        self.networks: list[Network] = []
        self.balancer = Balancer(ground)
        self.key = ""

    @property
    def url(self) -> str:
        """Where clients go: to HAProxy."""
        return self.balancer.url

    async def start(self, with_standby: bool, with_faults: bool) -> None:
        await self.database.start(with_standby)
        await self.provider.start(self.ground.address(200))
        if with_faults:
            for replica in self.replicas:
                network = Network(self.ground.address(50 + replica.number), (self.database.primary.address, PORT))
                await network.start()
                self.networks.append(network)
                # Without TLS, so that the network can read who comes.
                self.tell(replica, f"postgres://{USER}@{network.address}:{network.port}/{USER}?sslmode=disable")
        else:
            self.connect_directly()
        # All at once, on an empty database: that must work, too.
        await asyncio.gather(*(replica.start() for replica in self.replicas))
        await asyncio.gather(*(replica.ready() for replica in self.replicas))
        said = await output(BINARY, "key", "create", "--label", "cluster", env=self.replicas[0].environment)
        found = re.search(r"bck_[0-9A-Za-z]+", said)
        if found is None:
            raise Failed("no bot key was made")
        self.key = found[0]
        await self.balancer.start(self.replicas)

    def tell(self, replica: Replica, store: str) -> None:
        folder = self.ground.folder / f"replica-{replica.number}"
        folder.mkdir(exist_ok=True)
        replica.environment = service_settings(folder, self.provider.url, store)

    def connect_directly(self) -> None:
        """From their next start on, the replicas connect to both servers themselves."""
        for replica in self.replicas:
            self.tell(replica, self.database.url())

    async def end(self) -> None:
        async def each() -> None:
            await self.balancer.end()
            for replica in self.replicas:
                await replica.end(signal.SIGKILL)
            for network in self.networks:
                await network.end()
            await self.database.end()
            await self.provider.end()

        # Also if this is called because somebody wants to stop: nothing may be left behind.
        ending = asyncio.create_task(each())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await ending
            raise


@contextlib.asynccontextmanager
async def a_site(with_standby: bool = False, with_faults: bool = False) -> AsyncIterator[Site]:
    ground = Ground()
    site = Site(ground)
    try:
        try:
            await site.start(with_standby, with_faults)
            yield site
        except Failed as failed:
            logs = [*(replica.log for replica in site.replicas), site.balancer.log, site.database.primary.log]
            told = "\n".join(f"-- {log.name}\n{last_lines(log, 8)}" for log in logs)
            raise Failed(f"{failed}\n{told}") from failed
        finally:
            await site.end()
    finally:
        ground.remove()
