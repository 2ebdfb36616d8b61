"""Pebble, a certificate authority with ACME, and its name server; Caddy and certbot, which get their certificates from it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import tempfile
from pathlib import Path

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from .certificate import Certificate
from .replicas import Replica
from .testbed import REPOSITORY, Failed, Testbed, end, eventually, last_lines, output

# Names that lead to addresses of the test: to Caddy, to a second one, and to the service itself.
PROXIED, SPARE, DIRECT = "proxied.companion.example", "spare.companion.example", "direct.companion.example"


def executable(name: str) -> str:
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    if found is None:
        package = name.partition("-")[0]
        raise Failed(f"{name} is missing: install Debian's package `{package}`")
    return found


def free_ports(count: int, *addresses: str) -> list[int]:
    """Ports that are free at all of these addresses. The addresses are the test's own, so nobody else takes them."""
    found: list[int] = []
    with contextlib.ExitStack() as probes:
        while len(found) < count:
            port = 0
            with contextlib.suppress(OSError):
                for address in addresses:
                    probe = probes.enter_context(socket.socket())
                    probe.bind((address, port))
                    port = probe.getsockname()[1]
                found.append(port)
    return found


class Names(AbstractResolver):
    """Finds the test's own names, and no others."""

    def __init__(self, addresses: dict[str, str]) -> None:
        self.addresses = addresses

    async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET) -> list[ResolveResult]:
        if host not in self.addresses:
            raise OSError(f"nobody is called {host}")
        found = {"hostname": host, "host": self.addresses[host], "port": port, "family": socket.AF_INET, "proto": 0}
        return [ResolveResult(**found, flags=socket.AI_NUMERICHOST)]  # type: ignore[typeddict-item]

    async def close(self) -> None:
        pass


class Authority:
    """Pebble, which checks for itself that a name leads to who asks for its certificate, and a name server for it."""

    def __init__(self, testbed: Testbed) -> None:
        self.testbed = testbed
        self.folder = Path(tempfile.mkdtemp(prefix="pebble-", dir=testbed.folder))
        self.log = self.folder / "log"
        self.address = testbed.address(210)
        self.names = {PROXIED: testbed.address(102), SPARE: testbed.address(103), DIRECT: testbed.address(104)}
        # Where it looks for the answer to a challenge, at every name.
        self.http_port, self.tls_port = free_ports(2, *self.names.values())
        self.directory = self.roots = ""
        self.processes: list[asyncio.subprocess.Process] = []
        self.own: Certificate | None = None

    async def start(self) -> None:
        names, manage, directory, management = free_ports(4, self.address)
        self.directory = f"https://{self.address}:{directory}/dir"
        self.own = await Certificate.make(self.folder, [self.address])
        configuration = {
            "listenAddress": f"{self.address}:{directory}",
            "managementListenAddress": f"{self.address}:{management}",
            "certificate": str(self.own.chain),
            "privateKey": str(self.own.key),
            "httpPort": self.http_port,
            "tlsPort": self.tls_port,
        }
        (self.folder / "pebble.json").write_text(json.dumps({"pebble": configuration}))
        await self.run(
            "pebble-challtestsrv", "-dns01", f"{self.address}:{names}", "-management", f"{self.address}:{manage}",
            "-http01", "", "-https01", "", "-tlsalpn01", "", "-defaultIPv6", "",
        )  # fmt: skip
        await self.run("pebble", "-config", str(self.folder / "pebble.json"), "-dnsserver", f"{self.address}:{names}")
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=self.own.trust())) as client:
            for name, address in self.names.items():
                told = {"host": f"{name}.", "addresses": [address]}
                await self.ask(client, "POST", f"http://{self.address}:{manage}/add-a", json.dumps(told))
            await self.ask(client, "GET", self.directory)
            self.roots = await self.ask(client, "GET", f"https://{self.address}:{management}/roots/0")

    async def run(self, name: str, *arguments: str) -> None:
        with self.log.open("ab") as log:
            # It would wait before it looks, for as long as it likes.
            environment = {**os.environ, "PEBBLE_VA_NOSLEEP": "1"}
            started = await asyncio.create_subprocess_exec(
                executable(name), *arguments, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.processes.append(started)

    async def ask(self, client: aiohttp.ClientSession, method: str, url: str, body: str | None = None) -> str:
        """What it answers, once it answers."""

        async def answer() -> str | None:
            if any(process.returncode is not None for process in self.processes):
                raise Failed(f"Pebble has ended:\n{last_lines(self.log)}")
            with contextlib.suppress(aiohttp.ClientConnectionError):
                async with client.request(method, url, data=body) as response:
                    return await response.text() or "nothing" if response.status == 200 else None
            return None

        return await eventually(answer, f"{url} answers")

    def trusted_by(self, context: ssl.SSLContext) -> None:
        """Clients with this context trust what it signs."""
        context.load_verify_locations(cadata=self.roots)

    async def end(self) -> None:
        for process in self.processes:
            await end(process, signal.SIGKILL)


class Caddy:
    """Caddy with the configuration in `deploy`, and in it only what a test needs: ports, the authority, and no admin address."""

    def __init__(self, testbed: Testbed, base_path: str, authority: Authority, name: str = PROXIED) -> None:
        self.testbed, self.base_path, self.authority, self.name = testbed, base_path, authority, name
        self.folder = Path(tempfile.mkdtemp(prefix="caddy-", dir=testbed.folder))
        self.log = self.folder / "log"
        self.url = f"https://{name}:{authority.tls_port}{base_path}"
        self.process: asyncio.subprocess.Process | None = None

    async def start(self, replicas: list[Replica]) -> None:
        # What it keeps, its certificates included.
        environment = {**os.environ, "HOME": str(self.folder), "XDG_DATA_HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder)}
        environment |= {"PROXY_NAME": self.name, "PROXY_BASE_PATH": self.base_path}
        environment |= {f"PROXY_REPLICA_{replica.number}": f"{replica.address}:{replica.port}" for replica in replicas}
        command = [executable("caddy"), "run", "--adapter", "caddyfile", "--config", str(self.configuration())]
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
            )

        async def has_certificate() -> bool | None:
            if self.process is None or self.process.returncode is not None:
                raise Failed(f"Caddy has ended:\n{last_lines(self.log)}")
            with contextlib.suppress(OSError):
                trust = ssl.create_default_context(cadata=self.authority.roots)
                address = self.authority.names[self.name]
                _, writer = await asyncio.open_connection(address, self.authority.tls_port, ssl=trust, server_hostname=self.name)
                writer.close()
                return True
            return None

        await eventually(has_certificate, "Caddy has a certificate of the authority")

    def configuration(self) -> Path:
        """The one in `deploy`; on a slow machine, with more time for what a fast one does at once."""
        assert self.authority.own is not None
        given = (REPOSITORY / "deploy" / "Caddyfile").read_text()
        added = (
            "{\n\tadmin off\n"
            f"\tdefault_bind {self.authority.names[self.name]}\n"
            f"\thttp_port {self.authority.http_port}\n\thttps_port {self.authority.tls_port}\n"
            f"\tacme_ca {self.authority.directory}\n\tacme_ca_root {self.authority.own.chain}\n"
        )
        # The first line with a brace alone begins the options.
        options, begun, rest = given.partition("\n{\n")
        if not begun:
            raise Failed("deploy/Caddyfile has no options")
        text = f"{options}\n{added}{rest}"
        for name in ("dial_timeout", "health_timeout"):
            text = text.replace(f"{name} 1s", f"{name} {self.testbed.scaled(1):.0f}s")
        path = self.folder / "Caddyfile"
        path.write_text(text)
        return path

    async def sees(self, *replicas: Replica) -> None:
        """It asks each replica four times per second, and tries others meanwhile."""

    async def end(self) -> None:
        await end(self.process, signal.SIGTERM)
