"""`python -m fake_discord --port 0`: prints its addresses as one line of JSON, then serves."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys

from .server import FakeDiscord


async def serve(host: str, port: int, with_stdin: bool) -> None:
    fake = FakeDiscord()
    await fake.start(host, port)
    print(json.dumps(fake.addresses(), separators=(",", ":")), flush=True)
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, done.set)
    if with_stdin:
        # A test that dies without a word must not leave this running.
        def read() -> None:
            if not os.read(sys.stdin.fileno(), 4096):
                loop.remove_reader(sys.stdin.fileno())
                done.set()

        loop.add_reader(sys.stdin.fileno(), read)
    await done.wait()
    await fake.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="fake_discord", description="Plays Discord for tests.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free one (default)")
    parser.add_argument("--with-stdin", action="store_true", help="end when stdin ends")
    arguments = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(arguments.host, arguments.port, arguments.with_stdin))


main()
