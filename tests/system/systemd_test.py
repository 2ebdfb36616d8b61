"""`systemd_test.py SERVICE FOLDER`: does to the service what systemd does: opens its sockets, listens to what it says, restarts it."""

from __future__ import annotations

import ctypes
import fcntl
import http.client
import os
import re
import signal
import socket
import sys
import threading
import time
from pathlib import Path

BINARY, FOLDER = sys.argv[1], Path(sys.argv[2])
# Only a failing test waits this long.
DEADLINE = 300
RESTARTS = 5
CLIENTS = 8
WATCHDOG = 1.0
# From linux/ptrace.h and linux/wait.h.
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000


class Manager:
    """The socket on which the service tells how it does."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + name[1:] if name.startswith("@") else name)

    def told(self, wanted: str) -> list[str]:
        """Waits for a message that begins like this, and gives it with those before it."""
        said = []
        self.socket.settimeout(DEADLINE)
        while not said or not said[-1].startswith(wanted):
            said.append(self.socket.recv(4096).decode())
        return said

    def is_silent(self, seconds: float) -> bool:
        self.socket.settimeout(seconds)
        try:
            self.socket.recv(4096)
        except TimeoutError:
            return True
        return False


class Service:
    """A process that has got its sockets from this one."""

    def __init__(self, sockets: dict[str, socket.socket], manager: Manager) -> None:
        # Above the descriptors that the service gets, so that none is overwritten before it is copied.
        copies = [fcntl.fcntl(each.fileno(), fcntl.F_DUPFD_CLOEXEC, 32) for each in sockets.values()]
        actions: list[tuple[int, ...]] = [(os.POSIX_SPAWN_DUP2, copy, 3 + index) for index, copy in enumerate(copies)]
        log = os.open(FOLDER / "service.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        actions.append((os.POSIX_SPAWN_DUP2, log, 2))
        environment = {
            "LISTEN_FDS": str(len(sockets)),
            "LISTEN_FDNAMES": ":".join(sockets),
            "NOTIFY_SOCKET": manager.name,
            "WATCHDOG_USEC": str(int(WATCHDOG * 1_000_000)),
        }
        command = [BINARY, "serve", "--config", str(FOLDER / "companion.toml")]
        # The shell becomes the service, so their ids are the same.
        script = 'LISTEN_PID=$$ WATCHDOG_PID=$$ exec "$@"'
        shell = ["sh", "-c", script, "sh", *command]
        self.id = os.posix_spawn("/bin/sh", shell, environment, file_actions=actions)
        for each in (*copies, log):
            os.close(each)

    def stop(self) -> None:
        os.kill(self.id, signal.SIGTERM)
        _, status = os.waitpid(self.id, 0)
        assert os.waitstatus_to_exitcode(status) == 0, status

    def kill(self) -> None:
        os.kill(self.id, signal.SIGKILL)
        os.waitpid(self.id, 0)


def log() -> str:
    return (FOLDER / "service.log").read_text(errors="replace")


def get(connect: tuple[int, object], path: str) -> tuple[int, bytes]:
    """One request on its own connection."""
    family, address = connect
    with socket.socket(family, socket.SOCK_STREAM) as stream:
        stream.settimeout(DEADLINE)
        stream.connect(address)  # type: ignore[arg-type]
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        response = http.client.HTTPResponse(stream)
        response.begin()
        return response.status, response.read()


class Client(threading.Thread):
    """Asks over and over. Whatever goes wrong ends it."""

    def __init__(self, connect: tuple[int, object], stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.connect, self.stop = connect, stop
        self.answered, self.failure = 0, ""

    def run(self) -> None:
        while not self.stop.is_set():
            try:
                status, body = get(self.connect, "/")
            except (OSError, http.client.HTTPException) as error:
                self.failure = repr(error)
                return
            if status != 200 or not body.endswith(b"}"):
                self.failure = f"{status}: {body!r}"
                return
            self.answered += 1


def wait_for_answers(clients: list[Client]) -> None:
    """Waits until every client has got an answer from now on."""
    goals = [client.answered + 2 for client in clients]
    end = time.monotonic() + DEADLINE
    while any(client.answered < goal for client, goal in zip(clients, goals, strict=True)):
        failures = [client.failure for client in clients if client.failure]
        assert not failures, failures
        assert time.monotonic() < end, "no answers"
        time.sleep(0.01)


def nobody_is_refused_during_restarts() -> None:
    tcp = socket.create_server(("127.0.0.1", 0), backlog=4096)
    unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    unix.bind(str(FOLDER / "http.sock"))
    unix.listen(4096)
    admin = socket.create_server(("127.0.0.1", 0))
    sockets = {"bot-companion.socket": tcp, "http": unix, "metrics": admin}
    manager = Manager(str(FOLDER / "notify"))
    service = Service(sockets, manager)
    stop = threading.Event()
    places = [(socket.AF_INET, tcp.getsockname()), (socket.AF_UNIX, str(FOLDER / "http.sock"))]
    clients = [Client(places[number % len(places)], stop) for number in range(CLIENTS)]
    try:
        ready = manager.told("READY=1")[-1]
        assert "STATUS=Running on http://127.0.0.1:" in ready, ready
        for client in clients:
            client.start()
        for _ in range(RESTARTS):
            wait_for_answers(clients)
            manager.told("WATCHDOG=1")
            service.stop()
            manager.told("STOPPING=1")
            service = Service(sockets, manager)
            manager.told("READY=1")
        wait_for_answers(clients)
        assert get((socket.AF_INET, admin.getsockname()), "/livez")[0] == 200
        stop.set()
        for client in clients:
            client.join(DEADLINE)
            assert not client.failure, client.failure
        service.stop()
    finally:
        stop.set()
        if sys.exc_info()[0]:
            service.kill()
    answered = sum(client.answered for client in clients)
    print(f"systemd: {answered} requests during {RESTARTS} restarts, each on a connection of its own, and none failed")


def web_thread(process: int) -> int:
    for task in Path(f"/proc/{process}/task").iterdir():
        if (task / "comm").read_text().strip() == "companion-web":
            return int(task.name)
    raise AssertionError("it has no thread that serves requests")


def a_service_that_hangs_is_noticed() -> None:
    """One thread of the service is stopped, as a debugger does it. The others go on."""
    admin = socket.create_server(("127.0.0.1", 0))
    manager = Manager(f"@bot-companion-test-{os.getpid()}")
    service = Service({"http": socket.create_server(("127.0.0.1", 0)), "metrics": admin}, manager)
    livez = (socket.AF_INET, admin.getsockname())
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    try:
        manager.told("READY=1")
        manager.told("WATCHDOG=1")
        assert get(livez, "/livez")[0] == 200
        thread = web_thread(service.id)
        if libc.ptrace(PTRACE_SEIZE, thread, None, None) != 0:
            print(f"systemd: not here: the system allows no ptrace ({os.strerror(ctypes.get_errno())})")
            return
        assert libc.ptrace(PTRACE_INTERRUPT, thread, None, None) == 0
        os.waitpid(thread, WALL)
        said = manager.told("STATUS=Hangs")
        assert all(each == "WATCHDOG=1" for each in said[:-1]), said
        status, body = get(livez, "/livez")
        assert status == 503 and b"has not answered" in body, body
        assert manager.is_silent(3 * WATCHDOG), "the watchdog is still fed"
        assert libc.ptrace(PTRACE_DETACH, thread, None, None) == 0
        manager.told("WATCHDOG=1")
        assert get(livez, "/livez")[0] == 200
    finally:
        service.kill()
    assert re.search("the watchdog is not notified, and systemd will restart", log()), log()
    print("systemd: a thread that hangs stops the feeding of the watchdog, and /livez says so")


(FOLDER / "companion.toml").write_text(f"""
store.url = "sqlite:{FOLDER}/companion.db"
idp.base_url = "http://127.0.0.1:9/api"
idp.client_id = "test"
idp.client_secret = "test"
idp.redirect_uri = "https://dashboard.example/callback"
http.allowed_origins = ["https://dashboard.example"]
limits.exempt = ["127.0.0.1"]
""")
(FOLDER / "companion.toml").chmod(0o600)
try:
    nobody_is_refused_during_restarts()
    a_service_that_hangs_is_noticed()
except BaseException:
    print(log()[-4000:], file=sys.stderr)
    raise
