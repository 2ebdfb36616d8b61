"""Listings of members stay within the bot's limits, with the real discord.py on a fake Discord that counts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest
from scenario import World
from simulation import SimulatedLoop
from stage import Bot, attach, discord_with, feed_server, guild, make, running, until

from bot_companion import GuildPermission, Limits
from bot_companion._budget import Budget

G1 = str(1 << 22)
MEMBERS = "GET /guilds/{id}/members"


def grants(guild: Any) -> dict[int, list[GuildPermission]]:
    return {50: ["MOD"]}


def simulate(loop: SimulatedLoop, work: Coroutine[Any, Any, None]) -> None:
    try:
        loop.run(work, at_most=1e9)
    finally:
        loop.finish()


def listed(server: Any) -> int:
    return sum(guild.get("staff") == {"10": ["50"]} for guild in server.feed.guilds.values())


def test_many_listings_never_meet_discords_limit() -> None:
    """Without the budget discord.py lists as fast as it can, and meets the fake's limit of 50 requests per second."""

    async def test() -> None:
        async with feed_server() as server, discord_with([guild(number) for number in range(1, 91)]) as fake:
            bot = make(Bot, chunk_guilds_at_startup=False)
            attach(bot, server.url, limits=Limits(listing_rate=30), grants=grants)
            async with running(bot, fake.token):
                await until(lambda: listed(server) == 90, "all guilds are listed")
            assert fake.stats()["rate_limited"] == {"total": 0}
            assert sum(fake.requests[f"GET /guilds/{number << 22}/members"] for number in range(1, 91)) == 90

    asyncio.run(test())


@pytest.mark.parametrize("scope", ["user", "global", "shared", "edge"])
def test_a_limited_page_is_asked_for_again_and_slows_the_next_ones(scope: str) -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1), guild(2)]) as fake:
            limit = fake.fault(MEMBERS, "rate_limit", times=1, retry_after=0.05, scope=scope)
            bot = make(Bot, chunk_guilds_at_startup=False)
            companion = attach(bot, server.url, limits=Limits(listing_rate=100), grants=grants)
            budget = companion._budget
            async with running(bot, fake.token):
                await until(lambda: listed(server) == 2)
                assert limit.hits == 1 and fake.stats()["rate_limited"] == {"total": 1, scope: 1}
                assert (budget.times_limited, budget.slowdown) == (1, 2)
                assert companion.status()["counters"]["listing_failures"] == 0

    asyncio.run(test())


def test_a_limit_of_the_bots_own_requests_slows_listings_down() -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1)]) as fake:
            bot = make(Bot)
            companion = attach(bot, server.url)
            async with running(bot, fake.token):
                fake.fault("GET /guilds/{id}", "rate_limit", times=1, retry_after=0.05)
                assert (await bot.fetch_guild(int(G1))).name == "Harbour 1"
                assert companion._budget.times_limited == 1
                session = bot.http._HTTPClient__session
                assert len(session.trace_configs) == 1
                await companion.close()
                assert not session.trace_configs

    asyncio.run(test())


def test_a_library_that_has_changed_still_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session cannot be watched: the budget does not hear of limits, and everything else works."""
    monkeypatch.setattr("aiohttp.ClientSession.trace_configs", property(lambda session: None))

    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1)]) as fake:
            fake.fault(MEMBERS, "rate_limit", times=1, retry_after=0.05)
            bot = make(Bot, chunk_guilds_at_startup=False)
            companion = attach(bot, server.url, grants=grants)
            async with running(bot, fake.token):
                await until(lambda: listed(server) == 1)
                assert companion._budget.times_limited == 0

    asyncio.run(test())


def test_a_page_that_waits_for_the_end_of_a_limit_has_not_failed() -> None:
    """The library waits for longer than a page may take."""

    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1)]) as fake:
            limit = fake.fault(MEMBERS, "rate_limit", times=1, retry_after=300)
            bot = make(Bot, chunk_guilds_at_startup=False)
            limits = Limits(stall_timeout=0.5, longest_retry_after=0.1)
            companion = attach(bot, server.url, limits=limits, grants=grants)
            async with running(bot, fake.token):
                await until(lambda: listed(server) == 1)
                assert limit.hits == 1 and companion.status()["counters"]["listing_failures"] == 0

    asyncio.run(test())


def test_a_limit_without_end_is_cut() -> None:
    loop = SimulatedLoop()

    async def test() -> None:
        budget = Budget(World({}), Limits())
        for seconds in (float("inf"), float("nan"), 1e9):
            budget.limited(seconds)
            await budget.turn()
        assert loop.time() == 3 * 3600

    simulate(loop, test())


def test_the_minute_counts_from_the_end_of_the_limit() -> None:
    loop = SimulatedLoop()

    async def test() -> None:
        budget = Budget(World({}), Limits(listing_rate=1))
        budget.limited(3600)
        await budget.turn()
        await budget.turn()
        assert loop.time() == 3602, "half as often, though the 429 was an hour ago"
        await asyncio.sleep(58)
        await budget.turn()
        await budget.turn()
        assert loop.time() == 3661

    simulate(loop, test())


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), 1e-300, 1e300, "10", True, None])
def test_an_absurd_rate_is_refused(rate: Any) -> None:
    with pytest.raises(ValueError, match="listing_rate"):
        Limits(listing_rate=rate)


@pytest.mark.parametrize(
    ("name", "value"),
    [("heartbeat_interval", 0), ("batch_lines", 0.5), ("callbacks_at_once", 0), ("close_timeout", -1), ("changes", "many")],
)
def test_other_absurd_limits_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        Limits(**{name: value})


def test_something_else_than_limits_is_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "bot_companion")
    attach(make(Bot), "http://127.0.0.1:9", limits={"listing_rate": 5})  # type: ignore[arg-type]
    assert "`limits` must be a `bot_companion.Limits`" in caplog.text
