"""nginx and HAProxy with the configurations in `deploy`, in front of one service that stands for all three replicas."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from secure import certificate
from service import NO_ANSWER, REPOSITORY, Failed, Service, bootstrap, eventually


def installed(name: str) -> str:
    """The path of this program. Debian installs it outside an ordinary user's PATH."""
    bootstrap(f'PATH="$PATH:/usr/sbin"; need_program {name}; echo there')
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    if found is None:
        raise Failed(f"{name} is missing: install Debian's package `{name}`")
    return found


def replicas(service: Service) -> dict[str, str]:
    address = urllib.parse.urlsplit(service.url).netloc
    return {f"REPLICA_{number}": address for number in (1, 2, 3)}


@contextmanager
def started(command: list[str], log: Path, address: tuple[str, int], **options: object) -> Iterator[None]:
    """A program from the time when it accepts connections."""
    with log.open("ab") as written:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=written, stderr=written, **options)  # type: ignore[call-overload]

    def listening() -> bool:
        if process.poll() is not None:
            raise Failed(f"{command[0]} ended instead of listening:\n{log.read_text()[-2000:]}")
        try:
            socket.create_connection(address, 5).close()
        except OSError:
            return False
        return True

    try:
        eventually(listening, f"{command[0]} listens")
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(address: tuple[str, int], trust: ssl.SSLContext | None) -> bool:
    """Whether a read gets through to the service."""
    connection = http.client.HTTPSConnection(*address, context=trust, timeout=5) if trust else http.client.HTTPConnection(*address, timeout=5)
    try:
        connection.request("GET", "/team")
        return connection.getresponse().status == 200
    except NO_ANSWER:
        return False
    finally:
        connection.close()


@contextmanager
def haproxy(folder: Path, service: Service) -> Iterator[tuple[str, int]]:
    """Returns its address."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        # It is handed the open socket, so nobody else can take the port.
        address = listener.getsockname()
        values = {"LISTEN": f"fd@{listener.fileno()}", "BASE_PATH": "", **replicas(service)}
        environment = {**os.environ, **{f"PROXY_{name}": value for name, value in values.items()}}
        command = [installed("haproxy"), "-db", "-f", str(REPOSITORY / "deploy" / "haproxy.cfg")]
        with started(command, folder / "haproxy.log", address, env=environment, pass_fds=[listener.fileno()]):
            eventually(lambda: answers(address, None), "HAProxy sees the replicas")
            yield address


@contextmanager
def nginx(folder: Path, service: Service) -> Iterator[tuple[tuple[str, int], ssl.SSLContext]]:
    """Returns its address and which address to trust."""
    chain, key = certificate(folder, "127.0.0.1")
    # It can't be handed a socket, so another program could take the port in between; then the start fails.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = probe.getsockname()
    values = {"LISTEN": f"{address[0]}:{address[1]}", "CERTIFICATE": str(chain), "CERTIFICATE_KEY": str(key), "BASE_PATH": "", **replicas(service)}
    site = re.sub(r"\$\{PROXY_(\w+)\}", lambda found: values[found[1]], (REPOSITORY / "deploy" / "nginx.conf").read_text())
    (folder / "site.conf").write_text(site)
    kept = "".join(f"{name}_temp_path {folder}/temporary-{name}; " for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    user = "user root;\n" if os.geteuid() == 0 else ""
    main, log = folder / "nginx.conf", folder / "nginx.log"
    main.write_text(
        f"{user}worker_processes 1;\npid {folder}/nginx.pid;\nerror_log {log} warn;\nevents {{ worker_connections 2048; }}\n"
        f"http {{ access_log off; {kept} include {folder}/site.conf; }}\n"
    )
    command = [installed("nginx"), "-p", str(folder), "-c", str(main), "-e", str(log), "-g", "daemon off;"]
    trust = ssl.create_default_context(cafile=str(chain))
    with started(command, log, address):
        eventually(lambda: answers(address, trust), "nginx answers")
        yield address, trust
