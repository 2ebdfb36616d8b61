"""Shows that a session that ended at one replica is refused by the others in less than a second.

`make revocations`. `--count N`: how many sessions are ended (1000). What else can be set: `tests/system/cluster/run`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from .testbed import PATIENCE, Failed, run
from .load import Load
from .site import Site, running_site

# The contract's.
REFUSED_WITHIN = 1.0
AT_ONCE = 4


async def until_refused(load: Load, url: str, token: str) -> float:
    """When the session was refused first, by asking without a pause. It must stay refused."""
    refused, first, began = 0, 0.0, time.monotonic()
    while refused < 3:
        async with load.client.get(f"{url}/guilds", headers={"Token": token}) as response:
            await response.read()
        now = time.monotonic()
        if response.status == 401:
            first = first or now
            refused += 1
        elif response.status == 503 and not load.site.testbed.strict and now - began < PATIENCE:
            # On a machine with too much to do, the database may answer later than a request waits. That is no word about the session.
            continue
        elif response.status != 200 or refused:
            raise Failed(f"{response.status} for a session that was ended, after {refused} refusals")
        elif now - began > PATIENCE:
            raise Failed("a session that was ended is never refused")
    return first


async def until_ended(load: Load, url: str, token: str, listening: asyncio.Event) -> float:
    """When the live stream said that its session has ended; it must be over then."""
    said = ""
    async with load.client.get(f"{url}/me/live", headers={"Token": token}) as response:
        if response.status != 200:
            raise Failed(f"{response.status} for a live stream")
        async for line in response.content:
            said = line.decode().strip() or said
            listening.set()
            if said == "event: ended":
                ended = time.monotonic()
        if said != "data: {}":
            raise Failed(f"a live stream broke off after: {said}")
    return ended


async def revoke(site: Site, load: Load, number: int) -> tuple[float, list[float], list[float]]:
    """How long the replica that ended the session, the others, and live streams still took it, from the acknowledgement."""
    ending, *others = site.replicas[number % 3 :] + site.replicas[: number % 3]
    token = await load.sign_in(10_000 + number, ending.url)
    if token is None:
        raise Failed(f"nobody can sign in: {load.answers[-1]}")
    del load.sessions[token]
    for replica in (ending, *others) * 2:
        await load.expect(200, "GET", f"{replica.url}/guilds", headers={"Token": token})
    # One at each replica, and one that the balancer passes on.
    places = [(replica.url, asyncio.Event()) for replica in site.replicas] + [(site.url, asyncio.Event())]
    streams = [asyncio.create_task(until_ended(load, url, token, listening)) for url, listening in places]
    await asyncio.wait_for(asyncio.gather(*(listening.wait() for _, listening in places)), PATIENCE)
    polls = [asyncio.create_task(until_refused(load, replica.url, token)) for replica in (ending, *others)]
    try:
        await load.expect(200, "DELETE", f"{ending.url}/auth", headers={"Token": token})
        acknowledged = time.monotonic()
        own, *rest = [max(0.0, refused - acknowledged) for refused in await asyncio.gather(*polls)]
        ended = await asyncio.wait_for(asyncio.gather(*streams), PATIENCE)
    finally:
        for task in (*polls, *streams):
            task.cancel()
    return own, rest, [max(0.0, end - acknowledged) for end in ended]


def distribution(times: list[float]) -> str:
    ordered = sorted(times)
    shown = {f"p{part}": ordered[min(len(ordered) - 1, len(ordered) * part // 100)] for part in (50, 90, 99)}
    return ", ".join(f"{name} {value * 1000:.1f} ms" for name, value in {**shown, "max": ordered[-1]}.items())


async def measure(site: Site, load: Load, count: int) -> None:
    own: list[float] = []
    others: list[float] = []
    streams: list[float] = []
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with limit:
            here, elsewhere, ended = await revoke(site, load, number)
            own.append(here)
            others.extend(elsewhere)
            streams.extend(ended)

    tasks = [asyncio.create_task(one(number)) for number in range(count)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    print(f"{count} revocations, from the acknowledgement to the first refusal")
    print(f"  on the replica that was asked: {distribution(own)}")
    print(f"  on the two others: {distribution(others)}")
    print(f"  live streams, until they said so: {distribution(streams)}", flush=True)
    site.testbed.promise("a session that was ended is refused everywhere", max(*own, *others), REFUSED_WITHIN)
    site.testbed.promise("a live stream ends with its session", max(streams), REFUSED_WITHIN)


async def program(count: int) -> None:
    async with running_site() as site:
        load = Load(site)
        try:
            await measure(site, load, count)
        finally:
            await load.end()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="How fast an ended session is refused everywhere.")
    arguments.add_argument("--count", type=int, default=1000)
    count = arguments.parse_args().count
    sys.exit(run(lambda: program(count)))
