"""Rate limits of the REST API: a bucket per route and top-level resource, and the limit over all routes."""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections import deque
from dataclasses import dataclass

from .record import matches
from .shapes import Json

GLOBAL_WINDOW = 1.0


@dataclass
class Limit:
    """A request that comes too early: how long to wait, and whose limit it is."""

    retry_after: float
    scope: str
    headers: dict[str, str]


@dataclass
class Bucket:
    limit: int
    per: float
    resets: float = 0.0
    used: int = 0


class Buckets:
    def __init__(self) -> None:
        self._buckets: dict[tuple[str, str], Bucket] = {}
        self._recent: deque[float] = deque()

    def take(self, what: str, rate_limits: Json, of_all: int | None) -> Limit | dict[str, str]:
        """Counts a request; the headers of its answer, or the limit that it exceeds."""
        now = asyncio.get_running_loop().time()
        if of_all is not None and not what.startswith("POST /interactions/"):
            while self._recent and self._recent[0] <= now - GLOBAL_WINDOW:
                self._recent.popleft()
            if len(self._recent) >= of_all:
                return Limit(self._recent[0] + GLOBAL_WINDOW - now, "global", {"X-RateLimit-Global": "true"})
            self._recent.append(now)
        for route, given in rate_limits.items():
            if matches(route, what):
                return self._take_of(route, given, what, now)
        return {}

    def _take_of(self, route: str, given: Json, what: str, now: float) -> Limit | dict[str, str]:
        bucket = self._buckets.setdefault((route, _top_level(what)), Bucket(int(given["limit"]), float(given["per"])))
        if now >= bucket.resets:
            bucket.used, bucket.resets = 0, now + bucket.per
        after = bucket.resets - now
        spent = bucket.used >= bucket.limit
        bucket.used += not spent
        headers = {
            "X-RateLimit-Limit": str(bucket.limit),
            "X-RateLimit-Remaining": str(bucket.limit - bucket.used),
            "X-RateLimit-Reset": f"{time.time() + after:.3f}",
            "X-RateLimit-Reset-After": f"{after:.3f}",
            "X-RateLimit-Bucket": hashlib.sha256(route.encode()).hexdigest()[:32],
        }
        return Limit(after, "user", headers) if spent else headers


def _top_level(what: str) -> str:
    """The guild, channel or webhook of a path: each has its own buckets."""
    parts = what.partition(" /")[2].split("/")
    return parts[1] if len(parts) > 1 and parts[0] in ("guilds", "channels", "webhooks") else ""


def refusal(limit: Limit) -> tuple[Json | str, dict[str, str]]:
    """The body and the headers of a 429."""
    seconds = max(0.0, limit.retry_after)
    headers = {"Retry-After": str(math.ceil(seconds)), **limit.headers}
    if limit.scope == "edge":
        # Like the web server in front of Discord's API: no JSON, and none of the API's headers.
        return "<html><title>Access denied</title><body>error code: 1015</body></html>", headers
    message = "The resource is being rate limited." if limit.scope == "shared" else "You are being rate limited."
    body = {"message": message, "retry_after": round(seconds, 3), "global": limit.scope == "global"}
    return body, {**headers, "X-RateLimit-Scope": limit.scope}
