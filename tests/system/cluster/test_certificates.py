"""Shows that certbot renews the service's own certificate without one failed handshake; the authority is Pebble.

certbot runs as docs/certificates.md says, with the deploy hook of `deploy`. `make test-certificates`; what can be set:
`tests/system/cluster/run`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
import time
from collections import Counter
from pathlib import Path

from .acme import DIRECT, Authority, executable
from .replicas import Replica, service_configuration
from .testbed import PATIENCE, REPOSITORY, SLOWEST, Failed, Testbed, eventually, last_lines, output, run

RENEWALS = 2
CLIENTS = 4
REQUEST = f"GET /ready HTTP/1.1\r\nHost: {DIRECT}\r\n".encode()


class Certbot:
    """certbot with its own folders."""

    def __init__(self, authority: Authority) -> None:
        self.authority, self.folder = authority, authority.testbed.folder / "certbot"
        self.served = self.folder / "served"

    async def call(self, *arguments: str) -> None:
        assert self.authority.own is not None
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment |= {"REQUESTS_CA_BUNDLE": str(self.authority.own.chain)}
        environment |= {"BOT_COMPANION_TLS": str(self.served), "BOT_COMPANION_GROUP": str(os.getegid())}
        folders = [f"--{name}-dir={self.folder / name}" for name in ("config", "work", "logs")]
        await output(executable("certbot"), *arguments, *folders, "--non-interactive", env=environment)

    async def obtain(self) -> None:
        await self.call(
            "certonly", "--standalone", "--domain", DIRECT, "--deploy-hook", str(REPOSITORY / "deploy" / "certbot-hook"),
            "--agree-tos", "--register-unsafely-without-email", "--server", self.authority.directory,
            "--http-01-address", self.authority.names[DIRECT], "--http-01-port", str(self.authority.http_port),
        )  # fmt: skip

    async def renew(self) -> None:
        await self.call("renew", "--force-renewal", "--no-random-sleep-on-renew")

    async def serial(self) -> str:
        """The number of the certificate that the service is to use."""
        said = await output("openssl", "x509", "-noout", "-serial", "-in", str(self.served / "chain.pem"))
        return said.strip().removeprefix("serial=")


class Visitors:
    """Clients who make one TLS connection after the other, and ask something on each."""

    def __init__(self, replica: Replica, trust: ssl.SSLContext) -> None:
        self.replica, self.trust = replica, trust
        # How many handshakes each certificate had, by its number, and what failed.
        self.seen: Counter[str] = Counter()
        self.failed: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.stopping = False

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(
            self.replica.address, self.replica.port, ssl=self.trust, server_hostname=DIRECT, ssl_handshake_timeout=PATIENCE
        )

    async def visit(self) -> None:
        reader, writer = await self.connect()
        try:
            writer.write(REQUEST + b"Connection: close\r\n\r\n")
            answer = await asyncio.wait_for(reader.read(), PATIENCE)
            if not answer.startswith(b"HTTP/1.1 200 "):
                raise ValueError(f"an answer: {answer[:100]!r}")
            certificate = writer.get_extra_info("peercert")
            self.seen[certificate["serialNumber"]] += 1
        finally:
            writer.close()

    async def go_on(self) -> None:
        while not self.stopping:
            try:
                await self.visit()
            except (OSError, ValueError) as error:
                self.failed.append(f"{type(error).__name__}: {error}")

    def start(self) -> None:
        self.tasks = [asyncio.create_task(self.go_on()) for _ in range(CLIENTS)]

    async def has_seen(self, serial: str) -> None:
        async def seen() -> bool:
            return self.seen[serial] > 0

        await eventually(seen, "a handshake has the renewed certificate")

    async def stop(self) -> None:
        self.stopping = True
        await asyncio.gather(*self.tasks)


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request on a connection that stays open."""
    writer.write(REQUEST + b"\r\n")
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
    if not head.startswith(b"HTTP/1.1 200 "):
        raise Failed(f"a connection from before the renewal is not answered: {head!r}")
    fields = dict(line.lower().split(b": ", 1) for line in head.strip().split(b"\r\n")[1:])
    await asyncio.wait_for(reader.readexactly(int(fields[b"content-length"])), PATIENCE)


async def renewals(certbot: Certbot, visitors: Visitors) -> None:
    serials = [await certbot.serial()]
    await visitors.has_seen(serials[0])
    lasting = await visitors.connect()
    for _ in range(RENEWALS):
        began = time.monotonic()
        await ask(*lasting)
        await certbot.renew()
        serials.append(await certbot.serial())
        renewed = time.monotonic()
        await visitors.has_seen(serials[-1])
        print(f"renewed in {renewed - began:.1f} s, and used {time.monotonic() - renewed:.1f} s later", flush=True)
    await ask(*lasting)
    lasting[1].close()
    await visitors.stop()
    if visitors.failed:
        raise Failed(f"{len(visitors.failed)} connections failed: {'; '.join(visitors.failed[:5])}")
    if set(visitors.seen) != set(serials) or len(set(serials)) != RENEWALS + 1:
        raise Failed(f"other certificates were seen than certbot got: {visitors.seen}, {serials}")
    print(f"{RENEWALS} renewals: {visitors.seen.total()} handshakes, none failed", flush=True)


async def program() -> None:
    began = time.monotonic()
    testbed = Testbed()
    authority = Authority(testbed)
    certbot = Certbot(authority)
    replica = Replica(testbed, 1)
    replica.address, replica.scheme = authority.names[DIRECT], "https"
    visitors: Visitors | None = None
    try:
        await authority.start()
        await certbot.obtain()
        replica.environment = configuration(testbed.folder, certbot.served)
        await replica.start()
        visitors = Visitors(replica, ssl.create_default_context(cadata=authority.roots))
        visitors.start()
        await renewals(certbot, visitors)
        await replica.end()
    except Failed as failed:
        raise Failed(f"{failed}\n-- replica\n{last_lines(replica.log, 8)}\n-- authority\n{last_lines(authority.log, 8)}") from failed
    finally:
        for task in visitors.tasks if visitors else []:
            task.cancel()
        await replica.end(signal.SIGKILL)
        await authority.end()
        testbed.remove()
    print(f"{time.monotonic() - began:.0f} s in all", flush=True)


def configuration(folder: Path, served: Path) -> dict[str, str]:
    """What the service is told: the files that the hook writes, and clients who may ask as often as they like."""
    nobody = "http://127.0.0.1:9/api"
    return service_configuration(folder, nobody, f"sqlite:{folder / 'data.db'}", SLOWEST) | {
        "COMPANION_TLS_CERT": str(served / "chain.pem"),
        "COMPANION_TLS_KEY": str(served / "key.pem"),
        "COMPANION_LIMITS_EXEMPT": "127.0.0.0/8",
    }


if __name__ == "__main__":
    sys.exit(run(program))
