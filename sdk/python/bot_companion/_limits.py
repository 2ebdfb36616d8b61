"""The limits of the SDK. Every SDK has the same ones, under the same names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Times are seconds. The defaults suit every bot; tests have others."""

    heartbeat_interval: float = 15.0
    gather_time: float = 0.5
    """How long the first change waits for others to share its request."""
    batch_lines: int = 500
    batch_bytes: int = 1024 * 1024
    line_bytes: int = 1024 * 1024
    changes: int = 20_000
    """Changes that wait; one more, and every shard is sent whole instead."""
    feedback: int = 1_000
    """Feedback entries that wait; one more is refused."""
    feedback_lines: int = 100
    """Feedback lines of one request: they must not keep changes waiting."""
    member_count_interval: float = 60.0
    refresh_interval: float = 300.0
    callback_timeout: float = 15.0
    callback_retry: float = 60.0
    callbacks_at_once: int = 16
    listing_pause: float = 0.25
    listing_retry: float = 5.0
    longest_listing_retry: float = 300.0
    stall_timeout: float = 30.0
    flush_interval: float = 5.0
    first_retry: float = 1.0
    longest_retry: float = 60.0
    longest_retry_after: float = 3600.0
    close_timeout: float = 5.0
    slice: float = 0.005
    """How long this package may work before the bot's event loop gets its turn."""
