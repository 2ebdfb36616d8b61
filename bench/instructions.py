"""Sends warm reads to a server under callgrind and prints what each costs. `bench/instructions` starts it.

    instructions.py service URL PID COUNTS_FILE FOLDER   the four reads of the service; their answers go to the folder
    instructions.py limit URL PID COUNTS_FILE PATH       one read of a server that always sends the same
"""

import json
import re
import socket
import statistics
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

PATHS = ["/", "/team", "/feedback", "/guilds"]
REQUESTS = 200
# The service does other things meanwhile, for example it stores a heartbeat. The median leaves them out.
ROUNDS = 15
# As long as a real one: the limits must read as many bytes.
NO_TOKEN = f"bcs_{'0' * 43}"


def sign_in(url: str) -> str:
    request = urllib.request.Request(f"{url}/auth", method="POST", headers={"Idp-Code": "owner"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)["data"]["token"]


def ask(connection: socket.socket, request: bytes) -> tuple[bytes, bytes]:
    """Head and body of the answer."""
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


def cost(url: str, path: str, token: str, counter: Counter) -> tuple[int, tuple[bytes, bytes]]:
    """Instructions per request, and an answer."""
    place = urlsplit(url)
    # Ports have four or five digits; a fixed name keeps the request's length.
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nToken: {token}\r\n\r\n".encode()
    with socket.create_connection((place.hostname, place.port), timeout=120) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(REQUESTS):
            answer = ask(connection, request)
        counter.since_last()
        costs = []
        for _ in range(ROUNDS):
            for _ in range(REQUESTS):
                ask(connection, request)
            costs.append(counter.since_last() / REQUESTS)
    return round(statistics.median(costs)), answer


def main() -> None:
    kind, url, pid, counts, last = sys.argv[1:]
    counter = Counter(pid, counts)
    if kind == "limit":
        print(last, cost(url, last, NO_TOKEN, counter)[0])
        return
    token = sign_in(url)
    for number, path in enumerate(PATHS):
        count, (head, body) = cost(url, path, token, counter)
        print(path, count, flush=True)
        folder = Path(last) / str(number)
        folder.mkdir(exist_ok=True)
        (folder / "path").write_text(path)
        (folder / "head").write_bytes(head)
        (folder / "body").write_bytes(body)


main()
