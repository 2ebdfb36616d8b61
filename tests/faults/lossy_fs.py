"""A file system in memory that forgets what was not synced when its power is cut, and whose disk can be full or broken.

`disk.py` starts it. A command is a write to the file `.control`; it is done when the write returns:

    cut all SEED      forgets every write, and every change of the folder, that was not synced
    cut some SEED     forgets some of them, in blocks of 4 KiB and in no order, as a disk with a cache does
    fault enospc      every write says that the disk is full
    fault eio         every write and sync fails, and a sync that failed loses what it was for, as on Linux
    fault lie         a sync says that it is done, and does nothing
    fault none        the disk is whole again
"""

from __future__ import annotations

import errno
import itertools
import random
import stat
import sys
import time
from collections.abc import Callable

import mfusepy

BLOCK = 4096
CONTROL = "/.control"
# Blocks; far more than a scenario needs.
SIZE = 1 << 18


class File:
    numbers = itertools.count(2)

    def __init__(self, mode: int) -> None:
        self.number, self.mode, self.changed = next(self.numbers), mode, time.time_ns()
        # What programs see, what is on the disk, and what has changed since: offset and bytes, or a new length.
        self.seen, self.synced = bytearray(), bytearray()
        self.unsynced: list[tuple[int, bytes | None]] = []

    def write(self, offset: int, data: bytes) -> None:
        put(self.seen, offset, data)
        for start in range(0, len(data), BLOCK):
            self.unsynced.append((offset + start, data[start : start + BLOCK]))
        self.changed = time.time_ns()

    def truncate(self, length: int) -> None:
        put(self.seen, length, None)
        self.unsynced.append((length, None))
        self.changed = time.time_ns()

    def sync(self, survives: Callable[[], bool] = lambda: True) -> None:
        """Brings the unsynced changes to the disk, as far as they survive."""
        for offset, data in self.unsynced:
            if survives():
                put(self.synced, offset, data)
        self.unsynced.clear()


def put(content: bytearray, offset: int, data: bytes | None) -> None:
    """A write at the offset, or without data the new length."""
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    if data is None:
        del content[offset:]
    else:
        content[offset : offset + len(data)] = data


class LossyDisk(mfusepy.Operations):
    use_ns = True

    def __init__(self) -> None:
        self.fault = "none"
        self.files: dict[str, File] = {}
        self.synced_files: dict[str, File] = {}
        self.opened: dict[int, File] = {}
        self.handles = itertools.count(1)

    def command(self, text: str) -> None:
        words = text.split()
        if words[:1] == ["fault"] and words[1] in ("none", "enospc", "eio", "lie"):
            self.fault = words[1]
        elif words[:1] == ["cut"] and words[1] in ("all", "some"):
            chance = random.Random(words[-1])

            def survives() -> bool:
                return words[1] == "some" and chance.random() < 0.5

            # All changes of the folder together reach the disk or don't.
            if not survives():
                self.files = dict(self.synced_files)
            self.synced_files = dict(self.files)
            for file in self.files.values():
                file.sync(survives)
                file.seen = bytearray(file.synced)
        else:
            raise mfusepy.FuseOSError(errno.EINVAL)

    def fail(self, *faults: str) -> None:
        if self.fault in faults:
            raise mfusepy.FuseOSError({"enospc": errno.ENOSPC, "eio": errno.EIO}[self.fault])

    def find(self, path: str, handle: int | None = None) -> File:
        found = self.opened.get(handle or 0) or self.files.get(path)
        if found is None:
            raise mfusepy.FuseOSError(errno.ENOENT)
        return found

    def getattr(self, path: str, fh: int | None = None) -> dict[str, int]:
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2, "st_ino": 1}
        if path == CONTROL:
            return {"st_mode": stat.S_IFREG | 0o600, "st_nlink": 1, "st_ino": 1 << 40}
        file = self.find(path, fh)
        times = dict.fromkeys(("st_mtime", "st_ctime", "st_atime"), file.changed)
        return {"st_mode": stat.S_IFREG | file.mode & 0o7777, "st_nlink": 1, "st_ino": file.number, "st_size": len(file.seen), **times}

    def readdir(self, path: str, fh: int) -> list[tuple[str, dict[str, int], int]]:
        # An entry without a number isn't shown.
        named = {".": 1, "..": 1, **{name.removeprefix("/"): file.number for name, file in self.files.items()}}
        return [(name, {"st_ino": number}, 0) for name, number in named.items()]

    def statfs(self, path: str) -> dict[str, int]:
        used = sum(len(file.seen) for file in self.files.values()) // BLOCK
        free = 0 if self.fault == "enospc" else SIZE - used
        return {"f_bsize": BLOCK, "f_frsize": BLOCK, "f_blocks": SIZE, "f_bfree": free, "f_bavail": free, "f_files": 1000, "f_ffree": 900, "f_favail": 900, "f_namemax": 255}

    def create(self, path: str, mode: int, fi: object = None) -> int:
        self.fail("enospc", "eio")
        self.files[path] = File(mode)
        return self.open(path, 0)

    def open(self, path: str, flags: int) -> int:
        if path == CONTROL:
            return 0
        handle = next(self.handles)
        self.opened[handle] = self.find(path)
        return handle

    def release(self, path: str, fh: int) -> int:
        self.opened.pop(fh, None)
        return 0

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return bytes(self.find(path, fh).seen[offset : offset + size])

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        if path == CONTROL:
            self.command(data.decode())
            return len(data)
        self.fail("enospc", "eio")
        self.find(path, fh).write(offset, data)
        return len(data)

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        if path != CONTROL:
            self.fail("eio")
            self.find(path, fh).truncate(length)
        return 0

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        file = self.find(path, fh)
        if self.fault == "eio":
            file.unsynced.clear()
        self.fail("eio")
        if self.fault != "lie":
            file.sync()
        return 0

    def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
        self.fail("eio")
        if self.fault != "lie":
            self.synced_files = dict(self.files)
        return 0

    def unlink(self, path: str) -> int:
        self.fail("eio")
        self.find(path)
        del self.files[path]
        return 0

    def rename(self, old: str, new: str, flags: int = 0) -> int:
        self.fail("eio")
        self.find(old)
        self.files[new] = self.files.pop(old)
        return 0

    def link(self, target: str, source: str) -> int:
        self.fail("enospc", "eio")
        self.files[target] = self.find(source)
        return 0

    def chmod(self, path: str, mode: int) -> int:
        self.find(path).mode = mode
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        return 0

    def utimens(self, path: str, times: tuple[float, float] | None = None) -> int:
        return 0


if __name__ == "__main__":
    # The kernel asks each time, because a cut changes files behind its back. One thread: nothing here is locked.
    never = {"attr_timeout": 0, "entry_timeout": 0, "negative_timeout": 0}
    mfusepy.FUSE(LossyDisk(), sys.argv[1], foreground=True, nothreads=True, use_ino=True, fsname="lossy", **never)
