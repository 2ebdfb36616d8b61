"""Normal clients beside a fault: they keep reading what is public, and count what they get."""

from __future__ import annotations

import http.client
import ssl
import threading
import time
import urllib.parse
from contextlib import suppress

from service import NO_ANSWER, PATIENCE, Failed

PUBLIC = ("/", "/team", "/feedback", "/stats")


class Bystander:
    """A client from its own address, in a thread. With `fresh`, each request has a new connection, as that of a new visitor."""

    def __init__(self, url: str, source: str = "127.0.0.2", fresh: bool = True, trust: ssl.SSLContext | None = None, pause: float = 0.05) -> None:
        parts = urllib.parse.urlsplit(url)
        self.host, self.port = str(parts.hostname), parts.port
        self.source, self.fresh, self.trust, self.pause = source, fresh, trust, pause
        self.answered, self.failures, self.slowest = 0, list[str](), 0.0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.read, daemon=True)

    def connection(self) -> http.client.HTTPConnection:
        address = (self.source, 0)
        if self.trust is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE, source_address=address)
        return http.client.HTTPSConnection(self.host, self.port, timeout=PATIENCE, source_address=address, context=self.trust)

    def read(self) -> None:
        connection = self.connection()
        while not self.ended.is_set():
            path = PUBLIC[self.answered % len(PUBLIC)]
            began = time.monotonic()
            try:
                connection.request("GET", path)
                response = connection.getresponse()
                response.read()
                if response.status == 200:
                    self.answered += 1
                else:
                    self.failures.append(f"{path}: {response.status}")
            except NO_ANSWER as error:
                self.failures.append(f"{path}: {error!r}")
                connection.close()
            self.slowest = max(self.slowest, time.monotonic() - began)
            if self.fresh:
                connection.close()
            self.ended.wait(self.pause)
        with suppress(OSError):
            connection.close()

    def __enter__(self) -> Bystander:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join(2 * PATIENCE)

    def check(self) -> None:
        """Everything was answered, and there was something to answer."""
        if self.failures:
            raise Failed(f"{len(self.failures)} of {len(self.failures) + self.answered} reads beside the fault failed: {self.failures[:5]}")
        if self.answered == 0:
            raise Failed("nothing was read beside the fault")

    def __str__(self) -> str:
        return f"{self.answered:,} reads meanwhile, {len(self.failures)} failed, slowest {self.slowest * 1000:.0f} ms"
