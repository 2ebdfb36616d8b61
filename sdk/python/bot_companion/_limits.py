"""The SDK's limits. They are the same in every SDK, under the same names."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

LISTING_RATES = 0.01, 1000.0


@dataclass(frozen=True)
class Limits:
    """Times are in seconds. The defaults suit every bot."""

    heartbeat_interval: float = 15.0
    gather_time: float = 0.5
    """How long the first change waits for others to share its request."""
    batch_lines: int = 500
    batch_bytes: int = 1024 * 1024
    line_bytes: int = 1024 * 1024
    changes: int = 20_000
    """The most waiting changes; beyond that, every shard is sent as a whole instead."""
    feedback: int = 1_000
    """The most waiting feedback entries; further ones are refused."""
    feedback_lines: int = 100
    """The most feedback lines in one request, so that feedback doesn't hold up changes."""
    member_count_interval: float = 60.0
    refresh_interval: float = 300.0
    callback_timeout: float = 15.0
    callback_retry: float = 60.0
    callbacks_at_once: int = 16
    listing_rate: float = 10.0
    """Pages of members per second, for all of the bot's processes together. Each process uses its shards' share."""
    listing_retry: float = 5.0
    longest_listing_retry: float = 300.0
    subscription_tries: int = 5
    """How often a list of subscriptions is sent. If the last try is refused too, none are sent until the callback returns something else."""
    stall_timeout: float = 30.0
    flush_interval: float = 5.0
    first_retry: float = 1.0
    longest_retry: float = 60.0
    longest_retry_after: float = 3600.0
    close_timeout: float = 5.0
    slice: float = 0.005
    """How long this package may work before it yields to the bot's event loop."""

    def __post_init__(self) -> None:
        for field in fields(self):
            check(field.name, getattr(self, field.name))


def check(name: str, value: object) -> None:
    """Raises `ValueError` if this limit can't have this value."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise ValueError(f"the limit {name} must be a number, 0 or more, not {value!r}")
    least, most = LISTING_RATES
    if name == "listing_rate" and not least <= value <= most:
        raise ValueError(f"the limit listing_rate must be from {least:g} to {most:g} pages per second, not {value!r}")
    if name in POSITIVE and value == 0:
        raise ValueError(f"the limit {name} must be more than 0")
    if name in WHOLE and not isinstance(value, int):
        raise ValueError(f"the limit {name} must be a whole number, not {value!r}")


WHOLE = ("batch_lines", "batch_bytes", "line_bytes", "changes", "feedback", "feedback_lines", "callbacks_at_once", "refused_subscriptions")
POSITIVE = (
    "heartbeat_interval", "batch_lines", "batch_bytes", "line_bytes", "feedback_lines", "refresh_interval",
    "callback_timeout", "callbacks_at_once", "stall_timeout",
)  # fmt: skip
