"""What the system says about a process: processor time, memory, threads, open files."""

from __future__ import annotations

import os
import re
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
MIB = 1 << 20


def cpu(pid: int) -> float:
    """Seconds of processor time that it has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def status(pid: int, name: str) -> int:
    """A number in its status; memory is in bytes."""
    found = re.search(rf"^{name}:\s+(\d+)( kB)?", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) * (1024 if found[2] else 1) if found else 0


def resident(pid: int) -> int:
    return status(pid, "VmRSS")


def threads(pid: int) -> int:
    return status(pid, "Threads")


def files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


class Peak:
    """The most memory that a process has had since this was made, beyond what it had then."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        # If the system doesn't allow this, the peak covers the process's whole life, so it is never too small.
        try:
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        except OSError:
            pass
        self.before = resident(pid)

    def growth(self) -> int:
        return max(0, status(self.pid, "VmHWM") - self.before)
