"""Sends generated requests and checks every answer; `tests/faults/million-requests` runs it.

    FUZZ_REQUESTS  how many (1000000; quick: 5000)
    FUZZ_SEED      the seed of the first process; each further one takes the next number (1)
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from documented import EVENT, Document
from generated import Generator, Request
from service import PATIENCE, Dev, Failed, count, measured, run
from wire import Closed, Wire

CONNECTIONS = 16


class Sender:
    """One process's part."""

    def __init__(self, url: str, key: str, document: dict[str, Any], seed: int, requests: int) -> None:
        self.url, self.left = url, requests
        self.document, self.generator = Document(document), Generator(seed, document, key)
        self.statuses: Counter[int] = Counter()
        self.complaints: list[str] = []

    async def sign_in(self) -> None:
        wire = Wire(self.url)
        _, _, body = await wire.ask("POST", "/auth", [("Idp-Code", "owner")])
        wire.close()
        self.generator.token = json.loads(body)["data"]["token"]

    async def answer(self, wire: Wire, request: Request) -> tuple[int, dict[str, str], bytes]:
        await wire.send(request.text(f"{wire.host}:{wire.port}"))
        status, headers = await wire.head()
        if headers.get("content-type") != "text/event-stream" or request.method == "HEAD":
            return status, headers, await wire.body(request.method, status, headers)
        # A stream doesn't end, so only its first event is checked.
        assert wire.reader is not None
        body = b""
        while EVENT not in body and (part := await wire.reader.read(4096)):
            body += part
        wire.close()
        return status, headers, body

    async def send(self) -> None:
        wire, before = Wire(self.url), ""
        while self.left > 0 and len(self.complaints) < 20:
            self.left -= 1
            request = self.generator.make()
            try:
                status, headers, body = await asyncio.wait_for(self.answer(wire, request), PATIENCE)
            except (Closed, TimeoutError, OSError) as error:
                self.complaints.append(f"no answer ({error!r}): {str(request)[:2000]}; before it, on the same connection: {before}")
                wire.close()
                continue
            before = f"{status} {headers} for {str(request)[:1000]}"
            self.statuses[status] += 1
            if complaint := self.document.complaint(request.template, request.method, status, headers, body):
                self.complaints.append(f"{complaint}: {status} {headers} {body[:500]!r} for {request}"[:3000])
            await self.keep_up(request, status, body)
        wire.close()

    async def keep_up(self, request: Request, status: int, body: bytes) -> None:
        """Credentials and numbers stay valid, or most requests would be refused at the door."""
        if request.method == "DELETE" and status == 200 or status == 401 and ("Token", self.generator.token) in request.headers:
            await self.sign_in()
        elif request.template.startswith("/bot/") and status in (200, 409) and request.template != "/bot/heartbeat" and request.method in ("PUT", "POST"):
            data = json.loads(body)["data"]
            if ("Feed-Instance", self.generator.instance) in request.headers:
                self.generator.next = data.get("next", self.generator.next)

    async def run(self) -> None:
        await self.sign_in()
        await asyncio.gather(*(self.send() for _ in range(CONNECTIONS)))


def work(arguments: tuple[str, str, dict[str, Any], int, int]) -> tuple[Counter[int], list[str]]:
    sender = Sender(*arguments)
    asyncio.run(sender.run())
    return sender.statuses, sender.complaints


def scenario(folder: Path) -> None:
    requests, seed = count("FUZZ_REQUESTS", 1_000_000, 5_000), int(os.environ.get("FUZZ_SEED") or 1)
    with Dev(folder) as service:
        service.start()
        with service.client() as client:
            document = json.loads(client.get("/openapi.json").body)
        processes = min(os.cpu_count() or 1, 8)
        parts = [(service.url, service.key, document, seed + number, -(-requests // processes)) for number in range(processes)]
        began = time.monotonic()
        # Its processes end by themselves. multiprocessing.Pool would send them SIGTERM, and now and then wait for one forever.
        with ProcessPoolExecutor(processes) as pool:
            done = list(pool.map(work, parts))
        statuses: Counter[int] = sum((each for each, _ in done), Counter())
        complaints = [complaint for _, each in done for complaint in each]
        sent, took = statuses.total(), time.monotonic() - began
        print(f"{sent:,} answers in {took:.0f} s: {dict(sorted(statuses.items()))}", flush=True)
        if complaints:
            raise Failed(f"{len(complaints)} answers are not as documented:\n" + "\n".join(complaints[:10]))
        if not service.running():
            raise Failed(f"the service has died:\n{service.logged()[-2000:]}")
        if sent < requests or statuses[200] < sent / 10:
            raise Failed(f"{sent} answers, {statuses[200]} of them 200: the requests don't get far enough")
    shown = ", ".join(f"{number:,} times {status}" for status, number in statuses.most_common(4))
    measured(f"{sent:,} generated requests ({shown})", "0 server errors, 0 answers that differ from the OpenAPI document")


if __name__ == "__main__":
    run(scenario)
