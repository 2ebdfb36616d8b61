"""Starts the servers that the service is compared with. Each runs in its own session, so that the CPU of all its processes can
be counted."""

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from service import PATIENCE, cpu

PEERS = Path(__file__).resolve().parent / "peers"
RUNNING: list["Server"] = []


class Server:
    """A process and its URL."""

    def __init__(self, name: str, command: list[str], log: Path, url: str | None = None, **options) -> None:
        """Without `url`, the process has to print one."""
        self.name, self.log = name, log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True, **options
            )
        RUNNING.append(self)
        self.url = url or self.printed_url()
        self.answers()

    def cpu(self) -> float:
        """CPU seconds used by all its processes so far."""
        total = 0.0
        for entry in os.scandir("/proc"):
            # A process that ends meanwhile isn't part of the measurement.
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and os.getsid(int(entry.name)) == self.process.pid:
                    total += cpu(int(entry.name))
        return total

    def wait(self, what: str, look):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if found := look():
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        self.fail(f"{self.name}: {what}")

    def fail(self, why: str) -> None:
        sys.exit(f"{why}; its log:\n{self.log.read_text(errors='replace')[-3000:]}")

    def printed_url(self) -> str:
        address = re.compile(r"https?://[\d.]+:\d+")
        return self.wait("printed no URL", lambda: address.search(self.log.read_text(errors="replace")))[0]

    def answers(self) -> None:
        host, _, port = self.url.rpartition("/")[2].rpartition(":")

        def connects() -> bool:
            try:
                socket.create_connection((host, int(port)), timeout=5).close()
            except OSError:
                return False
            return True

        self.wait("does not listen", connects)

    def stop(self) -> None:
        if self in RUNNING:
            RUNNING.remove(self)
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def stop_all() -> None:
    for server in list(RUNNING):
        server.stop()


def recorded(name: str, folder: Path, head: bytes, body: bytes) -> Server:
    """`bare-hyper` or `floor`, with one recorded response."""
    files = folder / f"{name}.head", folder / f"{name}.body"
    files[0].write_bytes(head)
    files[1].write_bytes(body)
    program = str(Path(os.environ["BENCH_BINARIES"]) / name)
    return Server(name, [program, "127.0.0.1:0", str(files[1]), str(files[0])], folder / f"{name}.log")


def peer(name: str, folder: Path, data: Path) -> Server:
    log = folder / f"{name}.log"
    if name == "fastify":
        return Server(name, ["node", str(PEERS / "fastify" / "server.js"), str(data)], log)
    if name == "go":
        return Server(name, [os.environ["BENCH_GO"], str(data)], log)
    command = [os.environ["BENCH_UVICORN"], "server:app", "--host", "127.0.0.1", "--port", "0", "--no-access-log"]
    command += ["--workers", str(os.cpu_count()), "--loop", "uvloop", "--http", "httptools"]
    return Server(name, command, log, cwd=PEERS / "fastapi", env=os.environ | {"DATA_FILE": str(data)})


class Nginx:
    """Static files with the headers of the service's responses, at `url` and with TLS at `tls`."""

    # Headers that nginx sends itself.
    OWN = {"content-length", "content-type", "date", "connection", "content-encoding", "vary"}

    def __init__(self, folder: Path, certificate: tuple[Path, Path]) -> None:
        program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
        if program is None:
            sys.exit("nginx is missing: install the package `nginx`")
        self.program, self.folder, self.certificate = program, folder / "nginx", certificate
        self.folder.mkdir()
        # If root starts nginx, its workers run as another user.
        for each in (folder, self.folder):
            each.chmod(0o755)
        self.locations: list[str] = []
        self.server: Server | None = None

    def add(self, head: bytes, body: bytes, compressed: bytes | None = None) -> str:
        """The path where this response will be served."""
        name = f"answer-{len(self.locations)}.json"
        (self.folder / name).write_bytes(body)
        if compressed is not None:
            (self.folder / f"{name}.gz").write_bytes(compressed)
        lines = [line.partition(": ") for line in head.decode().split("\r\n")[1:] if line]
        quoted = ((name, value.replace("\\", "\\\\").replace('"', '\\"')) for name, _, value in lines)
        headers = "".join(f'add_header {name} "{value}";\n' for name, value in quoted if name.lower() not in self.OWN)
        zipped = "gzip_static on; gzip_vary on;" if compressed is not None else ""
        # An empty value removes the header that nginx would send.
        headers += 'add_header Last-Modified "";\n'
        self.locations.append(f"location = /{name} {{ {zipped}\n{headers} }}")
        return f"/{name}"

    def start(self) -> Server:
        # nginx can't be handed a socket. But hardly anything else uses this loopback address, so the ports stay free.
        address = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}.1"
        with socket.socket() as first, socket.socket() as second:
            ports = []
            for probe in (first, second):
                probe.bind((address, 0))
                ports.append(probe.getsockname()[1])
        self.url, self.tls = f"http://{address}:{ports[0]}", f"https://{address}:{ports[1]}"
        temporary = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        folders = "".join(f"{name}_temp_path {self.folder}/temporary-{name};\n" for name in temporary)
        chain, key = self.certificate
        locations = "\n".join(self.locations)
        (self.folder / "nginx.conf").write_text(f"""
{"user root;" if os.geteuid() == 0 else ""}
daemon off;
worker_processes auto;
pid {self.folder}/pid;
error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
    {folders}
    access_log off;
    default_type application/json;
    sendfile on;
    tcp_nopush on;
    tcp_nodelay on;
    keepalive_timeout 75s;
    keepalive_requests 1000000000;
    open_file_cache max=1000 inactive=60s;
    open_file_cache_valid 60s;
    etag off;
    if_modified_since off;
    max_ranges 0;
    server_tokens off;
    ssl_certificate {chain};
    ssl_certificate_key {key};
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_session_cache shared:tls:10m;
    server {{
        listen {address}:{ports[0]} reuseport backlog=4096;
        listen {address}:{ports[1]} reuseport backlog=4096 ssl http2;
        root {self.folder};
        {locations}
    }}
}}
""")
        command = [self.program, "-p", str(self.folder), "-c", str(self.folder / "nginx.conf"), "-e", "stderr"]
        self.server = Server("nginx", command, self.folder / "log", url=self.url)
        return self.server
