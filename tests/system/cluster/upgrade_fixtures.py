"""Writes the stores that an older release leaves, for the tests of upgrading: `BOT_COMPANION=OLD tests/system/cluster/run upgrade_fixtures FOLDER`.

The release runs on SQLite, then on PostgreSQL, with the same people and the same bot. Of each store the folder gets the data, and what the
service answered just before it stopped. Run it once per release, and never edit what it wrote.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import json
import re
import signal
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from .postgres import PORT, USER, Server
from .provider import Provider
from .replicas import BINARY, Replica, service_settings
from .testbed import SLOWEST, Failed, Testbed, eventually, last_lines, output, run

# The people of the sandbox, as the suite knows them: a code is their number, a dot, and anything.
PEOPLE = {
    1: ("owner", 280114907635220483, "marlow.quay"),
    2: ("member", 690412558730167039, "pip.okafor"),
    3: ("manager", 311890224776519691, "inez_brandt"),
}
HARBOUR, LANTERN = 871203344918732833, 1031447905116248139
BLOCKED = "1209977341852663811"
# The key of the suite's tests on PostgreSQL. On SQLite the service makes its own.
KEY = "suite:c3VpdGUta2V5LW1hdGVyaWFsLW9mLTMyLWJ5dGVzISE="
INSTANCE = "bot-before-upgrade"
PUBLIC = ("/", "/team", "/feedback", "/stats")
PRIVATE = ("/me", "/guilds", "/guilds/invitable", "/sessions")


class Sandbox(Provider):
    """The provider with the people of the service's sandbox."""

    async def user(self, request: web.Request) -> web.Response:
        _, identity, username = PEOPLE[self.who(request)]
        return web.json_response({"id": str(identity), "username": username, "global_name": None, "avatar": None})

    async def guilds(self, request: web.Request) -> web.Response:
        owns = {1: HARBOUR}.get(self.who(request))
        places = [{"id": str(guild), "name": "x", "owner": guild == owns, "permissions": "1088"} for guild in (HARBOUR, LANTERN)]
        return web.json_response(places)


class Recorded:
    """A service on one store, from its first start to its stop."""

    def __init__(self, testbed: Testbed, number: int, environment: dict[str, str]) -> None:
        self.replica = Replica(testbed, number)
        self.replica.environment = environment
        self.client = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60))
        self.sequence, self.key = 1, ""
        self.sessions: dict[str, dict[str, str]] = {}

    async def command(self, *arguments: str) -> str:
        return await output(BINARY, *arguments, env=self.replica.environment)

    async def call(self, method: str, path: str, headers: dict[str, str] | None = None, body: str | None = None, status: int = 200) -> Any:
        async with self.client.request(method, self.replica.url + path, headers=headers, data=body) as response:
            text = await response.text()
            if response.status != status:
                raise Failed(f"{method} {path}: {response.status}: {text}")
            return json.loads(text)["data"]

    async def feed(self, method: str, path: str, lines: list[Any], snapshot: bool) -> None:
        text = "".join(json.dumps(line) + "\n" for line in [*lines, *([{"end": len(lines)}] if snapshot else [])])
        headers = {"Authorization": f"Bearer {self.key}", "Feed-Instance": INSTANCE, "Feed-Sequence": str(self.sequence)}
        self.sequence = int((await self.call(method, path, headers, text))["next"])

    async def beat(self) -> None:
        shards = [{"id": 0, "sent_ms_ago": 10, "acknowledged_ms_ago": 5, "latency": 42}]
        beat = {"instance": INSTANCE, "started_at": int(time.time()), "memory": 91226112, "shard_count": 1, "shards": shards}
        await self.call("PUT", "/bot/heartbeat", {"Authorization": f"Bearer {self.key}"}, json.dumps(beat))

    async def sign_in(self, number: int, number_of_code: int) -> str:
        code = f"{number}.{number_of_code}"
        token = (await self.call("POST", "/auth", {"Idp-Code": code}))["token"]
        self.sessions[token] = {"person": PEOPLE[number][0], "access": f"a-{code}", "refresh": f"r-{code}"}
        return str(token)

    async def make_key(self, label: str) -> tuple[str, str]:
        said = await self.command("key", "create", "--label", label)
        key, identity = re.search(r"bck_[0-9A-Za-z]+", said), re.search(r"(?:Created key|Key) (\w+)", said)
        if key is None or identity is None:
            raise Failed(f"no bot key was made: {said}")
        return key[0], identity[1]

    async def live(self) -> None:
        """A little of everything that a store can hold."""
        self.key, _ = await self.make_key("lantern")
        _, other = await self.make_key("lost")
        await self.command("key", "revoke", other)
        await self.beat()
        guild = {"icon": None, "setup": True, "linked": False}
        harbour = {"id": str(HARBOUR), "name": "Harbour City", "owner": "280114907635220483", "members": 412, **guild,
                   "grants": {"900000000000000001": ["MOD"]}, "staff": {"690412558730167039": ["900000000000000001"]}}  # fmt: skip
        lantern: dict[str, Any] = {"id": str(LANTERN), "name": "Lantern Valley", "owner": "402775613098844173", "members": 8, **guild, "grants": {}}
        await self.feed("PUT", "/bot/shards/1/0/guilds", [harbour, lantern], snapshot=True)
        paid = {"userid": "280114907635220483", "slots": 2, "guilds": [str(HARBOUR)], "active_until": None}
        await self.feed("PUT", "/bot/subscriptions", [paid], snapshot=True)
        member = {"username": "crew", "name": "Crew", "avatar": "https://cdn.example/a.png", "discord_id": "402775613098844173",
                  "role": "Keeper", "color": "#E0A030", "category": "crew", "position": 1, "permissions": []}  # fmt: skip
        rater = {"id": "518336079244710917", "username": "rater", "name": "Rater", "avatar": None}
        said = [{"type": "feedback", "id": f"f{n}", "feedback": f"Fine {n}", "rating": 4 + n % 2, "timestamp": 1_700_000_000 + n,
                 "submitter": rater} for n in range(5)]  # fmt: skip
        changed = {"type": "guild", **lantern, "members": 9}
        await self.feed("POST", "/bot/events", [{"type": "team", "members": [member]}, *said, changed], snapshot=False)
        for number, code in ((1, 1), (2, 1), (1, 2)):
            await self.sign_in(number, code)
        await self.call("POST", "/auth", {"Idp-Code": "nobody"}, status=401)
        await self.command("users", "block", BLOCKED)
        await self.command("announce", "We move on Sunday", "--text", "An hour, perhaps.")
        await self.command("announce", "We have moved")
        await self.command("announce", "end", "1")

    async def leave(self) -> None:
        """Somebody signs out: their grant is to be revoked 30 s later, which the next release has to do."""
        gone = await self.sign_in(3, 1)
        await self.call("DELETE", "/auth", {"Token": gone})
        del self.sessions[gone]

    async def answers(self) -> dict[str, Any]:
        tokens = {known["person"]: token for token, known in self.sessions.items()}
        found: dict[str, Any] = {path: await self.call("GET", path) for path in PUBLIC}
        # The release's own, which the next one does not have.
        del found["/"]["version"]
        for person, token in tokens.items():
            answers = {path: await self.call("GET", path, {"Token": token}) for path in PRIVATE}
            found[person] = {"token": token, **answers}
        found["/bot/state"] = await self.call("GET", "/bot/state", {"Authorization": f"Bearer {self.key}"})
        return found

    async def end(self) -> None:
        await self.client.close()
        await self.replica.end(signal.SIGKILL)


async def record(recorded: Recorded, count: Callable[[], Awaitable[dict[str, int]]], place: Path) -> None:
    """Lets the service live, and writes down what it said last and how many rows each table has."""
    try:
        await recorded.replica.start()
        await recorded.replica.ready()
        await recorded.live()

        async def has_history() -> bool:
            await recorded.beat()
            return (await count()).get("history_minutes", 0) > 0

        await eventually(has_history, "a minute of history is stored")
        await recorded.leave()
        answers, stopped = await recorded.answers(), int(time.time())
        await recorded.replica.end()
        found = {"recorded": stopped, "bot_key": recorded.key, "instance": INSTANCE, "next": recorded.sequence,
                 "sessions": recorded.sessions, "rows": await count(), "answers": answers}  # fmt: skip
        place.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    except Failed as failed:
        raise Failed(f"{failed}\n{last_lines(recorded.replica.log)}") from failed
    finally:
        await recorded.end()


def compress(place: Path, content: bytes) -> None:
    place.write_bytes(gzip.compress(content, mtime=0))
    print(f"{place.name}: {place.stat().st_size} bytes", flush=True)


async def sqlite(testbed: Testbed, provider: str, folder: Path) -> None:
    own = testbed.folder / "sqlite"
    own.mkdir()
    file = own / "data.db"
    environment = service_settings(own, provider, f"sqlite:{file}", SLOWEST)
    del environment["COMPANION_SECRETS_KEYS_FILE"]

    async def count() -> dict[str, int]:
        with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
            tables = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]
            return {table: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables}

    recorded = Recorded(testbed, 1, environment)
    await record(recorded, count, folder / "sqlite.json")
    compress(folder / "sqlite.db.gz", file.read_bytes())
    (folder / "sqlite.key").write_text(Path(f"{file}.key").read_text())
    # The form of backups may change, too.
    await recorded.command("backup", str(own / "backup"))
    compress(folder / "sqlite.backup.gz", (own / "backup").read_bytes())


async def postgres(testbed: Testbed, provider: str, folder: Path) -> None:
    server = Server(testbed, "left", testbed.address(10))
    try:
        await server.initialise()
        await server.start()
        await server.ask(f"CREATE DATABASE {USER}")
        own = testbed.folder / "replica"
        own.mkdir()
        environment = service_settings(own, provider, f"postgres://{USER}@{server.address}:{PORT}/{USER}", SLOWEST)
        (own / "secrets-keys").write_text(KEY)
        connect = ["-h", str(server.folder), "-U", USER, "-d", USER]

        async def count() -> dict[str, int]:
            async def ask(sql: str) -> list[str]:
                return (await server.call("psql", "-XAtq", *connect, "-c", sql)).split()

            tables = await ask("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            return {table: int((await ask(f"SELECT count(*) FROM {table}"))[0]) for table in tables}

        await record(Recorded(testbed, 2, environment), count, folder / "postgres.json")
        dump = await server.call("pg_dump", "--inserts", "--no-owner", "--no-privileges", *connect)
        # Not SQL: what only `psql` understands.
        lines = [line for line in dump.splitlines() if line and not line.startswith(("--", "\\"))]
        compress(folder / "postgres.sql.gz", ("\n".join(lines) + "\n").encode())
    finally:
        await server.stop()


async def program(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    testbed, provider = Testbed(), Sandbox()
    try:
        await provider.start(testbed.address(200))
        await asyncio.gather(sqlite(testbed, provider.url, folder), postgres(testbed, provider.url, folder))
    finally:
        await provider.end()
        testbed.remove()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description="Writes the stores that a release leaves.")
    arguments.add_argument("folder", type=Path)
    place = arguments.parse_args().folder
    sys.exit(run(lambda: program(place)))
