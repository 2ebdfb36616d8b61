"""Shows that a site of three replicas comes back after faults, a rolling restart, revocations and a failover; each once.

`make test-cluster`. At length: `make cluster-faults`, `make rolling-restart`, `make revocations`, `make failover`.
"""

from __future__ import annotations

import sys
import time

from . import cluster_faults, failover, revocations, rolling_restart
from .testbed import run
from .load import Load
from .site import running_site

REVOCATIONS = 50


async def program() -> None:
    began = time.monotonic()
    async with running_site(with_faults=True, strict=False) as site:
        load = Load(site)
        try:
            await load.prepare()
            print(f"a site in {time.monotonic() - began:.1f} s", flush=True)
            await cluster_faults.all_of_them(site, load)
            # The restarts take the replicas from the network that can fail to the database itself, where the failover happens.
            site.connect_directly()
            await rolling_restart.rounds(site, load, 1)
            await revocations.measure(site, load, REVOCATIONS)
            await site.database.follow()
            await failover.rounds(site, load, 1)
        finally:
            await load.end()
    print(f"{time.monotonic() - began:.0f} s in all", flush=True)


if __name__ == "__main__":
    sys.exit(run(program))
