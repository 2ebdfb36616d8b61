"""The base of every test: a folder, its own addresses, and helpers that start and end programs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
PREFIX = "companion-cluster-"
REPOSITORY = Path(__file__).resolve().parents[3]
# For what has no promise of its own, and for whether something comes at all. Only a failing test waits this long.
PATIENCE = 300.0
# How much slower than usual a machine can be before we give up adapting to it.
SLOWEST = 15.0


class Failed(Exception):
    """A promise was broken, or the site cannot be built."""


class Testbed:
    """A folder and a network for one site. Its addresses are loopback addresses that nobody else uses, so that a program can be
    started again on the same port without finding it taken."""

    def __init__(self) -> None:
        remove_abandoned()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=os.environ.get("CLUSTER_FOLDER")))
        # How much slower this machine is than one that has nothing else to do; 1 until it was measured.
        self.slowness = 1.0
        # Whether a broken limit on time is a failure, or only printed.
        self.strict = False
        # PostgreSQL runs as another user.
        self.folder.chmod(0o755)
        self.network = f"127.{random.SystemRandom().randrange(1, 255)}.{random.SystemRandom().randrange(1, 255)}"

    def address(self, number: int) -> str:
        return f"{self.network}.{number}"

    def scaled(self, seconds: float) -> float:
        """A time, made longer by as much as this machine is slower than usual."""
        return seconds * self.slowness

    def promise(self, what: str, took: float, limit: float) -> None:
        """Checks a time that the contract promises: a failure if the test is strict, a line in the output otherwise."""
        allowed = self.scaled(limit)
        if took < allowed:
            return
        said = f"{what}: {took:.2f} s, and less than {allowed:.2f} s is promised"
        if self.strict:
            raise Failed(said)
        print(f"  slow: {said}", flush=True)

    def remove(self) -> None:
        if os.environ.get("CLUSTER_KEEP"):
            print(f"logs and data are in {self.folder}", flush=True)
            return
        shutil.rmtree(self.folder, ignore_errors=True)


def remove_abandoned() -> None:
    """Removes the folders of runs that were killed, because they may be in memory. One younger than an hour may still be looked at."""
    for folder in Path(os.environ.get("CLUSTER_FOLDER") or tempfile.gettempdir()).glob(f"{PREFIX}*"):
        process = folder.name.removeprefix(PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            if process.isdigit() and not Path(f"/proc/{process}").exists() and time.time() - folder.stat().st_mtime > 3600:
                shutil.rmtree(folder, ignore_errors=True)


async def eventually(condition: Callable[[], Awaitable[T | None]], what: str, patience: float = PATIENCE) -> T:
    """Waits until the condition gives something."""
    end = time.monotonic() + patience
    while True:
        found = await condition()
        if found is not None and found is not False:
            return found
        if time.monotonic() > end:
            raise Failed(f"in {patience:.0f} s it never came true that {what}")
        await asyncio.sleep(0.02)


async def output(*command: str, **options: Any) -> str:
    """What a command prints; it must succeed."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, **options
    )
    try:
        said, complained = await process.communicate()
    except BaseException:
        await end(process, signal.SIGKILL)
        raise
    if process.returncode != 0:
        raise Failed(f"{Path(command[0]).name} failed: {complained.decode(errors='replace').strip()}")
    return said.decode()


async def end(process: asyncio.subprocess.Process | None, how: signal.Signals, patience: float = PATIENCE) -> int:
    """Ends a program, and kills it if it does not end."""
    if process is None:
        return 0
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(how)
        try:
            await asyncio.wait_for(process.wait(), patience)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise Failed(f"a program had to be killed: {how.name} did not end it in {patience:.0f} s") from None
    return process.returncode or 0


def last_lines(path: Path, count: int = 15) -> str:
    if not path.exists():
        return ""
    return "\n".join(path.read_text(errors="replace").splitlines()[-count:])


def run(program: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Runs a program to its end, even if it is asked to stop, and says what went wrong."""

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        await program()

    try:
        asyncio.run(main())
    except Failed as failed:
        print(f"FAILED: {failed}", flush=True)
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("stopped", flush=True)
        return 130
    return 0


def clean_environment() -> dict[str, str]:
    """The environment without the configuration that the shell may have for another service."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COMPANION_")}
