"""See `scripts/rolling-restart`."""

from __future__ import annotations

import argparse
import sys
import time

from .ground import Failed, run
from .load import Load
from .site import Site, a_site


async def rounds(site: Site, load: Load, count: int) -> None:
    """Restarts all replicas so many times. The load runs already."""
    total, failures = 0, 0
    for number in range(1, count + 1):
        first, began = len(load.answers), time.monotonic()
        for replica in site.replicas:
            await replica.end()
            await replica.start()
            await replica.ready()
            await site.balancer.sees(replica)
            load.broken()
        # Whatever the last restart may have broken is answered by now.
        answers = load.since(first)
        failed = [answer for answer in answers if answer.status != 200]
        total, failures = total + len(answers), failures + len(failed)
        print(
            f"round {number:2}: {len(answers):5} requests in {time.monotonic() - began:4.1f} s, {len(failed)} failed, "
            f"slowest {max(answer.took for answer in answers) * 1000:.0f} ms",
            flush=True,
        )
        for answer in failed[:5]:
            print(f"  {answer}", flush=True)
    if failures:
        raise Failed(f"{failures} of {total} requests failed")
    print(f"{count} rolling restarts of three replicas: {total} requests, 0 failed", flush=True)


async def program(count: int) -> None:
    async with a_site() as site:
        load = Load(site)
        try:
            await load.prepare()
            load.start()
            await rounds(site, load, count)
            await load.stop()
            await load.check_sessions([site.url])
            await load.bot.check(site.url)
            late = [answer for answer in load.since(0) if answer.status != 200]
            if late:
                raise Failed(f"a request failed at the end: {late[0]}")
        finally:
            await load.end()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="Rolling restarts under load.")
    arguments.add_argument("--rounds", type=int, default=10)
    count = arguments.parse_args().rounds
    sys.exit(run(lambda: program(count)))
