"""The bot's side of the benchmarks: snapshots of guilds, events, and the same rows written directly to the store."""

from __future__ import annotations

import http.client
import subprocess
import sys
import threading
import time
from pathlib import Path

from service import PATIENCE, Service, call

# The provider's users are in these guilds; all others have IDs as large as real ones.
FIRST_LISTED, LISTED, FIRST = 1_000_000, 200, 900_000_000_000_000_000
STAFF = 2


def guild_id(index: int) -> int:
    return FIRST_LISTED + index if index < LISTED else FIRST + (index << 22)


def guild(index: int, members: int) -> str:
    """One guild in the feed's format, without its closing bracket."""
    id = guild_id(index)
    role = FIRST + (index << 22) + 1
    staff = ",".join(f'"{role + person}":["{role}"]' for person in range(1, 1 + STAFF))
    return (
        f'{{"id":"{id}","name":"Guild number {index}","icon":null,"owner":"{role + 9}","members":{members},"setup":true,'
        f'"linked":false,"grants":{{"{role}":["MOD"]}},"staff":{{{staff}}}'
    )


class Bot:
    def __init__(self, service: Service) -> None:
        self.service, self.next = service, 2
        self.connection = http.client.HTTPConnection(service.host, service.port, timeout=600, blocksize=1 << 20)

    def send(self, method: str, path: str, body: object) -> int:
        """Sends a numbered call; returns how many lines were applied."""
        headers = {"Authorization": f"Bearer {self.service.key}", "Feed-Instance": "bench", "Feed-Sequence": str(self.next)}
        answer = call(self.connection, method, path, headers, body)
        self.next = answer["next"]
        return int(answer["applied"])

    def snapshot(self, count: int, folder: Path) -> float:
        """Reports this many guilds of one shard; returns how many seconds it took, not counting the time to create the lines."""
        lines = folder / "guilds.ndjson"
        with lines.open("w", buffering=1 << 20) as file:
            file.writelines(f"{guild(index, index % 5000)}}}\n" for index in range(count))
            file.write(f'{{"end":{count}}}\n')
        with lines.open("rb") as file:
            began = time.perf_counter()
            applied = self.send("PUT", "/bot/shards/1/0/guilds", file)
            took = time.perf_counter() - began
        lines.unlink()
        if applied != count:
            sys.exit(f"only {applied} of {count} guilds were applied")
        return took

    def events(self, lines: list[str]) -> float:
        """Reports changes; returns how many seconds it took."""
        began = time.perf_counter()
        if self.send("POST", "/bot/events", "".join(lines).encode()) != len(lines):
            sys.exit("not all events were applied")
        return time.perf_counter() - began


def guild_event(index: int, members: int) -> str:
    return f'{guild(index, members)},"type":"guild"}}\n'


def feedback_event(index: int) -> str:
    person = FIRST + index
    return (
        f'{{"type":"feedback","id":"entry-{index:09}","feedback":"Entry number {index}: it does what it should, and our moderators like it.",'
        f'"rating":{4 + index % 2},"timestamp":{1_700_000_000 + index},"submitter":{{"id":"{person}","username":"person{index}",'
        f'"name":"Person {index}","avatar":"https://cdn.example/{person}.png"}}}}\n'
    )


class ReadsBeside:
    """Reads `/guilds` every few milliseconds on another connection while something else is running."""

    def __init__(self, service: Service, token: str) -> None:
        self.service, self.token, self.waits = service, token, list[float]()
        self.done, self.thread = threading.Event(), threading.Thread(target=self.read)

    def __enter__(self) -> ReadsBeside:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()
        self.waits.sort()

    def read(self) -> None:
        connection = http.client.HTTPConnection(self.service.host, self.service.port, timeout=PATIENCE)
        while not self.done.wait(0.002):
            began = time.perf_counter()
            call(connection, "GET", "/guilds", {"Token": self.token})
            self.waits.append(time.perf_counter() - began)


def timed(*command: str) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def bare_sqlite(database: Path, folder: Path) -> float:
    """How many seconds the sqlite3 shell takes to `.import` the snapshot's rows into empty tables with the same schema."""
    shard = "(SELECT snapshot FROM feed_shards WHERE shard_count = 1)"
    imports = list[str]()
    for table in ("guilds", "guild_staff"):
        rows = folder / f"{table}.csv"
        with rows.open("w") as file:
            query = f"SELECT * FROM {table} WHERE snapshot = {shard}"
            subprocess.run(["sqlite3", "-readonly", "-csv", str(database), query], check=True, stdout=file)
        imports.append(f".import {rows} {table}")
    shapes = ["sqlite3", "-readonly", str(database), ".schema guilds", ".schema guild_staff"]
    schema = subprocess.run(shapes, check=True, capture_output=True, text=True)
    bare = str(folder / "bare.db")
    subprocess.run(["sqlite3", bare, "PRAGMA journal_mode = wal;", schema.stdout], check=True, stdout=subprocess.DEVNULL)
    took = timed("sqlite3", bare, "PRAGMA synchronous = full;", ".mode csv", *imports)
    for made in (*folder.glob("bare.db*"), *folder.glob("*.csv")):
        made.unlink()
    return took


def bare_postgres(store: str, folder: Path) -> float:
    """How many seconds `COPY` takes to write the snapshot's rows to empty tables with the same schema."""

    def psql(*commands: str) -> float:
        return timed("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", store, *(part for command in commands for part in ("-c", command)))

    shard = "(SELECT snapshot FROM feed_shards WHERE shard_count = 1)"
    tables = ("guilds", "guild_staff")
    for table in tables:
        psql(f"\\copy (SELECT * FROM {table} WHERE snapshot = {shard}) TO '{folder}/{table}.copy'", f"CREATE TABLE bare_{table} (LIKE {table} INCLUDING ALL)")
    psql("CHECKPOINT")
    took = psql(*(f"\\copy bare_{table} FROM '{folder}/{table}.copy'" for table in tables))
    psql(*(f"DROP TABLE bare_{table}" for table in tables))
    for file in folder.glob("*.copy"):
        file.unlink()
    return took
