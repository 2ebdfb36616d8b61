"""Shows that the promises hold when a replica is killed, or the database is stopped, silent or cut off, or a listener is lost.

Three replicas behind HAProxy, under load. `make cluster-faults`; what can be set: `tests/system/cluster/run`.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial

from .faults import Kind, Mode
from .testbed import PATIENCE, Failed, eventually, run
from .load import PUBLIC, Answer, Load
from .replicas import Replica
from .postgres import Server
from .site import Site, running_site

# The contract's.
ANSWERED_WITHIN = 3.0
BACK_WITHIN = 2.0
SEEN_WITHIN = 1.0
# How long a fault lasts, on a machine of the usual speed.
OUTAGE = 4.0
# A minute, with a margin: the service counts from when it noticed, the test from before that.
SERVED_FROM_MEMORY = 55.0


async def a_killed_replica(site: Site, load: Load) -> None:
    first = len(load.answers)
    load.start()
    victim = site.replicas[1]
    await asyncio.sleep(0.5)
    await victim.end(signal.SIGKILL)
    # Until HAProxy knows, and a little of the time after.
    await eventually(lambda: gone(site, victim), "HAProxy has noticed that a replica is gone")
    await asyncio.sleep(0.5)
    await victim.start()
    await victim.ready()
    await site.balancer.sees(victim)
    await load.stop()
    reads = load.since(first, (*PUBLIC, "/guilds"))
    failed = [answer for answer in reads if answer.status != 200]
    others = [answer for answer in load.since(first) if answer.status != 200 and answer not in failed]
    print(
        f"a replica killed: {len(reads)} reads, {len(failed)} failed, slowest {slowest(reads):.0f} ms; of the writes {len(others)} were broken off",
        flush=True,
    )
    if failed:
        raise Failed(f"a read failed because a replica was killed: {failed[0]}")
    await load.warm()


async def gone(site: Site, replica: Replica) -> bool:
    return (await site.haproxy.states())[replica.number].startswith("DOWN")


def slowest(answers: list[Answer]) -> float:
    """In milliseconds."""
    return max(answer.took for answer in answers) * 1000


async def without_the_store(
    site: Site, load: Load, what: str, begin: Callable[[], Awaitable[None]], finish: Callable[[], Awaitable[None]]
) -> None:
    """What is promised while the store cannot be reached, and when it is back."""
    await load.warm()
    first = len(load.answers)
    load.start()
    await asyncio.sleep(0.5)
    await begin()
    began = time.monotonic()
    refused: list[float] = []
    while time.monotonic() - began < site.testbed.scaled(OUTAGE):
        await asyncio.gather(*(refused_in_time(load, replica, refused) for replica in site.replicas))
        load.broken()
        await asyncio.sleep(0.2)
    await finish()
    returned = time.monotonic()
    back = await asyncio.gather(*(first_sign_in(load, replica, returned) for replica in site.replicas))
    await asyncio.sleep(0.5)
    load.broken()
    await load.stop()
    reads = load.since(first, (*PUBLIC, "/guilds"))
    failed = [answer for answer in reads if answer.status != 200]
    # What is cached is served for a minute without the store, and no longer. When the store is back, everything is read again: on a
    # machine with too much to do, some of that takes longer than a request may wait.
    served = min(returned, began + SERVED_FROM_MEMORY)
    broken = [answer for answer in failed if site.testbed.strict or answer.sent + answer.took < served]
    print(
        f"{what}: {len(reads)} reads, {len(failed)} failed, slowest {slowest(reads):.0f} ms; {len(refused)} sign-ins refused, slowest "
        f"{max(refused):.2f} s; back after {max(back):.2f} s",
        flush=True,
    )
    if broken:
        kinds = {kind: sum(answer.kind == kind for answer in broken) for kind in (*PUBLIC, "/guilds")}
        raise Failed(f"reads failed while the store was away: {kinds}, the first: {broken[0]}")
    site.testbed.promise("sign-ins come back after the store", max(back), BACK_WITHIN)
    for replica in site.replicas:
        await load.bot.check(replica.url)


async def refused_in_time(load: Load, replica: Replica, refused: list[float]) -> None:
    """A sign-in is told to come back, and soon."""
    load.signed_in += 1
    began = time.monotonic()
    headers = {"Idp-Code": f"5000.{load.signed_in}"}
    async with load.client.post(f"{replica.url}/auth", headers=headers) as response:
        await response.read()
    took = time.monotonic() - began
    if response.status == 200:
        # It was under way when the store went, or the store is not gone.
        raise Failed("a sign-in succeeded without the store")
    if response.status != 503 or "Retry-After" not in response.headers:
        raise Failed(f"without the store, replica {replica.number} answered a sign-in with {response.status}, {dict(response.headers)}")
    load.site.testbed.promise(f"without the store, replica {replica.number} refuses a sign-in", took, ANSWERED_WITHIN)
    refused.append(took)


async def first_sign_in(load: Load, replica: Replica, returned: float) -> float:
    while await load.sign_in(url=replica.url) is None:
        if time.monotonic() - returned > PATIENCE:
            raise Failed(f"replica {replica.number} does not recover: {load.answers[-1]}")
        await asyncio.sleep(0.02)
    return time.monotonic() - returned


async def the_listener_cut_off(site: Site, load: Load, mode: Mode) -> None:
    """One replica cannot hear the others, but it can read: then it must read."""
    deaf, other = site.replicas[0], site.replicas[1]
    network = site.networks[0]
    await load.warm()
    for attempt in range(3):
        network.set(mode, Kind.LISTENER)
        cut = time.monotonic()
        # From a second on: that is the promise.
        await asyncio.sleep(SEEN_WITHIN)
        await load.bot.say(other.url)
        await seen(site, "a replica that hears nothing reads what another changed", lambda: load.bot.check(deaf.url))
        token = await load.sign_in(6_000 + attempt, other.url)
        if token is None:
            raise Failed(f"nobody can sign in: {load.answers[-1]}")
        for _ in range(2):
            await load.expect(200, "GET", f"{deaf.url}/guilds", headers={"Token": token})
        await load.expect(200, "DELETE", f"{other.url}/auth", headers={"Token": token})
        refused = partial(load.expect, 401, "GET", f"{deaf.url}/guilds", headers={"Token": token})
        await seen(site, "a replica that hears nothing refuses a session that another ended", refused)
        del load.sessions[token]
        lasted = time.monotonic() - cut
        network.set(Mode.PASS)
        if mode is Mode.CUT:
            await eventually(lambda: hears(deaf), "the listener is back")
        await seen_elsewhere(load, deaf, other)
    print(f"a listener {mode.value}: what another replica changed was in the next read, {lasted:.1f} s long; and it came back", flush=True)


async def hears(replica: Replica) -> bool:
    text = replica.log.read_text(errors="replace")
    lost, back = text.rfind("are not arriving"), text.rfind("are arriving again")
    # It may not even have noticed yet.
    return 0 <= lost < back


async def commits_that_hang(site: Site, load: Load) -> None:
    """A synchronous standby is missing: everything can be read, and nothing is acknowledged, though all of it happens in the end."""
    here, primary = site.replicas[0], site.database.primary
    await load.warm()
    token = await load.sign_in(6_500, here.url)
    if token is None:
        raise Failed(f"nobody can sign in: {load.answers[-1]}")
    for replica in site.replicas:
        await load.expect(200, "GET", f"{replica.url}/guilds", headers={"Token": token})
    # From now on it is unknown whether it still works.
    del load.sessions[token]

    async def confirmed_by(standby: str) -> None:
        await primary.ask(f"ALTER SYSTEM SET synchronous_standby_names = '{standby}'")
        await primary.ask("SELECT pg_reload_conf()")

    async def ended() -> bool:
        return all([(await load.call("ended", "GET", f"{replica.url}/guilds", headers={"Token": token}))[0] == 401 for replica in site.replicas])

    first = len(load.answers)
    load.start()
    await confirmed_by("nobody")
    await eventually(lambda: hangs(primary), "a commit hangs")
    # Told to come back, on this replica; it happens anyway, when the standby is back.
    await load.expect(503, "DELETE", f"{here.url}/auth", headers={"Token": token})
    began, refused = time.monotonic(), list[float]()
    while time.monotonic() - began < site.testbed.scaled(2 * OUTAGE):
        await asyncio.gather(*(refused_in_time(load, replica, refused) for replica in site.replicas))
    connections = int(await primary.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'bot-companion%'"))
    await confirmed_by("")
    returned = time.monotonic()
    back = await asyncio.gather(*(first_sign_in(load, replica, returned) for replica in site.replicas))
    await eventually(ended, "a session is refused whose end was not acknowledged, but happened")
    seen = time.monotonic() - returned
    load.broken()
    await load.stop()
    reads = load.since(first, (*PUBLIC, "/guilds"))
    failed = [answer for answer in reads if answer.status != 200]
    print(
        f"a standby missing: {len(reads)} reads, {len(failed)} failed, slowest {slowest(reads):.0f} ms; {len(refused)} sign-ins refused, "
        f"slowest {max(refused):.2f} s; {connections} connections; back after {max(back):.2f} s, the end of a session seen after {seen:.2f} s",
        flush=True,
    )
    if failed:
        raise Failed(f"reads failed while a standby was missing: {failed[0]}")
    site.testbed.promise("everything comes back after the standby", max(*back, seen), BACK_WITHIN)
    # For each replica a pool, a listener, and the probes of the circuit breaker.
    if connections > 3 * (8 + 1 + 5):
        raise Failed(f"there are {connections} connections to the database")
    for replica in site.replicas:
        await load.bot.check(replica.url)


async def hangs(primary: Server) -> bool:
    return await primary.ask("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "t"


async def seen_elsewhere(load: Load, here: Replica, other: Replica) -> None:
    """What one replica acknowledged, the other shows within a second."""
    await load.bot.say(other.url)
    said = time.monotonic()

    async def shown() -> bool:
        try:
            await load.bot.check(here.url)
        except Failed:
            return False
        return True

    await eventually(shown, "a change is shown elsewhere")
    load.site.testbed.promise("a change is shown elsewhere", time.monotonic() - said, SEEN_WITHIN)


async def seen(site: Site, what: str, look: Callable[[], Awaitable[object]]) -> None:
    """It is true at the first look; on a slow machine, which may look too early, soon after."""
    if site.testbed.strict:
        await look()
        return
    began = time.monotonic()

    async def so() -> bool:
        try:
            await look()
        except Failed:
            return False
        return True

    await eventually(so, what)
    # The usual case takes no longer than the look itself.
    site.testbed.promise(what, time.monotonic() - began, SEEN_WITHIN)


async def all_of_them(site: Site, load: Load) -> None:
    """The load is prepared and not running, and the replicas go through networks that can fail."""
    await a_killed_replica(site, load)
    primary = site.database.primary

    async def all_set(mode: Mode) -> None:
        for network in site.networks:
            network.set(mode)

    await without_the_store(site, load, "PostgreSQL stopped", primary.stop, primary.start)
    await without_the_store(site, load, "its network silent", lambda: all_set(Mode.SILENT), lambda: all_set(Mode.PASS))
    await without_the_store(site, load, "its network cut", lambda: all_set(Mode.CUT), lambda: all_set(Mode.PASS))
    await the_listener_cut_off(site, load, Mode.CUT)
    await the_listener_cut_off(site, load, Mode.SILENT)
    await commits_that_hang(site, load)


async def program() -> None:
    async with running_site(with_faults=True) as site:
        load = Load(site)
        try:
            await load.prepare()
            await all_of_them(site, load)
        finally:
            await load.end()


if __name__ == "__main__":
    sys.exit(run(program))
