"""Runs a bot that makes its own calls to the fake Discord with the real limits, with and without its SDK, and compares how long they take.

With the SDK every guild has to be listed, because the bot caches no members: that is when the SDK asks Discord the most.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any

from bots import Bot
from fake_discord import FakeDiscord

GUILDS = int(os.environ.get("SDK_GUILDS", "2000"))
MEMBERS = int(os.environ.get("SDK_MEMBERS", "20"))
ALONE = 300
"""How many calls to make without the SDK."""
LIMITS = {
    "global_rate_limit": 50,
    "rate_limits": {
        "GET /guilds/{id}/members": {"limit": 10, "per": 10},
        "POST /channels/{id}/messages": {"limit": 5, "per": 5},
    },
}


def place(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


async def measure(kind: str, sdk: str) -> dict[str, Any]:
    # Shards start without Discord's five-second delay, which isn't measured here.
    world = {"generate": {"guilds": GUILDS, "members": MEMBERS, "roles": 3}, "max_concurrency": 16, **LIMITS}
    async with FakeDiscord(world) as fake:
        bot = await Bot.start(kind, fake, sdk, chunk="no", calls=True)
        began, took = time.monotonic(), []
        while True:
            await asyncio.sleep(1)
            now = await bot.usage()
            took += now["took"]
            if (now["synced"] and now["listings"] >= GUILDS) if sdk == "with" else len(took) >= ALONE:
                break
        seconds = time.monotonic() - began
        requests = list(fake.record.entries("rest"))
        pages = [one for one in requests if one["what"].endswith("/members")]
        limited = sum(one["status"] == 429 for one in requests)
        await bot.stop()
        return {"took": took, "failed": now["failed"], "pages": len(pages), "limited": limited, "seconds": seconds}


async def main(kinds: list[str]) -> None:
    print(f"{GUILDS} guilds with {MEMBERS} members each; the bot sends eight messages a second; Discord's own limits")
    print(f"{'bot':8} {'SDK':8} {'calls':>6} {'failed':>6} {'p50 ms':>7} {'p95 ms':>7} {'pages':>6} {'429s':>5} {'seconds':>8}")
    for kind in kinds:
        rows = {}
        for sdk in ("without", "with"):
            found = rows[sdk] = await measure(kind, sdk)
            took = found["took"]
            print(
                f"{kind:8} {sdk:8} {len(took):6} {found['failed']:6} {place(took, 0.5):7.1f} {place(took, 0.95):7.1f} "
                f"{found['pages']:6} {found['limited']:5} {found['seconds']:8.0f}",
                flush=True,
            )
        ratios = [place(rows["with"]["took"], share) / place(rows["without"]["took"], share) for share in (0.5, 0.95)]
        print(f"{kind:8} with / without: p50 {ratios[0]:.2f}, p95 {ratios[1]:.2f}", flush=True)


asyncio.run(main(sys.argv[1:]))
