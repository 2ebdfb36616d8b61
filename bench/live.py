"""Opens live streams, holds them, and measures the service meanwhile. `bench/live` starts both.

    live.py URL PID STREAMS ROUNDS SECONDS
"""

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import time
import urllib.parse
import urllib.request

PEOPLE = ("owner", "manager", "administrator", "moderator", "member", "newcomer")
TICKS = os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> float:
    """Resident memory in MB."""
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1]) * 1024 / 1e6


def cpu(pid: int) -> float:
    """CPU seconds so far. A process's name may hold anything, so count from the last bracket."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def sign_in(url: str, person: str) -> str:
    request = urllib.request.Request(f"{url}/auth", method="POST", headers={"Idp-Code": person})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["data"]["token"]


async def open_stream(address: tuple[str, int], path: str, token: str, room: asyncio.Semaphore):
    """A stream whose first event has arrived."""
    async with room:
        reader, writer = await asyncio.open_connection(*address, limit=4096)
        headers = f"Host: 127.0.0.1\r\nAccept: text/event-stream\r\nToken: {token}\r\n"
        writer.write(f"GET {path} HTTP/1.1\r\n{headers}\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise SystemExit(f"{path}: {head.decode()}")
        await reader.readuntil(b"event: changed")
        return reader, writer


async def read_on(streams) -> None:
    """Takes what comes, as a browser does; a stream that nobody reads would be closed."""

    async def drain(reader):
        while await reader.read(4096):
            pass
        raise SystemExit("the service has ended a stream")

    await asyncio.gather(*(drain(reader) for reader, _ in streams))


async def measure(url: str, pid: int, path: str, token: str, seconds: int) -> float:
    """Microseconds of CPU per request."""
    before = cpu(pid)
    command = ["wrk", "-t1", "-c64", f"-d{seconds}s", "-H", f"Token: {token}", f"{url}{path}"]
    wrk = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    output = (await wrk.communicate())[0].decode()
    if "Non-2xx" in output or "Socket errors" in output:
        raise SystemExit(output)
    return (cpu(pid) - before) * 1e6 / int(re.search(r"(\d+) requests in", output)[1])


async def main() -> None:
    url, pid, count, rounds, seconds = sys.argv[1], *map(int, sys.argv[2:6])
    parts = urllib.parse.urlsplit(url)
    address = (parts.hostname, parts.port)
    tokens = [sign_in(url, person) for person in PEOPLE]
    paths = ("/team", "/guilds", "/")
    for path in paths:
        await measure(url, pid, path, tokens[0], 1)

    alone = memory(pid)
    print(f"without streams: {alone:.1f} MB")
    costs = {(path, beside): [] for path in paths for beside in (False, True)}
    for number in range(1, rounds + 1):
        for path in paths:
            costs[path, False].append(await measure(url, pid, path, tokens[0], seconds))
        room = asyncio.Semaphore(200)
        kinds = [("/me/live", tokens[index % len(tokens)]) if index % 2 else ("/live", "") for index in range(count)]
        streams = await asyncio.gather(*(open_stream(address, path, token, room) for path, token in kinds))
        reading = asyncio.create_task(read_on(streams))
        if number == 1:
            # Past the first comments, so that every buffer that a stream will ever have is there.
            started, before = time.monotonic(), cpu(pid)
            await asyncio.sleep(35)
            idle = (cpu(pid) - before) / (time.monotonic() - started)
            with_streams = memory(pid)
            print(f"with {count} idle streams: {with_streams:.1f} MB, {(with_streams - alone) * 1e3 / count:.1f} KB each")
            print(f"CPU while idle: {idle * 100:.2f} % of a core (comments every 15 s are {count / 15:.0f} writes per second)")
        for path in paths:
            costs[path, True].append(await measure(url, pid, path, tokens[0], seconds))
        reading.cancel()
        for _, writer in streams:
            writer.close()
    print("| path | µs CPU per request, without | with the streams | with / without |\n|---|---|---|---|")
    for path in paths:
        without, beside = (statistics.median(costs[path, kind]) for kind in (False, True))
        print(f"| `{path}` | {without:.2f} | {beside:.2f} | {beside / without:.2f} |")


if __name__ == "__main__":
    asyncio.run(main())
