"""The service and the bots as processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from shown import copy_of, let_time_pass

Json = dict[str, Any]
BINARY = os.environ.get("BOT_COMPANION", "")
HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
# Only a failing history waits this long.
PATIENCE = float(os.environ.get("HISTORIES_PATIENCE", "60"))
# A process that was silent for this long doesn't own its shards any more.
SILENCE_MS = 91_000


class Failed(Exception):
    """The history could not be played."""


async def until(what: str, condition: Callable[[], Any | Awaitable[Any]], patience: float = PATIENCE) -> Any:
    """Waits for a condition, not for a time."""
    loop = asyncio.get_running_loop()
    end = loop.time() + patience
    while True:
        last = condition()
        if asyncio.iscoroutine(last):
            last = await last
        if last:
            return last
        if loop.time() > end:
            raise Failed(f"after {patience:.0f} s still not true: {what}")
        await asyncio.sleep(0.02)


def environment(**more: str) -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if not name.startswith("COMPANION_")}, **more}


class Service:
    """`serve` with a SQLite file. `template` is an empty database with a key."""

    def __init__(self, folder: Path, template: Path | None = None, key: str = "") -> None:
        self._folder, self._template, self.key = folder, template, key
        self.database = folder / "companion.db"
        self.log = folder / "service.log"
        self._config = folder / "companion.toml"
        self._process: subprocess.Popen[bytes] | None = None
        self._backup = folder / "backup.db"
        folder.mkdir(parents=True, exist_ok=True)
        self._config.touch(mode=0o600)
        self._config.write_text(
            f'store.url = "sqlite:{self.database}"\nidp.base_url = "http://127.0.0.1:9"\n'
            'idp.client_id = "histories"\nidp.client_secret = "a-secret-of-nobody"\n'
            'http.allowed_origins = ["https://dashboard.example"]\nidp.redirect_uri = "https://dashboard.example/callback"\n'
            'admin.listen = "127.0.0.1:0"\nlimits.exempt = ["127.0.0.0/8"]\nfeed.requests_per_second = 0\n'
            'log.filter = "warn,bot_companion=info"\n'
        )
        if template is not None:
            self._replace(template)
            shutil.copy(f"{template}.key", f"{self.database}.key")

    async def create_key(self) -> str:
        made = await asyncio.create_subprocess_exec(
            BINARY, "key", "create", "--label", "histories", "--json", "--config", str(self._config),
            env=environment(), stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        output, _ = await made.communicate()
        self.key = json.loads(output)["key"]
        return self.key

    async def start(self) -> tuple[str, int]:
        """Where it listens."""
        before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            command = [BINARY, "serve", "--config", str(self._config), "--listen", "127.0.0.1:0"]
            # Not asyncio's: if the start is cancelled there, nobody knows the process.
            self._process = subprocess.Popen(command, env=environment(), stdout=log, stderr=log)

        def listening() -> tuple[str, int] | None:
            logged = self.log.read_bytes()[before:].decode(errors="replace")
            if not self.running:
                raise Failed(f"the service ended instead of listening:\n{logged}")
            found = re.search(r"listening on http://(127\.0\.0\.1):(\d+)/", logged)
            return (found[1], int(found[2])) if found else None

        address: tuple[str, int] = await until("the service listens", listening)
        return address

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None and self.running:
            self._process.send_signal(how)
            await until("the service ends", lambda: not self.running)

    # While it is stopped

    def _replace(self, source: Path) -> None:
        for name in (f"{self.database}-wal", f"{self.database}-shm"):
            Path(name).unlink(missing_ok=True)
        shutil.copy(source, self.database)

    def back_up(self) -> None:
        self._backup.unlink(missing_ok=True)
        copy_of(self.database, self._backup)

    def restore(self) -> None:
        self._replace(self._backup)

    def lose_everything(self) -> None:
        assert self._template is not None
        self._replace(self._template)

    def forget_silent_processes(self) -> None:
        let_time_pass(self.database, SILENCE_MS)


class Bot:
    """A process of the bot. It obeys commands on stdin, and answers each with a line on stdout."""

    def __init__(self, command: list[str], given: Json, log: Path) -> None:
        self._command, self._given, self.log = command, given, log
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, json.dumps(self._given),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log, env=environment(),
            )  # fmt: skip

    async def tell(self, **command: Any) -> Json:
        """Gives a command; what the bot answers."""
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        async with self._turn:
            process.stdin.write(json.dumps(command).encode() + b"\n")
            await process.stdin.drain()
            line = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
        if not line:
            raise Failed(f"the bot ended when it was told {command}")
        answer: Json = json.loads(line)
        return answer

    async def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(how)
            await asyncio.wait_for(self._process.wait(), PATIENCE)
