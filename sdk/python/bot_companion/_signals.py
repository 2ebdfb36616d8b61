"""SIGTERM: by default it ends a process immediately, and what is waiting is lost. Here, the companions close first.

This only applies if the process doesn't handle SIGTERM itself. It then ends as it would have on SIGTERM, at most a few seconds later.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from types import FrameType

from ._companion import Companion

GRACE = 8.0
"""Seconds after which the process ends even if its event loop is blocked."""

_watched: dict[Companion, asyncio.AbstractEventLoop] = {}


def watch(companion: Companion) -> None:
    """Needs a running event loop. Does nothing if SIGTERM already has a handler, or outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return
    current = signal.getsignal(signal.SIGTERM)
    if current is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    elif current is not _terminate:
        return
    _watched[companion] = asyncio.get_running_loop()


def unwatch(companion: Companion) -> None:
    _watched.pop(companion, None)
    if not _watched and threading.current_thread() is threading.main_thread():
        if signal.getsignal(signal.SIGTERM) is _terminate:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(number: int, frame: FrameType | None) -> None:
    # A second SIGTERM ends the process immediately.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    fallback = threading.Timer(GRACE, _end)
    fallback.daemon = True
    fallback.start()
    left = {loop for loop in _watched.values() if loop.is_running()}
    if not left:
        _end()
    for loop in tuple(left):
        closing = [companion for companion, its in _watched.items() if its is loop]
        loop.call_soon_threadsafe(_close, loop, closing, left)


def _close(loop: asyncio.AbstractEventLoop, companions: list[Companion], left: set[asyncio.AbstractEventLoop]) -> None:
    def closed(_: object) -> None:
        left.discard(loop)
        if not left:
            _end()

    done = asyncio.gather(*(companion.close() for companion in companions), return_exceptions=True)
    done.add_done_callback(closed)


def _end() -> None:
    if os.getpid() == 1:
        # In a container, the kernel doesn't end the first process on a signal that it doesn't handle.
        os._exit(128 + signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
