"""The services that the scenarios are replayed against: the reference service, and the real one."""

from __future__ import annotations

import http.client
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol
from urllib.parse import urlsplit

from .files import FOLDER, Json


class Service(Protocol):
    """A running service. `renew` gives one that has lost everything."""

    name: str

    def renew(self) -> None: ...

    def call(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Json]: ...

    def close(self) -> None: ...


class Program:
    """A service that runs as a process, and says on its output where."""

    name = ""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.url = self.key = ""

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def command(self) -> list[str]:
        raise NotImplementedError

    def find(self, output: str) -> tuple[str, str] | None:
        """Address and key in what it has said so far."""
        raise NotImplementedError

    def renew(self) -> None:
        self.close()
        environment = {**os.environ, "PYTHONPATH": str(FOLDER)}
        self._process = subprocess.Popen(
            self.command(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        said: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, args=(self._process, said), daemon=True).start()
        output = ""
        while True:
            line = said.get(timeout=300)
            output += line or ""
            found = self.find(output)
            if found is not None:
                self.url, self.key = found
                return
            if line is None:
                raise SystemExit(f"{self.name} did not start:\n{output}")

    @staticmethod
    def _read(process: subprocess.Popen[str], said: queue.Queue[str | None]) -> None:
        # Reads everything, so that the process never blocks on a full pipe.
        assert process.stdout is not None
        for line in process.stdout:
            said.put(line)
        said.put(None)

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def call(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Json]:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=300)
        try:
            connection.request(method, path, body, {"Authorization": f"Bearer {self.key}", **headers})
            response = connection.getresponse()
            envelope: Any = json.loads(response.read())
            return response.status, envelope["data"]
        finally:
            connection.close()


class Reference(Program):
    name = "the reference service"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "reference_service"]

    def find(self, output: str) -> tuple[str, str] | None:
        for line in output.splitlines():
            if line.startswith("{"):
                said = json.loads(line)
                return said["url"], said["key"]
        return None


class Real(Program):
    def __init__(self, binary: str) -> None:
        super().__init__()
        self.name = "the real service"
        self._binary = binary
        self._work = Path(tempfile.mkdtemp())
        self._number = 0

    def command(self) -> list[str]:
        self._number += 1
        data = str(self._work / str(self._number))
        return [self._binary, "dev", "--json", "--no-limits", "--listen", "127.0.0.1:0", "--data", data]

    def find(self, output: str) -> tuple[str, str] | None:
        for line in output.splitlines():
            if line.startswith("{"):
                said = json.loads(line)
                return said["service"], said["bot_key"]
        return None

    def close(self) -> None:
        super().close()
        shutil.rmtree(self._work / str(self._number), ignore_errors=True)

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()
        shutil.rmtree(self._work, ignore_errors=True)
