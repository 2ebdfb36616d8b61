"""Shows that not one request fails while three replicas behind HAProxy are restarted one after another, under load.

`make rolling-restart`. `--rounds N`: how often all three are restarted (10). What else can be set: `tests/system/cluster/run`.
"""

from __future__ import annotations

import argparse
import sys
import time

from .testbed import Failed, run
from .load import Load
from .site import Site, running_site


async def rounds(site: Site, load: Load, count: int) -> None:
    """Restarts all replicas this many times. The load is prepared and not running."""
    begin = first = len(load.answers)
    load.start()
    for number in range(1, count + 1):
        began = time.monotonic()
        for replica in site.replicas:
            await replica.end()
            await replica.start()
            await replica.ready()
            await site.balancer.sees(replica)
            load.broken()
        if number == count:
            # Lets requests in progress finish.
            await load.stop()
        answers, first = load.since(first), len(load.answers)
        failed = [answer for answer in answers if answer.status != 200]
        print(
            f"round {number:2}: {len(answers):5} requests in {time.monotonic() - began:4.1f} s, {len(failed)} failed, "
            f"slowest {max(answer.took for answer in answers) * 1000:.0f} ms",
            flush=True,
        )
        for answer in failed[:5]:
            print(f"  {answer}", flush=True)
    answers = load.since(begin)
    failed = [answer for answer in answers if answer.status != 200]
    # The database runs throughout. On a machine with too much to do it may answer later than a request waits: no restart's fault.
    busy = [] if site.testbed.strict else [answer for answer in failed if answer.why == "store_unavailable"]
    if busy:
        print(f"  slow: {len(busy)} requests found the store busy", flush=True)
    if len(failed) > len(busy):
        raise Failed(f"{len(failed) - len(busy)} of {len(answers)} requests failed")
    await load.check_sessions([site.url])
    await load.bot.check(site.url)
    print(f"{count} rolling restarts of three replicas: {len(answers)} requests, {len(failed)} failed", flush=True)


async def program(count: int) -> None:
    async with running_site() as site:
        load = Load(site)
        try:
            await load.prepare()
            await rounds(site, load, count)
        finally:
            await load.end()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="Rolling restarts under load.")
    arguments.add_argument("--rounds", type=int, default=10)
    count = arguments.parse_args().rounds
    sys.exit(run(lambda: program(count)))
