"""The spool: a file that keeps feedback until the service has it, across crashes and restarts of the bot.

It is a log of JSON lines: `{"add": 7, "line": {…}}` for an entry, `{"done": 7}` once the service has accepted or refused it.
What is written survives the process, however it ends; a power failure may lose the last few seconds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from ._limits import Limits
from ._status import Status, describe

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]


class Spool:
    def __init__(self, path: str, limits: Limits, status: Status) -> None:
        self._path = path
        self._limit = limits.feedback
        self._status = status
        self._file: int | None = None
        self._entries: dict[int, bytes] = {}
        self._next = 1
        self._records = 0
        try:
            self._file = self._open()
            self._read()
        except (OSError, ValueError) as error:
            self.close()
            status.warn(f"the spool {path} is not used: {describe(error)}; waiting feedback is lost when the bot ends")

    def _open(self) -> int:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            os.fchmod(file, 0o600)
            _lock(file)
            # Another process may have replaced the file while this one was waiting to open it.
            if os.fstat(file).st_ino != os.stat(self._path).st_ino:
                raise OSError("it is in use by another process")
        except BaseException:
            os.close(file)
            raise
        return file

    def _read(self) -> None:
        assert self._file is not None
        with open(self._file, "rb", closefd=False) as log:
            log.seek(0)
            for text in log:
                self._records += 1
                try:
                    record: dict[str, Any] = json.loads(text)
                    if "add" in record:
                        self._entries[int(record["add"])] = json.dumps(record["line"], separators=(",", ":")).encode() + b"\n"
                        self._next = max(self._next, int(record["add"]) + 1)
                    else:
                        self._entries.pop(int(record["done"]), None)
                except (ValueError, KeyError, TypeError):
                    continue  # the end of a line that was cut off when the process died
        for number in list(self._entries)[self._limit :]:
            del self._entries[number]
        self._compact()

    def load(self) -> Iterator[tuple[int, bytes]]:
        """What an earlier process left, oldest first."""
        return iter(list(self._entries.items()))

    def add(self, line: bytes) -> int | None:
        """Saves a line. Returns its number, or `None` if that failed."""
        if self._file is None:
            return None
        number = self._next
        self._next += 1
        if not self._write(b'{"add":%d,"line":%s}\n' % (number, line.strip())):
            return None
        self._entries[number] = line
        return number

    def remove(self, number: int) -> None:
        if self._entries.pop(number, None) is None or self._file is None:
            return
        self._write(b'{"done":%d}\n' % number)
        if not self._entries or self._records > 4 * self._limit:
            self._compact()

    def _write(self, record: bytes) -> bool:
        assert self._file is not None
        try:
            if os.write(self._file, record) != len(record):
                raise OSError("the disk is full")
            self._records += 1
            return True
        except OSError as error:
            message = f"the spool {self._path} cannot be written: {describe(error)}; waiting feedback is lost when the bot ends"
            self._status.warn(message, once="spool")
            return False

    def _compact(self) -> None:
        """Rewrites the file with only what is still waiting."""
        assert self._file is not None
        if not self._entries:
            os.ftruncate(self._file, 0)
            self._records = 0
            return
        if self._records == len(self._entries):
            return
        # A new file replaces the old one, so a crash leaves one of the two intact.
        fresh = self._path + ".new"
        file = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            _lock(file)
            for number, line in self._entries.items():
                os.write(file, b'{"add":%d,"line":%s}\n' % (number, line.strip()))
            os.replace(fresh, self._path)
        except BaseException:
            os.close(file)
            raise
        os.close(self._file)
        self._file, self._records = file, len(self._entries)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def check(path: str) -> str | None:
    """Why a file can't be used as a spool, or `None` if it can. Leaves no file behind."""
    existed = os.path.exists(path)
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(file)
        finally:
            os.close(file)
            if not existed:
                os.unlink(path)
    except OSError as error:
        return describe(error)
    return None


def _lock(file: int) -> None:
    if fcntl is None:
        raise OSError("this system has no file locks that end with their process")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise OSError("it is in use by another process") from None
