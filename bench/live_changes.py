"""Live streams of many users who share a guild that changes every second. `bench/live changes` starts it.

    live_changes.py provider                              an identity provider at which everybody has an account
    live_changes.py measure URL KEY PID STREAMS SECONDS   opens the streams, changes the guild, and measures the service
"""

import asyncio
import concurrent.futures
import http.server
import json
import sys
import time
import urllib.parse
import urllib.request

from live import cpu, open_stream, sign_in

GUILDS_EACH = 150
QUIET_GUILDS = 1000
FIRST_GUILD = 900_000_000_000_000_000
FIRST_PERSON = 300_000_000_000_000_000
SHARED = str(FIRST_GUILD)


def quiet_guild(index: int) -> str:
    return str(FIRST_GUILD + ((1 + index % QUIET_GUILDS) << 22))


class Provider(http.server.BaseHTTPRequestHandler):
    """A code is the number of a person, and so is their token."""

    protocol_version = "HTTP/1.1"

    def answer(self, value) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        person = form.get("code", form.get("refresh_token", ["0"]))[0]
        grant = {"access_token": person, "refresh_token": person, "token_type": "Bearer", "expires_in": 604800}
        self.answer({**grant, "scope": "identify guilds"})

    def do_GET(self) -> None:
        person = int(self.headers["Authorization"].removeprefix("Bearer "))
        if self.path.split("?")[0].endswith("/guilds"):
            ids = [SHARED] + [quiet_guild(person + 7 * number) for number in range(GUILDS_EACH)]
            guild = {"icon": None, "owner": False, "permissions": "0", "features": []}
            self.answer([{**guild, "id": id, "name": f"Guild {id}"} for id in ids])
        else:
            user = {"id": str(FIRST_PERSON + person), "username": f"person{person}"}
            self.answer({**user, "global_name": None, "avatar": None})

    def log_message(self, *_) -> None:
        pass


def provide() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


def guild(id: str, members: int) -> dict:
    return {"id": id, "name": f"Guild {id}", "icon": None, "owner": "1", "members": members, "grants": {}, "staff": {}}


class Bot:
    def __init__(self, url: str, key: str) -> None:
        self.url, self.key, self.next = url, key, 2

    def send(self, method: str, path: str, lines: list[dict]) -> None:
        body = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        headers = {"Authorization": f"Bearer {self.key}", "Feed-Instance": "bench", "Feed-Sequence": str(self.next)}
        request = urllib.request.Request(f"{self.url}{path}", method=method, data=body, headers=headers)
        with urllib.request.urlopen(request) as answer:
            self.next = json.load(answer)["data"]["next"]

    def report(self) -> None:
        quiet = [guild(quiet_guild(index), 10) for index in range(QUIET_GUILDS)]
        self.send("PUT", "/bot/shards/1/0/guilds", [guild(SHARED, 1), *quiet, {"end": len(quiet) + 1}])

    def change(self, members: int) -> None:
        self.send("POST", "/bot/events", [{"type": "guild", **guild(SHARED, members)}])


def call(url: str, method: str, path: str, token: str):
    request = urllib.request.Request(f"{url}{path}", method=method, headers={"Token": token})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["data"]


def enter(url: str, person: int) -> str:
    token = sign_in(url, str(person))
    listed = len(call(url, "GET", "/guilds", token))
    if listed != GUILDS_EACH + 1:
        raise SystemExit(f"person {person} sees {listed} guilds")
    return token


async def measure() -> None:
    url, key, pid, count, seconds = sys.argv[2], sys.argv[3], *map(int, sys.argv[4:7])
    parts = urllib.parse.urlsplit(url)
    bot, loop = Bot(url, key), asyncio.get_running_loop()
    await asyncio.to_thread(bot.report)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        tokens = await asyncio.gather(*(loop.run_in_executor(pool, enter, url, 1 + person) for person in range(count)))
    room = asyncio.Semaphore(50)
    opening = (open_stream((parts.hostname, parts.port), "/me/live", token, room) for token in tokens)
    streams = await asyncio.gather(*opening)
    told, ended = 0, asyncio.Event()

    async def read(reader) -> None:
        nonlocal told
        while chunk := await reader.read(4096):
            told += chunk.count(b'"guilds"')
            if b"event: ended" in chunk:
                ended.set()
                return

    reading = [asyncio.create_task(read(reader)) for reader, _ in streams]

    async def change(rounds: int) -> None:
        for number in range(rounds):
            await asyncio.gather(asyncio.to_thread(bot.change, 2 + number), asyncio.sleep(1))

    async def measured(work) -> tuple[float, int]:
        """Percent of a core, and events that name the guilds."""
        told_before, started, before = told, time.monotonic(), cpu(pid)
        await work
        return (cpu(pid) - before) / (time.monotonic() - started) * 100, told - told_before

    # What opening the streams has left to do is done by then.
    await asyncio.sleep(5)
    quiet, _ = await measured(asyncio.sleep(seconds))
    print(f"{count} streams without changes: {quiet:.1f} % of a core", flush=True)
    busy, events = await measured(change(seconds))
    print(f"one shared guild changes every second: {busy:.1f} % of a core, {events} of {count * seconds} events")
    changing = asyncio.create_task(change(5))
    await asyncio.sleep(2.5)
    began = time.monotonic()
    await asyncio.to_thread(call, url, "DELETE", "/auth", tokens[0])
    await asyncio.wait_for(ended.wait(), 60)
    print(f"meanwhile a stream ended {(time.monotonic() - began) * 1000:.0f} ms after its session")
    await changing
    for task in reading:
        task.cancel()
    for _, writer in streams:
        writer.close()


if sys.argv[1] == "provider":
    provide()
else:
    asyncio.run(measure())
