"""Shows that not one request fails while three replicas are replaced by another build with the same schema, under load.

`make rolling-upgrade`. BOT_COMPANION_OLD names the binary that the replicas run first.
"""

from __future__ import annotations

import os
import sys
import time

from .load import Answer, Load
from .replicas import BINARY
from .site import Site, running
from .testbed import Failed, Testbed, eventually, run

OLD = os.environ.get("BOT_COMPANION_OLD", "")
# How many requests each mix of builds answers, at least.
REQUESTS = 300


async def replace(site: Site, load: Load, number: int) -> list[Answer]:
    """Replaces one replica under load, and lets the mix of builds serve for a while. Returns what was answered."""
    first, replica = len(load.answers), site.replicas[number]
    load.start()
    await replica.end()
    replica.binary = BINARY
    await replica.start()
    await replica.ready()
    await site.balancer.sees(replica)
    replaced = len(load.answers)

    async def served() -> bool:
        load.broken()
        return len(load.answers) - replaced >= REQUESTS

    await eventually(served, "the mix of builds serves")
    await load.stop()
    return load.since(first)


async def upgrade(site: Site, load: Load) -> None:
    everywhere = [replica.url for replica in site.replicas]
    total = 0
    for number in range(len(site.replicas)):
        began = time.monotonic()
        answers = await replace(site, load, number)
        failed = [answer for answer in answers if answer.status != 200]
        new = number + 1
        print(
            f"{len(site.replicas) - new} old and {new} new: {len(answers)} requests in {time.monotonic() - began:.1f} s, {len(failed)} failed, "
            f"slowest {max(answer.took for answer in answers) * 1000:.0f} ms",
            flush=True,
        )
        if failed:
            raise Failed(f"{len(failed)} of {len(answers)} requests failed: {failed[:5]}")
        # What one build acknowledged, the other knows.
        made, ended = await load.check_sessions(everywhere)
        for url in everywhere:
            await load.bot.check(url)
        print(f"  at each replica {made} sessions work, {ended} are ended, and what the bot sent is there", flush=True)
        total += len(answers)
    print(f"upgraded three replicas: {total} requests, 0 failed", flush=True)


async def program() -> None:
    if not OLD or os.path.samefile(OLD, BINARY):
        raise Failed("BOT_COMPANION_OLD must name another binary")
    testbed = Testbed()
    testbed.strict = True
    try:
        site = Site(testbed)
        for replica in site.replicas:
            replica.binary = OLD
        async with running(site):
            load = Load(site)
            try:
                await load.prepare()
                await upgrade(site, load)
            finally:
                await load.end()
    finally:
        testbed.remove()


if __name__ == "__main__":
    sys.exit(run(program))
