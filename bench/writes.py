"""Measures how many sign-ins, events and guilds the service durably writes per second, on SQLite and PostgreSQL. `bench/writes` starts it."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from feed import Bot, ReadsBeside, bare_postgres, bare_sqlite, guild_event
from markdown import print_table
from service import Service, clean_up_when_stopped, code, instant_provider, say, user_id, wait_for, wrk

POSTGRES = os.environ["BOT_COMPANION_TEST_POSTGRES"]
# The guilds that events change.
GUILDS = 10_000


def syncs_per_second(folder: Path, seconds: int) -> float:
    """How many 4 KiB appends this file system makes durable per second, one after the other."""
    file = os.open(folder / "syncs", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        os.write(file, bytes(4096))
        os.fdatasync(file)
        count += 1
    os.close(file)
    return count / (time.perf_counter() - began)


def sql(database: str, command: str) -> str:
    return subprocess.run(["psql", "-X", "-q", "-At", "-d", database, "-c", command], check=True, capture_output=True, text=True).stdout.strip()


def make_durable() -> None:
    """Makes PostgreSQL's acknowledged writes survive a power cut from now on."""
    for setting in ("fsync", "full_page_writes", "synchronous_commit"):
        sql(POSTGRES, f"ALTER SYSTEM SET {setting} = on")
    sql(POSTGRES, "SELECT pg_reload_conf()")
    wait_for(lambda: sql(POSTGRES, "SHOW fsync") == "on" or None, "PostgreSQL to turn fsync on")


def new_database(name: str) -> str:
    sql(POSTGRES, f"CREATE DATABASE {name}")
    return f"{POSTGRES.rpartition('/')[0]}/{name}"


def sign_ins(service: Service, folder: Path, connections: int, seconds: int) -> tuple[float, float]:
    """Sign-ins per second, each by a different person, and microseconds of the service's CPU for each."""
    script = folder / "sign-in.lua"
    first = connections * 1_000_000
    script.write_text(
        f"""local person = {first}
request = function()
    person = person + 1
    return wrk.format("POST", nil, {{ ["Idp-Code"] = string.format("%d-10", person * {user_id(1)}) }})
end
"""
    )
    return wrk(service, "/auth", seconds, "-s", str(script), connections=connections)


def events(bot: Bot, size: int, seconds: int) -> tuple[float, float]:
    """Events per second in batches of this size, one after the other, and microseconds of the service's CPU for each."""
    # The members alternate, so that each event is a change.
    rounds = [[[guild_event(first + index, members) for index in range(size)] for first in range(0, min(GUILDS, 100 * size), size)] for members in (1, 2)]
    before, began, count = bot.service.cpu(), time.perf_counter(), 0
    for batch in itertools.cycle(rounds[0] + rounds[1]):
        bot.events(batch)
        count += size
        if time.perf_counter() - began >= seconds:
            break
    took = time.perf_counter() - began
    return count / took, (bot.service.cpu() - before) * 1e6 / count


def print_sign_ins(services: dict[str, Service], folder: Path, concurrency: tuple[int, ...], seconds: int) -> None:
    rows = list[list[str]]()
    for label, service in services.items():
        for connections in concurrency:
            say(f"{label}: sign-ins, {connections} at a time")
            # Right before each measurement, because a shared disk's speed changes from minute to minute.
            syncs = syncs_per_second(folder, seconds)
            rate, cost = sign_ins(service, folder, connections, seconds)
            rows.append([label, str(connections), f"{rate:,.0f}", f"{syncs:,.0f}", f"{rate / syncs:.2f}", f"{cost:.0f}"])
    print("### Sign-ins\n\nThe provider answers immediately. Each sign-in is by a different person, who is in ten guilds.\n")
    print_table(("store", "at a time", "sign-ins/s", "the disk's syncs/s", "sign-ins per sync", "µs CPU each"), rows)
    print("A sync is a 4 KiB append and an `fdatasync`, one after the other on the same file system, measured just before.\n")


def print_events(services: dict[str, Service], folder: Path, batches: tuple[int, ...], seconds: int) -> None:
    rows = list[list[str]]()
    for label, service in services.items():
        bot = Bot(service)
        bot.snapshot(GUILDS, folder)
        for size in batches:
            say(f"{label}: events in batches of {size:,}")
            syncs = syncs_per_second(folder, seconds)
            rate, cost = events(bot, size, seconds)
            rows.append([label, f"{size:,}", f"{rate:,.0f}", f"{rate / size:,.1f}", f"{syncs:,.0f}", f"{cost:.1f}"])
    print("### Events\n\nOne bot sends changes to guilds, one request after the other. Each request is one durable step.\n")
    print_table(("store", "events per request", "events/s", "requests/s", "the disk's syncs/s", "µs CPU per event"), rows)


def print_snapshots(services: dict[str, Service], stores: dict[str, str], folder: Path, count: int) -> None:
    rows = list[list[str]]()
    for label, service in services.items():
        say(f"{label}: a snapshot of {count:,} guilds")
        with ReadsBeside(service, service.sign_in(code(1, 10))[0]) as reads:
            took = Bot(service).snapshot(count, folder)
        say(f"{label}: the same rows without the service")
        store = stores[label]
        bare = bare_postgres(store, folder) if store else bare_sqlite(service.database, folder)
        row = [label, f"{count / took:,.0f} guilds/s", f"{'`COPY`' if store else '`.import`'} {count / bare:,.0f} guilds/s", f"{took / bare:.2f}"]
        median, slowest = reads.waits[len(reads.waits) // 2] * 1000, reads.waits[-1] * 1000
        rows.append([*row, f"{service.memory('VmHWM'):.0f} MiB", f"median {median:.2f} ms, slowest {slowest:.0f} ms"])
    print(f"### Snapshots\n\n{count:,} guilds with two staff each, sent to an empty store while `/guilds` is being read, compared with writing the same rows to empty tables.\n")
    print_table(("store", "snapshot", "bare store", "times the bare store's time", "memory, at most", "`/guilds` meanwhile"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    quick = parser.parse_args().quick
    seconds, guilds = (1, 20_000) if quick else (10, 1_000_000)
    concurrency, batches = ((1, 64), (1, 1000)) if quick else ((1, 8, 64), (1, 100, 1000))
    clean_up_when_stopped()
    make_durable()
    with tempfile.TemporaryDirectory(prefix="bench-") as name, instant_provider() as provider:
        folder = Path(name)

        @contextlib.contextmanager
        def both(stage: str) -> Iterator[tuple[dict[str, Service], dict[str, str]]]:
            """The service on an empty store, once for each kind."""
            stores = {"SQLite": "", "PostgreSQL": new_database(f"bench_{stage}")}
            with contextlib.ExitStack() as running:
                services = {label: Service(folder / f"{stage}-{label}", provider, store) for label, store in stores.items()}
                for service in services.values():
                    running.enter_context(service)
                yield services, stores

        with both("small") as (services, _):
            print_sign_ins(services, folder, concurrency, seconds)
            print_events(services, folder, batches, seconds)
        with both("snapshot") as (services, stores):
            print_snapshots(services, stores, folder, guilds)


if __name__ == "__main__":
    main()
