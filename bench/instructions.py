"""Sends warm reads to a server under callgrind and prints what each costs. `bench/instructions` starts it.

    instructions.py service URL PID COUNTS_FILE FOLDER   the four reads of the service; their answers go to the folder
    instructions.py limit URL PID COUNTS_FILE PATH       one read of a server that always sends the same
    instructions.py compare MEASURED COMMITTED           fails if one grew too much

A line is a read, `all` or the name of a hot function, and instructions per request (for a function: with everything that it calls).
"""

import json
import re
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

PATHS = ["/", "/team", "/feedback", "/guilds"]
REQUESTS = 100
# The service also does other work, like handling a heartbeat. The cheapest round has the least of it.
ROUNDS = 20
# A function is hot if it takes this share of a read. Functions above the second bound only call the others.
HOT, OUTER = 0.02, 0.6
MOST_GROWTH = 0.05
# Hash maps and memory addresses are randomised, which changes the counts of small functions.
RANDOM = 50
# As long as a real token, so that the reference servers read the same number of bytes.
NO_TOKEN = f"bcs_{'0' * 43}"


def sign_in(url: str) -> str:
    request = urllib.request.Request(f"{url}/auth", method="POST", headers={"Idp-Code": "owner"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)["data"]["token"]


def ask(connection: socket.socket, request: bytes) -> tuple[bytes, bytes]:
    """Head and body of the response."""
    connection.sendall(request)
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        sys.exit(f"the server refused: {head.decode()}")
    length = int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE)[1])
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n", body


class Counter:
    def __init__(self, pid: str, file: str) -> None:
        self.pid, self.file, self.part = pid, file, 0

    def since_last(self) -> int:
        subprocess.run(["callgrind_control", "--dump", self.pid], check=True, capture_output=True, timeout=120)
        self.part += 1
        text = Path(f"{self.file}.{self.part}").read_text()
        return int(re.search(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)[1])

    def hot_functions(self, part: int, total: int) -> dict[str, int]:
        """Instructions per request of each hot function in a part, including what it calls, most expensive first."""
        command = ["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--auto=no", f"{self.file}.{part}"]
        text = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
        lines = re.findall(r"^\s*([\d,]+) \([ \d.]+%\)\s+\S+?:(\S.*?)(?: \[[^\]]+\])?$", text, re.MULTILINE)
        counts: dict[str, int] = {}
        for count, name in lines:
            # The first and largest entry is the whole function. The others are code inlined from other source files.
            counts.setdefault(name, round(int(count.replace(",", "")) / REQUESTS))
        hot = {name: count for name, count in counts.items() if HOT < count / total < OUTER}
        return dict(sorted(hot.items(), key=lambda pair: -pair[1]))


def cost(url: str, path: str, token: str, counter: Counter) -> tuple[int, int, tuple[bytes, bytes]]:
    """Instructions per request, the part that has them, and a response."""
    place = urlsplit(url)
    # Ports have four or five digits; a fixed host keeps the request's length constant.
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nToken: {token}\r\n\r\n".encode()
    with socket.create_connection((place.hostname, place.port), timeout=120) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(REQUESTS):
            answer = ask(connection, request)
        counter.since_last()
        rounds = []
        for _ in range(ROUNDS):
            for _ in range(REQUESTS):
                ask(connection, request)
            rounds.append((round(counter.since_last() / REQUESTS), counter.part))
    count, part = min(rounds)
    if not count:
        sys.exit("Nothing was counted. Does bench/instructions still have the name of the function that serves a connection?")
    return count, part, answer


def compare(measured: Path, committed: Path) -> None:
    def figures(file: Path) -> dict[tuple[str, str], int]:
        rows = [line.split("\t") for line in file.read_text().splitlines()]
        return {(path, name): int(count) for path, name, count in rows}

    advice = "run bench/instructions --write, and commit the file with the reason"
    if not committed.exists():
        sys.exit(f"{committed} is missing: {advice}")
    ours, theirs = figures(measured), figures(committed)
    worse = False
    for (path, name), before in theirs.items():
        # Only our own functions: a library's share changes with its version, and the whole read covers it. Dropping a value is mostly
        # the allocator's work, which depends on memory addresses.
        if name != "all" and ("bot_companion" not in name or name.startswith("core::ptr::drop_in_place")):
            continue
        now = ours.get((path, name))
        if now is None:
            # It's now too small to be listed, or was inlined or renamed. The whole read still covers it.
            print(f"{path:10} {name}: no longer listed, {before} committed")
            continue
        grew = now - before > max(before * MOST_GROWTH, RANDOM)
        worse |= grew
        print(f"{path:10} {name}: {now}, {before} committed ({now / before - 1:+.1%}){'  TOO MUCH' if grew else ''}")
    if missing := {("all", path) for path in PATHS} - {(name, path) for path, name in theirs}:
        sys.exit(f"{committed} lacks {sorted(missing)}: {advice}")
    if worse:
        sys.exit(f"something grew by more than {MOST_GROWTH:.0%}. If it is worth it, {advice}")


def main() -> None:
    if sys.argv[1] == "compare":
        compare(Path(sys.argv[2]), Path(sys.argv[3]))
        return
    kind, url, pid, counts, last = sys.argv[1:]
    counter = Counter(pid, counts)
    if kind == "limit":
        print(last, "all", cost(url, last, NO_TOKEN, counter)[0], sep="\t")
        return
    token = sign_in(url)
    for number, path in enumerate(PATHS):
        count, part, (head, body) = cost(url, path, token, counter)
        for name, value in {"all": count, **counter.hot_functions(part, count)}.items():
            print(path, name, value, sep="\t", flush=True)
        folder = Path(last) / str(number)
        folder.mkdir(exist_ok=True)
        (folder / "path").write_text(path)
        (folder / "head").write_bytes(head)
        (folder / "body").write_bytes(body)


main()
