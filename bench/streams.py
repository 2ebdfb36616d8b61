"""Measures what live streams cost: 600 streams of users who share a busy guild, and 10,000 idle ones. `bench/streams` starts it."""

from __future__ import annotations

import argparse
import asyncio
import http.client
import tempfile
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path

from feed import Bot, guild_event
from markdown import print_table, verdict
from service import PATIENCE, Service, call, clean_up_when_stopped, code, instant_provider, say, wrk

# Guilds that the bot is in. The first one is the busy one, which every user is in.
GUILDS = 1000
GOAL_BUSY = 10.0


class Streams:
    """Open streams, read the way a browser reads them."""

    def __init__(self) -> None:
        self.told = 0
        self.writers: list[asyncio.StreamWriter] = []
        self.reading: list[asyncio.Task[None]] = []
        self.ended: asyncio.Queue[float] = asyncio.Queue()

    async def open(self, service: Service, requests: list[tuple[str, str]]) -> float:
        """Opens one per path and token and waits for each one's first event; returns how many seconds that took."""
        room = asyncio.Semaphore(200)
        began = time.perf_counter()
        await asyncio.gather(*(self.open_one(service, path, token, room) for path, token in requests))
        return time.perf_counter() - began

    async def open_one(self, service: Service, path: str, token: str, room: asyncio.Semaphore) -> None:
        async with room, asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(service.host, service.port, limit=4096)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {service.host}\r\nAccept: text/event-stream\r\nToken: {token}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200 "):
                raise RuntimeError(f"{path}: {head.decode()}{(await reader.read(4096)).decode()}")
            await reader.readuntil(b"\n\n")
        self.writers.append(writer)
        self.reading.append(asyncio.create_task(self.read(reader)))

    async def read(self, reader: asyncio.StreamReader) -> None:
        while chunk := await reader.read(4096):
            self.told += chunk.count(b'"guilds"')
            if b"event: ended" in chunk:
                self.ended.put_nowait(time.perf_counter())
                return
        say("the service has closed a stream")

    def close(self) -> None:
        for task in self.reading:
            task.cancel()
        for writer in self.writers:
            writer.close()


@dataclass
class Cost:
    """What this many users' streams cost. CPU is in percent of a core."""

    count: int
    opened: float
    memory_each: float
    memory: float
    idle: float
    busy: float
    events: int
    expected: int
    ended: float


async def used(service: Service, work: Awaitable[None]) -> float:
    """Percent of a core that the service uses until the work is done."""
    before, began = service.cpu(), time.perf_counter()
    await work
    return (service.cpu() - before) / (time.perf_counter() - began) * 100


async def change(bot: Bot, rounds: int) -> None:
    """Changes the shared guild once per second, from a thread, so that reading continues."""
    for number in range(rounds):
        event = [guild_event(0, 10_000 + number % 2 * 1_000 + number)]
        await asyncio.gather(asyncio.to_thread(bot.events, event), asyncio.sleep(1))


async def sign_in_all(service: Service, count: int, guilds: int) -> list[str]:
    """The tokens of `count` users whose guilds have been read once."""
    tokens = await asyncio.to_thread(service.sign_in, *(code(1 + person, guilds) for person in range(count)))
    connection = http.client.HTTPConnection(service.host, service.port, timeout=PATIENCE)
    for token in tokens:
        if len(call(connection, "GET", "/guilds", {"Token": token})) != guilds:
            raise RuntimeError(f"not all of the {guilds} guilds are listed")
    return tokens


async def end_one(service: Service, bot: Bot, streams: Streams, token: str) -> float:
    """The seconds from ending a session to the end of its stream, while the shared guild changes."""
    changing = asyncio.create_task(change(bot, 3))
    await asyncio.sleep(1.5)
    began = time.perf_counter()
    connection = http.client.HTTPConnection(service.host, service.port, timeout=PATIENCE)
    await asyncio.to_thread(call, connection, "DELETE", "/auth", {"Token": token})
    ended = await asyncio.wait_for(streams.ended.get(), PATIENCE)
    await changing
    return ended - began


async def measure(service: Service, bot: Bot, count: int, guilds: int, seconds: int, ends_one: bool = False) -> Cost:
    """Streams of `count` users, each in `guilds` guilds, first idle and then with a change per second in the one they share."""
    streams, tokens = Streams(), await sign_in_all(service, count, guilds)
    alone = service.memory()
    took = await streams.open(service, [("/me/live", token) for token in tokens])
    # By then, any work left over from opening them is done.
    await asyncio.sleep(min(seconds, 5))
    idle = await used(service, asyncio.sleep(seconds))
    memory = service.memory()
    told = streams.told
    busy = await used(service, change(bot, seconds))
    # The last change may still be on its way.
    await asyncio.sleep(1.5)
    events = streams.told - told
    ended = await end_one(service, bot, streams, tokens[0]) if ends_one else 0.0
    streams.close()
    return Cost(count, count / took, (memory - alone) * 1024 / count, memory, idle, busy, events, count * seconds, ended)


async def measure_idle(service: Service, count: int, seconds: int, round_seconds: int) -> list[list[str]]:
    """Half of the streams are public, half belong to six users. Reads are measured before, during and after."""
    tokens = await asyncio.to_thread(service.sign_in, *(code(1 + person, 10) for person in range(6)))

    async def read_cost() -> float:
        return (await asyncio.to_thread(wrk, service, "/guilds", round_seconds, "-H", f"Token: {tokens[0]}"))[1]

    await read_cost()
    before, alone = await read_cost(), service.memory()
    streams = Streams()
    requests = [("/me/live", tokens[index % len(tokens)]) if index % 2 else ("/live", "") for index in range(count)]
    took = await streams.open(service, requests)
    idle = await used(service, asyncio.sleep(seconds))
    memory = service.memory()
    beside = await read_cost()
    streams.close()
    after = await read_cost()
    return [
        [f"{count:,} idle streams: opened", f"{count / took:,.0f}/s"],
        ["the service's memory", f"{memory:.0f} MiB, {alone:.0f} MiB without them: {(memory - alone) * 1024 / count:.1f} KiB each"],
        ["CPU while nothing happens", f"{idle:.1f}% of a core, with a comment per stream every 15 s"],
        ["`/guilds` meanwhile", f"{beside:.1f} µs CPU per request, {beside * 2 / (before + after):.2f} times as much as without them"],
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    quick = parser.parse_args().quick
    clean_up_when_stopped()
    with tempfile.TemporaryDirectory(prefix="bench-") as name, instant_provider() as provider:
        with Service(Path(name, "busy"), provider) as service:
            bot = Bot(service)
            bot.snapshot(GUILDS, Path(name))
            say("streams with a busy shared guild")
            busy = asyncio.run(measure(service, bot, 100 if quick else 600, 151, 5 if quick else 30, ends_one=True))
        with Service(Path(name, "idle"), provider) as service:
            Bot(service).snapshot(GUILDS, Path(name))
            say("idle streams")
            # A multiple of 15 s, so that each stream gets the same number of comments.
            idle = asyncio.run(measure_idle(service, 1000 if quick else 10_000, 5 if quick else 30, 1 if quick else 5))
    goal = f"goal under {GOAL_BUSY:.0f}%: {verdict(busy.busy < GOAL_BUSY)}"
    print("Each user of `/me/live` is in 151 guilds. All users share one guild, which changes every second.\n")
    print_table(
        ("what", "figure"),
        [
            [f"{busy.count:,} streams with a busy shared guild", f"{busy.busy:.1f}% of a core ({goal})"],
            ["events that arrived; changes within one second are merged into one", f"{busy.events:,} of {busy.expected:,}"],
            ["the same streams without changes", f"{busy.idle:.1f}% of a core"],
            ["time from the end of a session to the end of its stream, meanwhile", f"{busy.ended * 1000:.0f} ms"],
            *idle,
        ],
    )


if __name__ == "__main__":
    main()
