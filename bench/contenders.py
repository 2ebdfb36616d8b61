"""Starts the servers that are measured. Each runs in a session of its own, so that the CPU of all its processes can be counted."""

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import bot

PATIENCE = 60.0
PEERS = Path(__file__).resolve().parent / "peers"
SECRETS_KEY = f"one:{'A' * 43}="
RUNNING: list["Server"] = []


class Server:
    """A process, and where it answers."""

    def __init__(self, name: str, command: list[str], log: Path, url: str | None = None, **options) -> None:
        """Without `url`, it prints one."""
        self.name, self.log = name, log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True, **options
            )
        RUNNING.append(self)
        self.url = url or self.printed_url()
        self.answers()

    @property
    def session(self) -> int:
        return self.process.pid

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


class Service:
    """The service with its own store: one process of `serve`, as in production. Limits are raised, not switched off, because what
    they cost is part of the service."""

    def __init__(self, binary: str, folder: Path, provider: str, name: str = "service") -> None:
        self.binary, self.folder, self.name = binary, folder, name
        folder.mkdir()
        kept = ("PATH", "HOME", "TMPDIR", "LANG")
        self.environment = {name: os.environ[name] for name in kept if name in os.environ} | {
            "COMPANION_HTTP_LISTEN": "127.0.0.1:0",
            "COMPANION_HTTP_ALLOWED_ORIGINS": "http://localhost:3000",
            "COMPANION_ADMIN_LISTEN": "off",
            "COMPANION_STORE_URL": f"sqlite:{folder}/companion.db",
            "COMPANION_SECRETS_KEYS": SECRETS_KEY,
            "COMPANION_IDP_BASE_URL": provider,
            "COMPANION_IDP_CLIENT_ID": "1",
            "COMPANION_IDP_CLIENT_SECRET": "nobody's",
            "COMPANION_IDP_REDIRECT_URI": "http://localhost:3000/callback",
            "COMPANION_LIMITS_REQUESTS_PER_SECOND": "1000000",
            "COMPANION_LIMITS_REQUESTS_BURST": "1000000",
            "COMPANION_LIMITS_SIGN_INS_PER_USER": "1000000",
            "COMPANION_LOG_FILTER": "warn,bot_companion=info",
        }
        self.key = json.loads(self.command("key", "create", "--label", "bench", "--json"))["key"]
        (folder / "team.json").write_text(json.dumps({"members": bot.team()}))
        self.command("team", "import", str(folder / "team.json"))
        self.server: Server | None = None

    def command(self, *arguments: str) -> str:
        done = subprocess.run(
            [self.binary, *arguments], env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=300
        )
        if done.returncode != 0:
            sys.exit(f"bot-companion {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def import_feedback(self, count: int) -> float:
        """Sends the entries through a pipe: as a file, 10 million would take 2 GB. How many seconds it took."""
        began = time.monotonic()
        importing = subprocess.Popen(
            [self.binary, "feedback", "import", "/dev/stdin"],
            env=self.environment, cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        for first in range(0, count, 1000):
            importing.stdin.write("".join(bot.feedback(number) for number in range(first, min(first + 1000, count))))
        said, _ = importing.communicate()
        if importing.returncode != 0:
            sys.exit(f"the feedback was not imported: {said}")
        return time.monotonic() - began

    def start(self, **more: str) -> Server:
        server = Server(self.name, [self.binary, "serve"], self.folder / "log", env=self.environment | more, cwd=self.folder)
        self.server = server
        return server

    def feed(self) -> bot.Bot:
        fed = bot.Bot(self.server.url, self.key)
        fed.report()
        fed.live()
        return fed


def sign_in(url: str, code: str) -> str:
    request = urllib.request.Request(f"{url}/auth", method="POST", headers={"Idp-Code": code})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["data"]["token"]
    except urllib.error.HTTPError as error:
        sys.exit(f"nobody could sign in: {error} {error.read().decode()}")


def provider(folder: Path) -> Server:
    return Server("provider", [binary("instant-provider"), "127.0.0.1:0"], folder / "provider.log")


def binary(name: str) -> str:
    return str(Path(os.environ["BENCH_BINARIES"]) / name)


def recorded(name: str, folder: Path, body: Path, head: Path) -> Server:
    """`bare-hyper` or `floor`, with one recorded answer."""
    return Server(name, [binary(name), "127.0.0.1:0", str(body), str(head)], folder / f"{name}.log")


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
    """Static files with the headers of the service's answers, at `url` and with TLS at `tls`."""

    # What it sends by itself.
    OWN = {"content-length", "content-type", "date", "connection", "content-encoding", "vary"}

    def __init__(self, folder: Path, certificate: tuple[Path, Path]) -> None:
        program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
        if program is None:
            sys.exit("nginx is missing: install the package `nginx`")
        self.program, self.folder, self.certificate = program, folder / "nginx", certificate
        self.folder.mkdir()
        # Worker processes run as another user where root starts nginx.
        for each in (folder, self.folder):
            each.chmod(0o755)
        self.locations: list[str] = []
        self.server: Server | None = None

    def add(self, head: bytes, body: bytes, compressed: bytes | None = None) -> str:
        """The path at which this answer will be served."""
        name = f"answer-{len(self.locations)}.json"
        (self.folder / name).write_bytes(body)
        if compressed is not None:
            (self.folder / f"{name}.gz").write_bytes(compressed)
        lines = [line.partition(": ") for line in head.decode().split("\r\n")[1:] if line]
        headers = "".join(f"add_header {name} '{value}';\n" for name, _, value in lines if name.lower() not in self.OWN)
        zipped = "gzip_static on; gzip_vary on;" if compressed is not None else ""
        self.locations.append(f"location = /{name} {{ {zipped}\n{headers} }}")
        return f"/{name}"

    def start(self) -> Server:
        # It can't be handed a socket. But few others use this loopback address, so the ports stay free.
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
