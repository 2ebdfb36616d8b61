"""`fake-discord`, or `python -m fake_discord`: prints its addresses as one line of JSON, then serves."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
from importlib.metadata import version
from pathlib import Path

from .server import FakeDiscord
from .shapes import Json


async def serve(host: str, port: int, world: Json, with_stdin: bool) -> None:
    fake = FakeDiscord(world)
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError):  # Windows: only Ctrl-C.
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, done.set)
    if with_stdin:
        # A thread, because not every event loop can wait for a file. It ends with the process.
        threading.Thread(target=wait_for_end_of_stdin, args=(loop, done), daemon=True).start()
    await fake.start(host, port)
    print(json.dumps(fake.addresses(), separators=(",", ":")), flush=True)
    await done.wait()
    await fake.stop()


def wait_for_end_of_stdin(loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(done.set)


def main() -> None:
    parser = argparse.ArgumentParser(prog="fake-discord", description="A fake Discord for the tests of bots.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free one (default); the line on stdout names it")
    parser.add_argument("--world", type=Path, metavar="FILE", help="a world as JSON; POST /control/world replaces it")
    parser.add_argument("--with-stdin", action="store_true", help="end when stdin ends, so that a test that dies leaves nothing running")
    parser.add_argument("--version", action="version", version=version("fake-discord"))
    arguments = parser.parse_args()
    try:
        world: Json = json.loads(arguments.world.read_text()) if arguments.world else {}
        asyncio.run(serve(arguments.host, arguments.port, world, arguments.with_stdin))
    except KeyboardInterrupt:
        pass
    except (OSError, ValueError) as error:
        parser.exit(1, f"fake-discord: {error}\n")
