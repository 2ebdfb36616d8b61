"""Sends warm reads to a service under callgrind and prints what each costs: instructions.py URL PID COUNTS_FILE"""

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
# The service does other things meanwhile, such as writing down a heartbeat. The median leaves them out.
ROUNDS = 15


def sign_in(url: str) -> str:
    request = urllib.request.Request(f"{url}/auth", method="POST", headers={"Idp-Code": "owner"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)["data"]["token"]


def ask(connection: socket.socket, request: bytes, times: int) -> None:
    for _ in range(times):
        connection.sendall(request)
        received = b""
        while b"\r\n\r\n" not in received:
            received += connection.recv(65536)
        head, body = received.split(b"\r\n\r\n", 1)
        if not head.startswith(b"HTTP/1.1 200"):
            sys.exit(f"the service refused: {head.decode()}")
        length = int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE)[1])
        while len(body) < length:
            body += connection.recv(65536)


def counted(pid: str, file: Path, part: int) -> int:
    """The instructions since the last call."""
    subprocess.run(["callgrind_control", "--dump", pid], check=True, capture_output=True)
    text = Path(f"{file}.{part}").read_text()
    return int(re.search(r"^(?:summary|totals): (\d+)", text, re.MULTILINE)[1])


def main() -> None:
    url, pid, file = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    place = urlsplit(url)
    token = sign_in(url)
    part = 0
    for path in PATHS:
        request = f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\nToken: {token}\r\n\r\n".encode()
        with socket.create_connection((place.hostname, place.port), timeout=120) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ask(connection, request, REQUESTS)
            part += 1
            counted(pid, file, part)
            costs = []
            for _ in range(ROUNDS):
                ask(connection, request, REQUESTS)
                part += 1
                costs.append(counted(pid, file, part) / REQUESTS)
        print(path, round(statistics.median(costs)), flush=True)


main()
