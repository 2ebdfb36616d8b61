"""nginx in front of the replicas."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import socket
import tempfile
from pathlib import Path

from .certificate import Certificate
from .replicas import Replica
from .testbed import REPOSITORY, Failed, Testbed, end, eventually, output


class Nginx:
    """nginx with the configuration in `deploy`, and around it only what a test needs."""

    def __init__(self, testbed: Testbed, base_path: str, certificate: Certificate) -> None:
        self.testbed, self.base_path, self.certificate = testbed, base_path, certificate
        self.folder = Path(tempfile.mkdtemp(prefix="nginx-", dir=testbed.folder))
        self.log = self.folder / "log"
        self.address, self.port = testbed.address(101), 0
        self.url = ""
        self.process: asyncio.subprocess.Process | None = None

    async def start(self, replicas: list[Replica]) -> None:
        program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
        if program is None:
            raise Failed("nginx is missing: install Debian's package `nginx`")
        # It cannot be handed a socket; but the address is this test's own, so nobody else takes the port.
        with socket.socket() as probe:
            probe.bind((self.address, 0))
            self.port = probe.getsockname()[1]
        self.url = f"https://{self.address}:{self.port}{self.base_path}"
        command = [program, "-p", str(self.folder), "-c", str(self.configuration(replicas)), "-e", str(self.log)]
        await output(*command, "-t")
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command, "-g", "daemon off;", stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
            )

        async def listens() -> bool | None:
            if self.process is None or self.process.returncode is not None:
                raise Failed("nginx has ended instead of listening")
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(self.address, self.port)
                writer.close()
                return True
            return None

        await eventually(listens, "nginx listens")

    def configuration(self, replicas: list[Replica]) -> Path:
        """The one in `deploy`, with its names replaced; on a slow machine, with more time to connect."""
        values = {
            "LISTEN": f"{self.address}:{self.port}",
            "CERTIFICATE": str(self.certificate.chain),
            "CERTIFICATE_KEY": str(self.certificate.key),
            "BASE_PATH": self.base_path,
            **{f"REPLICA_{replica.number}": f"{replica.address}:{replica.port}" for replica in replicas},
        }
        given = (REPOSITORY / "deploy" / "nginx.conf").read_text()
        site = re.sub(r"\$\{PROXY_(\w+)\}", lambda found: values[found[1]], given)
        longer = f"proxy_connect_timeout {self.testbed.scaled(1):.0f}s"
        (self.folder / "site.conf").write_text(site.replace("proxy_connect_timeout 1s", longer))
        # Written files would land here, where the test sees them.
        folders = "".join(
            f"    {name}_temp_path {self.folder}/temporary-{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        user = "user root;\n" if os.geteuid() == 0 else ""
        main = self.folder / "nginx.conf"
        main.write_text(
            f"{user}worker_processes 2;\npid {self.folder}/pid;\nerror_log {self.log} warn;\nevents {{ worker_connections 2048; }}\n"
            f"http {{\n    access_log off;\n{folders}    include {self.folder}/site.conf;\n}}\n"
        )
        return main

    async def sees(self, *replicas: Replica) -> None:
        """It does not ask the replicas; it tries one again a second after a connection was refused."""

    async def end(self) -> None:
        await end(self.process, signal.SIGTERM)
