"""`python -m reference_service`: runs until it is stopped, and says in one line of JSON where."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal

from . import KEY, ReferenceService


async def run(arguments: argparse.Namespace) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with ReferenceService(arguments.key, arguments.host, arguments.port) as service:
        print(json.dumps({"url": service.url, "key": service.key}), flush=True)
        await stopped.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m reference_service", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0, the default: a free one")
    parser.add_argument("--key", default=KEY)
    asyncio.run(run(parser.parse_args()))


main()
