"""Shows that nothing acknowledged is lost when the PostgreSQL primary is killed, that reads go on, and that writes are back within 5 s.

`make failover`. `--rounds N`: how many primaries are killed (20). What else can be set: `tests/system/cluster/run`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from .testbed import PATIENCE, Failed, run
from .load import PUBLIC, Load
from .postgres import Server
from .site import Site, running_site

# The contract's.
WRITES_BACK = 5.0
# How long the load runs before and after a kill.
BEFORE, AFTER = 1.0, 1.0


async def first_sign_in(load: Load, url: str, began: float) -> float:
    """When a sign-in is acknowledged again."""
    while await load.sign_in(url=url) is None:
        if time.monotonic() - began > PATIENCE:
            raise Failed(f"sign-ins do not come back: {load.answers[-1]}")
        await asyncio.sleep(0.05)
    return time.monotonic() - began


async def first_batch(load: Load, began: float) -> float:
    """When a batch of the bot that was sent after the promotion is acknowledged."""
    # The next acknowledgement may be one from before that was on its way.
    enough = load.bot.acknowledged + 2
    while load.bot.acknowledged < enough:
        load.broken()
        if time.monotonic() - began > PATIENCE:
            raise Failed("the feed does not come back")
        await asyncio.sleep(0.01)
    return time.monotonic() - began


async def promoted(server: Server, began: float) -> float:
    """Promotes; how long that took PostgreSQL itself."""
    await server.promote()
    return time.monotonic() - began


async def rounds(site: Site, load: Load, count: int) -> None:
    """Kills so many primaries. The load is prepared and not running."""
    pair, slowest, reads = site.database, 0.0, 0
    for number in range(1, count + 1):
        await load.warm()
        first = len(load.answers)
        load.start()
        await asyncio.sleep(BEFORE)
        await pair.primary.kill()
        pair.swap_roles()
        began = time.monotonic()
        promotion = asyncio.create_task(promoted(pair.primary, began))
        probes = [first_sign_in(load, replica.url, began) for replica in site.replicas]
        took = await asyncio.gather(*probes, first_batch(load, began))
        promoting = await promotion
        await asyncio.sleep(AFTER)
        load.broken()
        await load.stop()

        made, ended = await load.check_sessions([replica.url for replica in site.replicas])
        for replica in site.replicas:
            await load.bot.check(replica.url)
        public = load.since(first, PUBLIC)
        failed = [answer for answer in public if answer.status != 200]
        others = [answer for answer in load.since(first) if answer.kind not in PUBLIC and answer.status != 200]
        lists = sum(answer.kind == "/guilds" for answer in others)
        reads, slowest = reads + len(public), max(slowest, *took)
        print(
            f"round {number:2}: writes back {max(took):.2f} s after the order to promote (sign-ins {max(took[:-1]):.2f} s on every replica, feed "
            f"{took[-1]:.2f} s; the promotion itself {promoting:.2f} s); {len(public)} public reads, {len(failed)} failed; "
            f"{len(others)} others put off, of which {lists} lists; kept: {made} sessions, {ended} sign-outs, {load.bot.acknowledged} batches",
            flush=True,
        )
        if failed:
            raise Failed(f"{len(failed)} public reads failed, the first: {failed[0]}")
        site.testbed.promise("writes come back after the order to promote", max(took), WRITES_BACK)
        strange = [answer for answer in others if answer.status != 503]
        for answer in strange[:3]:
            print(f"  not an orderly 503: {answer}", flush=True)
        if number < count:
            await pair.follow()
            trim(load)
    print(
        f"{count} failovers with {load.made} acknowledged sessions, {load.ended_ever} sign-outs and {load.bot.acknowledged} batches: none were lost; {reads} public "
        f"reads without an error; writes back within {slowest:.2f} s",
        flush=True,
    )


def trim(load: Load) -> None:
    """Checking all sessions of all rounds each time would take longer and longer: the newest and some old ones stay."""
    for kept in (load.sessions, load.ended):
        spare = [token for token in kept if token not in load.lasting][:-60]
        for token in spare[20:]:
            del kept[token]


async def program(count: int) -> None:
    async with running_site(with_standby=True) as site:
        load = Load(site)
        try:
            await load.prepare()
            await rounds(site, load, count)
        finally:
            await load.end()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="Failovers under load.")
    arguments.add_argument("--rounds", type=int, default=20)
    count = arguments.parse_args().rounds
    sys.exit(run(lambda: program(count)))
