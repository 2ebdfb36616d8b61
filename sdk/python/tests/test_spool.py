"""The spool on disk."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from bot_companion._feedback import Feedback
from bot_companion._limits import Limits
from bot_companion._spool import Spool
from bot_companion._status import Status


def opened(path: Path, limits: Limits | None = None) -> tuple[Feedback, Status]:
    status = Status()
    return Feedback(limits or Limits(), status, Spool(str(path), limits or Limits(), status)), status


def ids(feedback: Feedback) -> list[str]:
    return [json.loads(entry.line)["id"] for entry in feedback.take(len(feedback))]


def crash(feedback: Feedback) -> None:
    """As if the process were killed: the file is closed, nothing is written."""
    spool = feedback._spool
    assert spool is not None
    spool.close()


def test_what_waits_survives_a_crash_in_order(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    feedback, _ = opened(path)
    for name in "abcd":
        feedback.add({"type": "feedback", "id": name})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first, second = feedback.take(2)
    feedback.delivered(first)
    feedback.refused(second, "no")
    crash(feedback)
    again, _ = opened(path)
    again.add({"type": "feedback", "id": "e"})
    crash(again)
    last, _ = opened(path)
    assert ids(last) == ["c", "d", "e"]


def test_the_file_does_not_grow(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    limits = Limits(feedback=5)
    feedback, _ = opened(path, limits)
    largest = 0
    feedback.add({"id": "stays"})
    kept = feedback.take(1)
    for number in range(200):
        feedback.add({"id": str(number)})
        feedback.delivered(feedback.take(1)[0])
        largest = max(largest, path.stat().st_size)
    assert largest < 2000
    feedback.put_back(kept)
    crash(feedback)
    again, _ = opened(path, limits)
    assert ids(again) == ["stays"]


def test_all_delivered_leaves_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    feedback, _ = opened(path)
    feedback.add({"id": "a"})
    feedback.delivered(feedback.take(1)[0])
    assert path.read_bytes() == b""


def test_a_line_that_was_cut_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    path.write_bytes(b'{"add":1,"line":{"id":"a"}}\n{"add":2,"line":{"i')
    feedback, _ = opened(path)
    feedback.add({"id": "b"})
    crash(feedback)
    again, _ = opened(path)
    assert ids(again) == ["a", "b"]


def test_it_holds_as_many_as_the_queue(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    path.write_text("".join(f'{{"add":{n},"line":{{"id":"{n}"}}}}\n' for n in range(1, 10)))
    feedback, _ = opened(path, Limits(feedback=3))
    assert ids(feedback) == ["1", "2", "3"]


def test_a_spool_in_use_is_not_used_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    feedback, _ = opened(path)
    feedback.add({"id": "a"})
    other, status = opened(path)
    assert "in use by another process" in (status.last_error or "")
    assert other.add({"id": "b"}).delivered is None and ids(other) == ["b"]
    crash(feedback)
    again, _ = opened(path)
    assert ids(again) == ["a"]


@pytest.mark.parametrize("path", ["/no/such/folder/spool", "/"])
def test_a_spool_that_cannot_be_written_is_said(path: str) -> None:
    feedback, status = opened(Path(path))
    assert path in (status.last_error or "") and "not used" in (status.last_error or "")
    assert feedback.add({"id": "a"}).delivered is None


def test_a_full_disk_is_said_and_the_entry_still_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feedback, status = opened(tmp_path / "spool")

    def full(file: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    feedback.add({"id": "a"})
    assert "cannot be written" in (status.last_error or "") and ids(feedback) == ["a"]
