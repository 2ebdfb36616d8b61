"""What the fault scenarios share: the service in a process that can be killed and started again, a provider that answers at once, a bot, and
a small HTTP client.

    BOT_COMPANION  a binary to test in place of the release build
    FAULTS_QUICK   set: the bounded version of a scenario
    FAULTS_KEEP    set: the folder with logs and data stays
"""

from __future__ import annotations

import functools
import http.client
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
REPOSITORY = Path(__file__).resolve().parents[2]
QUICK = bool(os.environ.get("FAULTS_QUICK"))
# Only a failing scenario waits this long.
PATIENCE = 60.0
# Raised by a request that got no response.
NO_ANSWER = (OSError, http.client.HTTPException)


class Failed(Exception):
    """A promise was broken, or the scenario couldn't be set up."""


def count(variable: str, full: int, quick: int) -> int:
    """How often to do something: what the variable says, else the number for this kind of run."""
    return int(os.environ.get(variable) or (quick if QUICK else full))


def eventually(condition: Callable[[], T | None], what: str, patience: float = PATIENCE) -> T:
    """Waits until the condition returns something."""
    end = time.monotonic() + patience
    while True:
        found = condition()
        if found is not None and found is not False:
            return found
        if time.monotonic() > end:
            raise Failed(f"after {patience:.0f} s this is still not so: {what}")
        time.sleep(0.02)


def measured(tried: str, lost: str) -> None:
    """The last line of a scenario, which the runner puts into its table."""
    print(f"measured: {tried} | {lost}", flush=True)


def skip(why: str) -> NoReturn:
    """Ends a scenario that can't run on this machine."""
    measured(f"skipped: {why}", "")
    sys.exit(0)


def run(scenario: Callable[[Path], None], on_disk: bool = False) -> NoReturn:
    """Runs a scenario in its own folder, in memory where that is possible, and says what broke."""
    parent = tempfile.gettempdir()
    if not on_disk:
        parent = subprocess.check_output([REPOSITORY / "scripts" / "test-folder", parent], text=True).strip()
    folder = Path(tempfile.mkdtemp(prefix="companion-faults-", dir=parent))
    # Ends with an exception, so that everything that was started is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    code = 0
    try:
        scenario(folder)
    except Failed as failed:
        print(f"broken: {failed}", file=sys.stderr, flush=True)
        code = 1
    finally:
        if os.environ.get("FAULTS_KEEP"):
            print(f"logs and data are in {folder}", file=sys.stderr, flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(code)


def bootstrap(script: str) -> str:
    """The last line that a few commands print which use scripts/bootstrap.sh."""
    lines = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"source scripts/bootstrap.sh; {script}"], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True
    )  # fmt: skip
    return lines.stdout.strip().splitlines()[-1]


@functools.cache
def binary() -> str:
    return bootstrap('build_service --release >&2; echo "$BOT_COMPANION"')


def clean_environment() -> dict[str, str]:
    """The environment without the configuration that the shell may have for another service."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COMPANION_")}


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def data(self) -> Any:
        """The envelope's `data`. The status must be the envelope's own."""
        try:
            envelope = json.loads(self.body)
            if envelope["code"] == self.status:
                return envelope["data"]
        except (ValueError, LookupError, TypeError):
            pass
        raise Failed(f"not the envelope: {self.status} {self.body[:200]!r}")

    @property
    def error(self) -> str:
        """The stable code of an error; empty for a success."""
        return "" if self.status < 400 else str(self.data["error"])

    def __str__(self) -> str:
        return f"{self.status} {self.body[:300].decode(errors='replace')}"


class Client:
    """One connection, opened when it is needed. A request is sent once: if no answer comes, that is one of NO_ANSWER."""

    def __init__(self, url: str, timeout: float = PATIENCE) -> None:
        parts = urllib.parse.urlsplit(url)
        self.connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=timeout)
        self.path = parts.path

    def call(self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | str | None = None) -> Answer:
        try:
            self.connection.request(method, self.path + path, body=body, headers=dict(headers or {}))
            response = self.connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        except NO_ANSWER:
            self.connection.close()
            raise

    def get(self, path: str, token: str = "") -> Answer:
        return self.call("GET", path, {"Token": token} if token else {})

    def sign_in(self, person: int) -> Answer:
        return self.call("POST", "/auth", {"Idp-Code": f"{person}.{secrets.token_hex(8)}"})

    def close(self) -> None:
        self.connection.close()


class Provider:
    """The identity provider, as far as the service needs it, in threads of this process. A code is the number of a person, a dot, and
    anything: `7.first`. Others are refused. Everyone is in all `guilds`.

    `fault` may answer a request itself: it gets the handler and the path, and returns True if it has."""

    def __init__(self, guilds: list[int] | None = None) -> None:
        self.guilds = guilds or []
        self.calls: dict[str, int] = {}
        self.fault: Callable[[BaseHTTPRequestHandler, str], bool] | None = None
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Sends headers and body together, so that no delayed ACK slows a sign-in down.
            wbufsize = -1
            disable_nagle_algorithm = True

            def handle_one_request(self) -> None:
                with suppress(OSError):
                    return super().handle_one_request()
                self.close_connection = True

            def do_GET(self) -> None:
                provider.answer(self)

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 1024

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/api"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        path = handler.path.removeprefix("/api")
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0)).decode()
        self.calls[path] = self.calls.get(path, 0) + 1
        if self.fault is not None and self.fault(handler, path):
            return
        status, value = self.value(path, body, str(handler.headers.get("Authorization")))
        reply(handler, status, json.dumps(value).encode())

    def value(self, path: str, body: str, authorization: str) -> tuple[int, Any]:
        if path == "/oauth2/token":
            form = urllib.parse.parse_qs(body)
            code = form.get("code", [""])[0] or form.get("refresh_token", [""])[0].removeprefix("r-")
            if not code.partition(".")[0].isdigit():
                return 400, {"error": "invalid_grant"}
            life = {"token_type": "Bearer", "expires_in": 604800, "scope": "identify guilds"}
            return 200, {"access_token": f"a-{code}", "refresh_token": f"r-{code}", **life}
        if path == "/oauth2/token/revoke":
            return 200, {}
        number = authorization.removeprefix("Bearer a-").partition(".")[0]
        if path == "/users/@me" and number.isdigit():
            return 200, {"id": str(user_id(int(number))), "username": f"person{number}", "global_name": None, "avatar": None}
        if path == "/users/@me/guilds" and number.isdigit():
            return 200, [{"id": str(guild), "name": "x", "owner": False, "permissions": "0"} for guild in self.guilds]
        return 401, {"message": "401: Unauthorized", "code": 0}


def reply(handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    handler.send_response(status)
    for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def user_id(person: int) -> int:
    """Spread as the provider's IDs are."""
    return (1_000_000 + person) << 22


@dataclass
class Service:
    """`serve` on a SQLite file in `data`, with limits that don't count this machine's clients. It can be started over and over on the same
    data. `configuration` are lines of TOML with whole names: `limits.connections = 10`."""

    folder: Path
    provider: Provider | None = None
    data: Path | None = None
    configuration: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    # A program that starts the service, like prlimit.
    wrapper: list[str] = field(default_factory=list)
    limits: bool = False
    process: subprocess.Popen[bytes] | None = None
    url: str = ""
    admin: str = ""
    key: str = ""

    def __post_init__(self) -> None:
        self.data = self.data or self.folder / "data"
        self.data.mkdir(exist_ok=True)
        self.log = self.folder / "service.log"
        self.config = self.folder / "companion.toml"

    @property
    def database(self) -> Path:
        assert self.data is not None
        return self.data / "companion.db"

    def write_config(self) -> None:
        no_limits = 'limits.exempt = ["127.0.0.0/8"]\nlimits.sign_ins_per_user = 0\nfeed.requests_per_second = 0\n'
        self.config.touch(mode=0o600)
        self.config.write_text(
            f'store.url = "sqlite:{self.database}"\n'
            f'idp.base_url = "{self.provider.url if self.provider else "http://127.0.0.1:9"}"\n'
            'idp.client_id = "faults"\nidp.client_secret = "a-secret-of-nobody"\n'
            'http.allowed_origins = ["https://dashboard.example"]\nidp.redirect_uri = "https://dashboard.example/callback"\n'
            'admin.listen = "127.0.0.1:0"\nlog.filter = "warn,bot_companion=info"\n' + ("" if self.limits else no_limits) + self.configuration
        )  # fmt: skip

    def command(self, *arguments: str, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
        """Runs another command of the binary with the service's configuration."""
        self.write_config()
        return subprocess.run(
            [binary(), *arguments, "--config", str(self.config)], env=clean_environment(), text=True, capture_output=True, timeout=timeout, check=False
        )  # fmt: skip

    def create_key(self) -> str:
        made = self.command("key", "create", "--label", "faults", "--json")
        if made.returncode != 0:
            raise Failed(f"no key could be made: {made.stderr}")
        self.key = json.loads(made.stdout)["key"]
        return self.key

    def spawn(self) -> None:
        """Starts the process and doesn't wait for it."""
        self.write_config()
        self.listen_from = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.wrapper, binary(), "serve", "--config", str(self.config), "--listen", "127.0.0.1:0"],
                env={**clean_environment(), **self.environment}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def logged(self) -> str:
        """What it has logged since it was last started."""
        with self.log.open("rb") as log:
            log.seek(self.listen_from)
            return log.read().decode(errors="replace")

    def start(self) -> None:
        self.spawn()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        def listening() -> bool:
            found = re.search(r"listening on (https?://[^ ]*:\d+)/", logged := self.logged())
            admin = re.search(r"metrics and health are on (http://[^ ]*:\d+)/", logged)
            if found is None or admin is None:
                if not self.running():
                    raise Failed(f"the service ended instead of listening:\n{logged[-2000:]}")
                return False
            self.url, self.admin = found[1], admin[1]
            return True

        eventually(listening, "the service listens")

        def ready() -> bool:
            with suppress(*NO_ANSWER), self.client() as client:
                return client.get("/ready").status == 200
            return False

        eventually(ready, "the service is ready")

    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def ended(self, patience: float = PATIENCE) -> int:
        """Waits until the process ends by itself; returns its exit code."""
        assert self.process is not None
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            raise Failed(f"the service did not end within {patience:.0f} s") from None

    def kill(self) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        """Asks it to stop, and sees that it does so cleanly."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        code = self.ended()
        if code != 0:
            raise Failed(f"the service ended with {code}:\n{self.logged()[-2000:]}")

    @contextmanager
    def client(self, timeout: float = PATIENCE) -> Iterator[Client]:
        client = Client(self.url, timeout)
        try:
            yield client
        finally:
            client.close()

    def health(self) -> tuple[int, Any]:
        """What the admin listener says of the store, the provider and the bot."""
        client = Client(self.admin)
        try:
            answer = client.get("/health")
        finally:
            client.close()
        return answer.status, json.loads(answer.body)

    def metric(self, name: str) -> float:
        """The sum of a metric over all its labels."""
        client = Client(self.admin)
        try:
            text = client.get("/metrics").body.decode()
        finally:
            client.close()
        values = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? ([^ \n]+)", text, re.MULTILINE)
        if not values:
            raise Failed(f"there is no metric {name}")
        return sum(float(value) for value in values)

    def resident(self) -> int:
        """Bytes of memory that the process has."""
        assert self.process is not None
        found = re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text(), re.MULTILINE)
        return int(found[1]) * 1024 if found else 0

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Dev(Service):
    """`dev`, with its sandbox as provider and its demonstration data."""

    sandbox = ""

    def spawn(self) -> None:
        self.listen_from = self.log.stat().st_size if self.log.exists() else 0
        self.said = self.folder / "dev.json"
        with self.log.open("ab") as log, self.said.open("wb") as said:
            self.process = subprocess.Popen(
                [*self.wrapper, binary(), "dev", "--json", *([] if self.limits else ["--no-limits"]), "--listen", "127.0.0.1:0", "--data", str(self.data)],
                env={**clean_environment(), **self.environment}, stdin=subprocess.DEVNULL, stdout=said, stderr=log,
            )  # fmt: skip

    def wait_until_ready(self) -> None:
        def said() -> dict[str, str] | None:
            if not (text := self.said.read_text()).endswith("\n"):
                if not self.running():
                    raise Failed(f"the service ended instead of listening:\n{self.logged()[-2000:]}")
                return None
            return dict(json.loads(text))

        line = eventually(said, "the service listens")
        self.url, self.admin, self.sandbox, self.key = line["service"], line["admin"], line["sandbox"], line["bot_key"]


class Bot:
    """A bot with one shard. It numbers its events; one that got no answer is sent again under its number."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.instance = f"bot-{secrets.token_hex(8)}"
        self.started = time.time()
        self.next = 1

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.service.key}", "Feed-Instance": self.instance, "Feed-Sequence": str(self.next)}

    def heartbeat(self, client: Client) -> Answer:
        shard = {"id": 0, "sent_ms_ago": 1000, "acknowledged_ms_ago": 950, "latency": 50}
        whole = {"instance": self.instance, "started_at": self.started, "memory": 50_000_000, "shard_count": 1, "shards": [shard]}
        return client.call("PUT", "/bot/heartbeat", {"Authorization": f"Bearer {self.service.key}"}, json.dumps(whole))

    def snapshot(self, client: Client, guilds: list[dict[str, Any]]) -> Answer:
        lines = [*guilds, {"end": len(guilds)}]
        return client.call("PUT", "/bot/shards/1/0/guilds", self.headers(), ndjson(lines))

    def events(self, client: Client, events: list[dict[str, Any]]) -> Answer:
        answer = client.call("POST", "/bot/events", self.headers(), ndjson(events))
        if answer.status == 200:
            self.next = answer.data["next"]
        return answer


def ndjson(lines: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


def guild(id: int, name: str) -> dict[str, Any]:
    return {"id": str(id), "name": name, "icon": None, "owner": str(user_id(0)), "members": 5, "setup": True, "linked": False}
