"""Measures how time, memory and the cost of reads grow with guilds, feedback, sessions and live streams. `bench/growth` starts it."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import random
import sqlite3
import statistics
import string
import tempfile
import zlib
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from chart import draw_chart
from feed import Bot, bare_sqlite, feedback_event
from markdown import print_table, verdict
from service import Service, clean_up_when_stopped, code, instant_provider, say, user_id, wrk
from streams import GUILDS, Cost, measure

DOCS = Path(__file__).resolve().parent.parent / "docs"
ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
GOAL_MEMORY, GOAL_START, GOAL_LOAD, GOAL_READ = 64, 0.1, 3, 1.1
# Events in one request, as many as the service accepts.
BATCH = 10_000
# How many sessions come from signing in. The others are copies of them.
SIGNED_IN = 1000
# The reader is in ten guilds.
READER = code(1, 10)


@dataclass(frozen=True)
class Plan:
    guilds: list[int]
    feedback: list[int]
    sessions: list[int]
    streams: list[int]
    rounds: int
    seconds: int
    starts: int
    stream_seconds: int


FULL = Plan(
    guilds=[10_000, 100_000, 1_000_000, 10_000_000],
    feedback=[10_000, 100_000, 1_000_000, 10_000_000],
    sessions=[1000, 10_000, 100_000, 1_000_000],
    streams=[10, 100, 1000, 10_000],
    rounds=7, seconds=3, starts=5, stream_seconds=15,
)  # fmt: skip
QUICK = Plan(guilds=[1000, 10_000], feedback=[1000, 10_000], sessions=[1000, 2000], streams=[10, 50], rounds=1, seconds=1, starts=1, stream_seconds=1)


@dataclass
class Size:
    """One size of one kind, and its measurements."""

    count: int
    service: Service
    token: str
    # What makes wrk's requests differ from each other.
    arguments: list[str] = field(default_factory=list)
    took: float = 0.0
    most: float = 0.0
    start: float = 0.0
    start_cpu: float = 0.0
    memory: float = 0.0
    costs: list[float] = field(default_factory=list)

    @property
    def file(self) -> float:
        """Megabytes of the database."""
        return self.service.database.stat().st_size / 1e6

    @property
    def cost(self) -> float:
        return statistics.median(self.costs)


def prepare(kind: str, count: int, folder: Path, provider: str) -> Size:
    """A stopped service with this many of a kind."""
    say(f"{count:,} {kind}")
    service = Service(folder / f"{kind}-{count}", provider)
    with service:
        bot = Bot(service)
        size = Size(count, service, service.sign_in(READER)[0])
        size.arguments = ["-H", f"Token: {size.token}"]
        if kind == "guilds":
            size.took = bot.snapshot(count, folder)
        else:
            bot.snapshot(GUILDS, folder)
        if kind == "feedback":
            for begin in range(0, count, BATCH):
                size.took += bot.events([feedback_event(index) for index in range(begin, min(begin + BATCH, count))])
        if kind == "sessions":
            tokens = service.sign_in(*(code(2 + person, 10) for person in range(SIGNED_IN)))
        size.most = service.memory("VmHWM")
    if kind == "sessions":
        tokens += copy_sessions(service.database, count - len(tokens))
        size.arguments = ["-s", str(spread_over(tokens, folder / f"tokens-{count}"))]
    return size


def new_token() -> str:
    """A session token like the service's: random characters and their CRC-32."""
    token = "bcs_" + "".join(random.choices(ALPHABET, k=30))
    sum = zlib.crc32(token.encode())
    for _ in range(6):
        token += ALPHABET[sum % 62]
        sum //= 62
    return token


def copy_sessions(database: Path, count: int) -> list[str]:
    """Adds users with a session each, by copying those of a user who signed in; returns their tokens. Nobody else has the file open."""
    tokens = [new_token() for _ in range(count)]
    template, first = user_id(2), 1_000_000
    with sqlite3.connect(database) as store:
        store.execute("PRAGMA synchronous = off")
        users = f"""INSERT INTO users (id, username, name, avatar, grant_sealed, grant_version, list, list_fetched, list_version)
            SELECT ?, 'person' || ?, name, avatar, grant_sealed, grant_version, list, list_fetched, list_version FROM users WHERE id = {template}"""
        store.executemany(users, ((user_id(first + index), index) for index in range(count)))
        sessions = f"""INSERT INTO sessions (token_hash, id, user_id, created, last_seen, agent)
            SELECT ?, ?, ?, created, last_seen, agent FROM sessions WHERE user_id = {template}"""
        rows = ((hashlib.sha256(token.encode()).digest(), random.randbytes(8).hex(), user_id(first + index)) for index, token in enumerate(tokens))
        store.executemany(sessions, rows)
    store.close()
    return tokens


def spread_over(tokens: list[str], file: Path) -> Path:
    """A wrk script that uses a random token for each request."""
    file.write_text("\n".join(tokens))
    script = file.with_suffix(".lua")
    script.write_text(
        f"""local tokens = {{}}
for token in io.lines("{file}") do tokens[#tokens + 1] = token end
request = function() return wrk.format("GET", nil, {{ Token = tokens[math.random(#tokens)] }}) end
"""
    )
    return script


def measure_kind(kind: str, path: str, counts: list[int], plan: Plan, folder: Path, provider: str) -> list[Size]:
    sizes = [prepare(kind, count, folder, provider) for count in counts]
    with ExitStack() as running:
        for size in sizes:
            starts = list[tuple[float, float]]()
            for _ in range(plan.starts):
                size.service.stop()
                starts.append(size.service.start_to_first_answer(size.token))
            running.callback(size.service.stop)
            size.start, size.start_cpu = (statistics.median(part) for part in zip(*starts, strict=True))
            wrk(size.service, path, plan.seconds, *size.arguments)
        # In turns, so that other load on the machine affects all sizes.
        for number in range(plan.rounds):
            say(f"reads of {path}, round {number + 1}")
            for size in sizes:
                size.costs.append(wrk(size.service, path, plan.seconds, *size.arguments)[1])
        for size in sizes:
            size.memory = size.service.memory()
    return sizes


def print_sizes(kind: str, path: str, sizes: list[Size]) -> None:
    has_load = sizes[0].took > 0
    header = [kind, "memory while loading, at most", "memory after the reads", "start to first answer", "file", f"`{path}`, µs CPU", "to the smallest"]
    rows = list[list[str]]()
    for size in sizes:
        row = [f"{size.count:,}", f"{size.most:.0f} MiB", f"{size.memory:.0f} MiB"]
        row += [f"{size.start * 1000:.0f} ms ({size.start_cpu * 1000:.0f} ms of CPU)", f"{size.file:,.1f} MB"]
        row += [f"{size.cost:.1f}", f"{size.cost / sizes[0].cost:.2f}"]
        if has_load:
            row.insert(1, f"{size.took:.1f} s, {size.count / size.took:,.0f}/s")
        rows.append(row)
    if has_load:
        header.insert(1, "loaded in")
    print_table(header, rows)


def goal(what: str, figure: str, is_met: bool) -> None:
    print(f"- {what}: {figure}; {verdict(is_met)}.")


def show_growth(name: str, alt: str, charts: Path, across: str, up: str, lines: dict[str, list[tuple[float, float]]]) -> None:
    draw_chart(charts / f"growth-{name}.svg", alt, across, up, lines)
    if charts.is_relative_to(DOCS):
        print(f"\n![{alt}](images/growth-{name}.svg)\n", flush=True)


def memory_and_start(sizes: list[Size]) -> dict[str, list[tuple[float, float]]]:
    return {
        "resident memory, MiB": [(size.count, size.memory) for size in sizes],
        "start to first answer, ms": [(size.count, size.start * 1000) for size in sizes],
    }


def guilds(plan: Plan, folder: Path, provider: str, charts: Path) -> None:
    sizes = measure_kind("guilds", "/guilds", plan.guilds, plan, folder, provider)
    largest = sizes[-1]
    say("the same rows with the sqlite3 shell")
    bare = bare_sqlite(largest.service.database, folder)
    print("### Guilds\n\nOne snapshot sent through the feed to an empty store, with two staff per guild. The reader is in ten of the guilds.\n")
    print_sizes("guilds", "/guilds", sizes)
    many = f"{largest.count:,} guilds"
    ratio, read = largest.took / bare, largest.cost / sizes[0].cost
    most = max(largest.most, largest.memory)
    goal(f"{many} loaded within {GOAL_LOAD} times the bare store's time", f"{ratio:.2f} times (`.import` of the same rows: {bare:.1f} s)", ratio <= GOAL_LOAD)
    goal(f"{many} with under {GOAL_MEMORY} MiB resident", f"{most:.0f} MiB", most < GOAL_MEMORY)
    goal(f"start to first answer under {GOAL_START * 1000:.0f} ms with {many}", f"{largest.start * 1000:.0f} ms", largest.start < GOAL_START)
    goal(f"`/guilds` costs the same with {many} as with {sizes[0].count:,}, within 10%", f"{read:.2f} times", read <= GOAL_READ)
    show_growth("guilds", "Memory and start with more guilds", charts, "guilds", "MiB, ms", memory_and_start(sizes))


def feedback(plan: Plan, folder: Path, provider: str, charts: Path) -> None:
    sizes = measure_kind("feedback", "/feedback", plan.feedback, plan, folder, provider)
    print(f"### Feedback\n\nEntries with 4 or 5 stars, all sent through the feed in batches of {BATCH:,} events.\n")
    print_sizes("entries", "/feedback", sizes)
    read = sizes[-1].cost / sizes[0].cost
    goal(f"`/feedback` costs the same with {sizes[-1].count:,} entries as with {sizes[0].count:,}, within 10%", f"{read:.2f} times", read <= GOAL_READ)
    lines = {"/feedback, µs of CPU per request": [(float(size.count), size.cost) for size in sizes]}
    show_growth("feedback", "Cost of /feedback with more entries", charts, "entries", "µs", lines)


def sessions(plan: Plan, folder: Path, provider: str, charts: Path) -> None:
    sizes = measure_kind("sessions", "/guilds", plan.sessions, plan, folder, provider)
    print(
        f"### Sessions\n\n{SIGNED_IN:,} users signed in over HTTP. The other rows were written to the database while the service was stopped: copies of"
        " one of those users, each with its own ID, session and token. Each read uses a random session, so the caches are full.\n"
    )
    print_sizes("sessions", "/guilds", sizes)
    show_growth("sessions", "Memory and start with more sessions", charts, "sessions", "MiB, ms", memory_and_start(sizes))


def streams(plan: Plan, folder: Path, provider: str, charts: Path) -> None:
    costs = list[Cost]()
    for count in plan.streams:
        say(f"{count:,} streams")
        with Service(folder / f"streams-{count}", provider) as service:
            bot = Bot(service)
            bot.snapshot(GUILDS, folder)
            costs.append(asyncio.run(measure(service, bot, count, 11, plan.stream_seconds)))
    print("### Live streams\n\n`/me/live`, one stream per user, each user in eleven guilds. They share one guild, which changes every second in the columns with changes.\n")
    header = ("streams", "opened", "memory", "each", "CPU without changes", "CPU with changes", "events that arrived", "CPU per event")
    print_table(header, (stream_row(cost, plan.stream_seconds) for cost in costs))
    lines = {
        "resident memory, MiB": [(float(cost.count), cost.memory) for cost in costs],
        "CPU with changes, % of a core": [(float(cost.count), cost.busy) for cost in costs],
    }
    show_growth("streams", "Memory and CPU with more live streams", charts, "live streams", "MiB, %", lines)


def stream_row(cost: Cost, seconds: int) -> list[str]:
    each = cost.busy / 100 * seconds / max(cost.events, 1) * 1e6
    row = [f"{cost.count:,}", f"{cost.opened:,.0f}/s", f"{cost.memory:.0f} MiB", f"{cost.memory_each:.1f} KiB", f"{cost.idle:.1f}%"]
    return [*row, f"{cost.busy:.1f}%", f"{cost.events:,} of {cost.expected:,}", f"{each:.0f} µs"]


KINDS = {"guilds": guilds, "feedback": feedback, "sessions": sessions, "streams": streams}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, and no charts in docs/images")
    parser.add_argument("--only", choices=KINDS, action="append", help="measure only this kind; can be repeated")
    arguments = parser.parse_args()
    clean_up_when_stopped()
    plan = QUICK if arguments.quick else FULL
    for kind in arguments.only or KINDS:
        # One folder per kind: the largest take gigabytes.
        with tempfile.TemporaryDirectory(prefix="bench-") as name, instant_provider() as provider:
            charts = Path(name) if arguments.quick else DOCS / "images"
            KINDS[kind](plan, Path(name), provider, charts)


if __name__ == "__main__":
    main()
