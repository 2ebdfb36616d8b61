"""The service as the benchmarks run it: `serve` on an empty store, raised limits, and a provider that answers immediately."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
BINARY = os.environ.get("BOT_COMPANION", "")
PROVIDER = os.environ.get("INSTANT_PROVIDER", "")
# Only a failing run waits this long.
PATIENCE = 120.0
CONFIGURATION = {
    "IDP_CLIENT_ID": "1",
    "IDP_CLIENT_SECRET": "a-secret-of-nobody",
    "IDP_REDIRECT_URI": "https://dashboard.example/callback",
    "HTTP_ALLOWED_ORIGINS": "https://dashboard.example",
    "SECRETS_KEYS": f"one:{'A' * 43}=",
    "ADMIN_LISTEN": "off",
    # Raised, not switched off, because counting is part of a request's cost. One client stands for many.
    "LIMITS_REQUESTS_PER_SECOND": "1000000",
    "LIMITS_REQUESTS_BURST": "1000000",
    "LIMITS_CONNECTIONS": "20000",
    "LIMITS_CONNECTIONS_PER_ADDRESS": "20000",
    "LIMITS_LIVE": "20000",
    "LIMITS_LIVE_PER_ADDRESS": "20000",
    "LIMITS_SIGN_INS_PER_USER": "0",
    "LIMITS_CONCURRENT_EXCHANGES_PER_ADDRESS": "0",
    # A sign-in counts as refused until it's done.
    "LIMITS_REFUSED_SIGN_INS_PER_MINUTE": "1000000",
    "FEED_REQUESTS_PER_SECOND": "0",
    # The bot's connection waits while thousands of users sign in.
    "LIMITS_IDLE_TIMEOUT": "1h",
    # A list that expires during a measurement would add provider calls to it.
    "GUILDS_FRESH": "1d",
    "GUILDS_STALE_WHILE_REVALIDATE": "1d",
    "GUILDS_MAX_STALE": "1d",
}


def say(text: str) -> None:
    """Prints progress to stderr. Only the results go to stdout."""
    print(text, file=sys.stderr, flush=True)


def clean_up_when_stopped() -> None:
    """Makes an interrupted run end its processes and remove its files, and raises the open file limit as far as the system allows."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def end(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    try:
        process.wait(PATIENCE)
    finally:
        process.kill()


@contextlib.contextmanager
def instant_provider() -> Iterator[str]:
    """Starts the provider and yields its address."""
    process = subprocess.Popen([PROVIDER, "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        end(process)


def user_id(person: int) -> int:
    """Spread out like the provider's IDs, because the store locks neighbours together."""
    return person << 22


def code(person: int, guilds: int) -> str:
    """The code to sign in a person who is in this many guilds."""
    return f"{user_id(person)}-{guilds}"


class Service:
    def __init__(self, folder: Path, provider: str, store: str = "", binary: str = BINARY) -> None:
        folder.mkdir()
        self.binary = binary
        self.database, self.log = folder / "companion.db", folder / "log"
        # Its own address, so that nothing else takes the service's port while it restarts.
        self.host, self.port = "127." + ".".join(str(random.randrange(1, 255)) for _ in range(3)), 0
        self.process: subprocess.Popen[bytes] | None = None
        configuration = {**CONFIGURATION, "IDP_BASE_URL": provider, "STORE_URL": store or f"sqlite:{self.database}"}
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("COMPANION_")}
        self.environment |= {f"COMPANION_{name}": value for name, value in configuration.items()}
        command = [binary, "key", "create", "--label", "bench"]
        made = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        found = re.search(r"bck_\w+", made.stdout)
        if found is None:
            sys.exit(f"no key was created: {made.stdout}{made.stderr}")
        self.key = found[0]

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def __enter__(self) -> Service:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def launch(self) -> None:
        with self.log.open("ab") as log:
            command = [self.binary, "serve", "--listen", f"{self.host}:{self.port}"]
            self.process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)

    def start(self) -> None:
        """Starts the service and waits until it's listening."""
        known = self.log.stat().st_size if self.log.exists() else 0
        self.launch()

        def port() -> int | None:
            said = self.log.read_bytes()[known:]
            found = re.search(rb"listening on https?://[^ ]*:(\d+)/", said)
            if found is None and self.process is not None and self.process.poll() is not None:
                sys.exit(f"the service did not start:\n{said.decode()}")
            return int(found[1]) if found else None

        self.port = wait_for(port, "the service to listen")

    def stop(self) -> None:
        if self.process is not None:
            end(self.process)
            self.process = None

    def start_to_first_answer(self, token: str) -> tuple[float, float]:
        """Starts the service. Returns the seconds until it has answered `GET /guilds`, which needs the session, the list and the guilds, and its
        CPU seconds, which other load hardly affects."""
        request = f"GET /guilds HTTP/1.1\r\nHost: {self.host}\r\nToken: {token}\r\nConnection: close\r\n\r\n".encode()
        began = time.perf_counter()
        self.launch()

        def answered() -> tuple[float, float] | None:
            with contextlib.suppress(ConnectionError), socket.create_connection((self.host, self.port), PATIENCE) as connection:
                connection.sendall(request)
                if connection.recv(4096).startswith(b"HTTP/1.1 200 "):
                    return time.perf_counter() - began, self.cpu()
            return None

        return wait_for(answered, "the first answer", pause=0.0005)

    def cpu(self) -> float:
        return cpu(self.pid)

    def memory(self, field: str = "VmRSS") -> float:
        """Resident memory in MiB; `VmHWM` is its peak."""
        found = re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        assert found is not None
        return int(found[1]) / 1024

    def sign_in(self, *codes: str) -> list[str]:
        """The tokens of new sessions, one per code."""

        def sign_in_all(part: list[str]) -> list[str]:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE)
            return [call(connection, "POST", "/auth", {"Idp-Code": code})["token"] for code in part]

        workers = 16
        with ThreadPoolExecutor(workers) as pool:
            parts = list(pool.map(sign_in_all, [list(codes[worker::workers]) for worker in range(workers)]))
        return [parts[index % workers][index // workers] for index in range(len(codes))]


def cpu(pid: int) -> float:
    """CPU seconds a process has used so far, including ended threads, to the nanosecond, from its CPU clock (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2)


def wait_for(condition: Callable[[], T | None], what: str, pause: float = 0.02) -> T:
    deadline = time.monotonic() + PATIENCE
    while (found := condition()) is None:
        if time.monotonic() > deadline:
            sys.exit(f"waited {PATIENCE:.0f} s for {what}")
        time.sleep(pause)
    return found


def call(connection: http.client.HTTPConnection, method: str, path: str, headers: dict[str, str], body: Any = None) -> Any:
    """The `data` of a successful response."""
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200:
        sys.exit(f"{method} {path} answered {answer.status}: {content.decode()}")
    return json.loads(content)["data"]


def wrk(service: Service, path: str, seconds: int, *arguments: str, connections: int = 64) -> tuple[float, float]:
    """Requests per second, and microseconds of the service's CPU per request."""
    before = service.cpu()
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", *arguments, f"{service.url}{path}"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    used = service.cpu() - before
    requests, rate = re.search(r"(\d+) requests in", output), re.search(r"Requests/sec:\s+([\d.]+)", output)
    if "Non-2xx" in output or "Socket errors" in output or requests is None or rate is None:
        sys.exit(f"the measurement of {path} is invalid:\n{output}")
    return float(rate[1]), used * 1e6 / int(requests[1])
