"""Replicas of the service, and HAProxy in front of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import socket
import tempfile
from functools import partial
from pathlib import Path

import aiohttp

from .certificate import Certificate
from .testbed import REPOSITORY, Failed, Testbed, end, eventually, last_lines, clean_environment, output

BINARY = os.environ.get("BOT_COMPANION", "")
REPLICAS = 3


class Replica:
    """One process of the service. It comes back to the port that it had."""

    def __init__(self, testbed: Testbed, number: int, base_path: str = "") -> None:
        self.number, self.base_path, self.scheme = number, base_path, "http"
        # What it runs from its next start on.
        self.binary = BINARY
        self.address, self.port = testbed.address(number), 0
        self.log = testbed.folder / f"replica-{number}.log"
        self.environment: dict[str, str] = {}
        self.process: asyncio.subprocess.Process | None = None
        self.reading: asyncio.Task[None] | None = None
        self.listening = asyncio.Event()

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.address}:{self.port}{self.base_path}"

    async def start(self) -> None:
        self.listening.clear()
        self.process = await asyncio.create_subprocess_exec(
            self.binary, "serve", "--config", str(REPOSITORY / "deploy" / "companion.toml"), "--listen", f"{self.address}:{self.port}",
            env=self.environment, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        self.reading = asyncio.create_task(self.read(self.process))
        listens, ends = asyncio.create_task(self.listening.wait()), asyncio.create_task(self.process.wait())
        await asyncio.wait({listens, ends}, return_when=asyncio.FIRST_COMPLETED)
        for task in (listens, ends):
            task.cancel()
        if not self.listening.is_set():
            raise Failed(f"replica {self.number} has ended instead of listening:\n{last_lines(self.log)}")

    async def read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        with self.log.open("ab") as log:
            async for line in process.stderr:
                log.write(line)
                log.flush()
                found = re.search(rb"listening on https?://[^ ]*:(\d+)/", line)
                if found is not None:
                    self.port = int(found[1])
                    self.listening.set()

    async def ready(self) -> None:
        """Waits until it says that it is."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:

            async def says_so() -> bool | None:
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    async with session.get(f"{self.url}/ready") as response:
                        return response.status == 200
                return None

            await eventually(says_so, f"replica {self.number} is ready")

    async def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        code = await end(self.process, how)
        if self.reading is not None:
            await self.reading
        if how is signal.SIGTERM and code != 0:
            raise Failed(f"replica {self.number} ended with {code}:\n{last_lines(self.log)}")


class Balancer:
    """HAProxy with the configuration in `deploy`, with TLS if it is given a certificate, and beside it a socket that tells what HAProxy thinks."""

    def __init__(self, testbed: Testbed, base_path: str = "", certificate: Certificate | None = None) -> None:
        self.testbed, self.base_path, self.certificate = testbed, base_path, certificate
        self.folder = Path(tempfile.mkdtemp(prefix="haproxy-", dir=testbed.folder))
        self.log, self.told = self.folder / "log", self.folder / "sock"
        # HAProxy is handed the open socket, so the port is its own from the beginning.
        self.socket = socket.socket()
        self.socket.bind((testbed.address(100), 0))
        self.socket.listen(1024)
        self.url = "{}://{}:{}{}".format("https" if certificate else "http", *self.socket.getsockname(), base_path)
        self.process: asyncio.subprocess.Process | None = None

    async def start(self, replicas: list[Replica]) -> None:
        program = shutil.which("haproxy", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
        if program is None:
            raise Failed("HAProxy is missing: install Debian's package `haproxy`")
        beside = self.folder / "haproxy-beside.cfg"
        beside.write_text(f"global\n    stats socket {self.told} mode 600 level user\n")
        environment = {**os.environ, "PROXY_LISTEN": f"fd@{self.socket.fileno()}"}
        environment["PROXY_BASE_PATH"] = self.base_path
        if self.certificate is not None:
            environment["PROXY_TLS"] = f"ssl crt {self.certificate.both} alpn h2,http/1.1"
        for replica in replicas:
            environment[f"PROXY_REPLICA_{replica.number}"] = f"{replica.address}:{replica.port}"
        files = [str(self.configuration()), str(beside)]
        await output(program, "-c", "-f", files[0], "-f", files[1], env=environment, pass_fds=[self.socket.fileno()])
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                program, "-db", "-f", files[0], "-f", files[1], env=environment, pass_fds=[self.socket.fileno()],
                stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        # What comes in is for HAProxy alone.
        self.socket.close()
        await self.sees(*replicas)

    def configuration(self) -> Path:
        """The one in `deploy`; on a slow machine, with more time for what a fast one does at once."""
        given = REPOSITORY / "deploy" / "haproxy.cfg"
        if self.testbed.slowness == 1.0:
            return given
        longer = partial(re.sub, r"timeout (connect|queue|check) (\d+)s", lambda found: f"timeout {found[1]} {self.testbed.scaled(int(found[2])):.0f}s")
        slow = self.folder / "haproxy.cfg"
        slow.write_text(longer(given.read_text()))
        return slow

    async def states(self) -> dict[int, str]:
        """What HAProxy thinks of each replica."""
        reader, writer = await asyncio.open_unix_connection(str(self.told))
        writer.write(b"show stat\n")
        table = (await reader.read()).decode().splitlines()
        writer.close()
        names = table[0].removeprefix("# ").split(",")
        numbers = {"one": 1, "two": 2, "three": 3}
        rows = [dict(zip(names, line.split(","), strict=False)) for line in table[1:] if line]
        return {numbers[row["svname"]]: row["status"] for row in rows if row["pxname"] == "again" and row["svname"] in numbers}

    async def sees(self, *replicas: Replica) -> None:
        """Waits until HAProxy sends requests to these."""

        async def up() -> bool | None:
            with contextlib.suppress(OSError):
                states = await self.states()
                return all(states[replica.number] == "UP" for replica in replicas)
            return None

        await eventually(up, "HAProxy sees the replicas")

    async def end(self) -> None:
        self.socket.close()
        await end(self.process, signal.SIGTERM)


def service_configuration(folder: Path, provider: str, store: str, wait: float) -> dict[str, str]:
    """What a replica is told beside `deploy/companion.toml`: secrets by files, as there, and what only a test needs."""
    secrets = {"STORE_URL": store, "IDP_CLIENT_SECRET": "a-secret-of-nobody", "SECRETS_KEYS": f"one:{'A' * 43}="}
    environment = clean_environment()
    for name, value in secrets.items():
        file = folder / name.lower().replace("_", "-")
        file.touch(mode=0o600)
        file.write_text(value)
        environment[f"COMPANION_{name}_FILE"] = str(file)
    environment |= {
        "COMPANION_IDP_BASE_URL": provider,
        # The machine of the test is small, and opening connections is work.
        "COMPANION_STORE_CONNECTIONS": "8",
        # The default, unless the machine is slow.
        "COMPANION_STORE_WAIT": f"{wait * 1000:.0f}ms",
        "COMPANION_STORE_START_WAIT": "5m",
        # All clients of the test have one address, which is the system's choice.
        "COMPANION_LIMITS_EXEMPT": "127.0.0.1",
        "COMPANION_LIMITS_SIGN_INS_PER_USER": "0",
        "COMPANION_FEED_REQUESTS_PER_SECOND": "0",
        # Its default port would be taken by the first of them, or by a service that really runs here.
        "COMPANION_ADMIN_LISTEN": "off",
        "COMPANION_LOG_FILTER": os.environ.get("CLUSTER_LOG", "warn,bot_companion=info"),
    }
    return environment
