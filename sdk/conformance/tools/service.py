"""The service that the scenarios are replayed against."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from .files import Json


class Service:
    """A binary that runs as `dev` does, with an empty data folder after each `renew`."""

    def __init__(self, binary: str) -> None:
        self._binary = binary
        self._work = Path(tempfile.mkdtemp())
        self._data = self._work / "data"
        self._process: subprocess.Popen[str] | None = None
        self._address = self._key = ""

    def __enter__(self) -> Service:
        self.renew()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._stop()
        shutil.rmtree(self._work, ignore_errors=True)

    def renew(self) -> None:
        """Starts it again, without its data."""
        self._stop()
        shutil.rmtree(self._data, ignore_errors=True)
        command = [self._binary, "dev", "--json", "--no-limits", "--listen", "127.0.0.1:0", "--data", str(self._data)]
        with (self._work / "log").open("w") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the service did not start:\n{(self._work / 'log').read_text()}")
        addresses = json.loads(line)
        self._address, self._key = urlsplit(addresses["service"]).netloc, addresses["bot_key"]

    def _stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.communicate()
            self._process = None

    def call(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Json]:
        connection = http.client.HTTPConnection(self._address, timeout=300)
        try:
            connection.request(method, path, body, {"Authorization": f"Bearer {self._key}", **headers})
            response = connection.getresponse()
            envelope: Any = json.loads(response.read())
            return response.status, envelope["data"]
        finally:
            connection.close()
