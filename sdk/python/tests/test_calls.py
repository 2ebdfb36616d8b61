"""The companion's calls: from other threads, and with nothing where a guild should be. The real discord.py, on a fake Discord."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from feed_model import KEY
from stage import Bot, attach, discord_with, feed_server, guild, make, running, until

import bot_companion
from bot_companion import Delivery, GuildPermission, Limits

G1, G2 = str(1 << 22), str(2 << 22)


async def in_thread(work: Callable[[], Any]) -> Any:
    """The result of a function that runs in a thread without an event loop."""
    return await asyncio.get_running_loop().run_in_executor(None, work)


def test_changes_from_another_thread_arrive() -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1)]) as fake:
            granted: dict[int, list[GuildPermission]] = {}
            subscribed: list[bot_companion.Subscription] = []
            bot = make(Bot)
            companion = attach(bot, server.url, grants=lambda guild: granted, subscriptions=lambda: subscribed)
            async with running(bot, fake.token):
                await until(lambda: companion.status()["state"] == "synced")
                granted[50] = ["MOD"]
                await in_thread(lambda: companion.changed(int(G1)))
                await until(lambda: server.feed.guilds[G1]["grants"] == {"50": ["MOD"]})
                granted[50] = ["ADMIN"]
                await in_thread(companion.changed)
                await until(lambda: server.feed.guilds[G1]["grants"] == {"50": ["ADMIN"]})
                subscribed.append({"userid": 1, "slots": 1, "guilds": [], "active_until": None})
                await in_thread(companion.subscriptions_changed)
                await until(lambda: list(server.feed.subscriptions) == ["1"])
                assert (await in_thread(companion.status))["state"] in ("syncing", "synced")

    asyncio.run(test())


def test_feedback_from_another_thread_is_delivered_and_awaited_there(tmp_path: Path) -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1)]) as fake:
            bot = make(Bot)
            companion = bot_companion.attach(bot, url=server.url, key=KEY, sigterm=False, spool=str(tmp_path / "spool"))

            async def rate(number: int) -> Delivery:
                return await companion.feedback(number, "bright", 5, {"id": 1, "username": "u"})

            async with running(bot, fake.token):
                deliveries = await in_thread(lambda: asyncio.run(rate(1))), await rate(2)
                assert [delivery.delivered for delivery in deliveries] == [True, True]
                # Many at once, each in its own loop.
                with ThreadPoolExecutor(8) as pool:
                    loop = asyncio.get_running_loop()
                    many = await asyncio.gather(
                        *(loop.run_in_executor(pool, lambda number=number: asyncio.run(rate(number))) for number in range(3, 103))  # type: ignore[misc]
                    )
                assert all(delivery.delivered for delivery in many)
                assert set(server.feed.feedback) == {str(number) for number in range(1, 103)}
            late = await in_thread(lambda: asyncio.run(rate(103)))
            assert late.delivered is False and "closed" in (late.reason or "")

    asyncio.run(test())


def test_feedback_that_a_thread_gave_before_the_start_is_sent_then() -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1)]) as fake:
            made: list[Any] = []

            def prepare() -> None:
                bot = make(Bot)
                companion = attach(bot, server.url)
                made.extend((bot, companion, companion.feedback(1, "bright", 5, {"id": 1, "username": "u"})))
                companion.changed()

            await in_thread(prepare)
            bot, companion, delivery = made
            async with running(bot, fake.token):
                assert (await delivery).delivered
            assert companion.status()["last_error"] is None

    asyncio.run(test())


def test_close_from_another_thread() -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1)]) as fake:
            bot = make(Bot)
            companion = attach(bot, server.url, limits=Limits(gather_time=3600.0))
            async with running(bot, fake.token):
                await until(lambda: companion.status()["state"] == "synced")
                delivery = companion.feedback(1, "bright", 5, {"id": 1, "username": "u"})
                await in_thread(lambda: asyncio.run(companion.close()))
                assert delivery.delivered and companion.status()["state"] == "closed"

    asyncio.run(test())


def test_handlers_are_called_in_the_bots_loop() -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1)]) as fake:
            bot = make(Bot)
            companion = attach(bot, server.url)
            heard: list[tuple[str, bool]] = []
            main = threading.get_ident()
            companion.on("error", lambda message: heard.append((message, threading.get_ident() == main)))
            async with running(bot, fake.token):
                await until(lambda: companion.status()["state"] == "synced")
                await in_thread(lambda: companion.changed(None))
                await until(lambda: heard)
                assert heard[0][1]

    asyncio.run(test())


@pytest.mark.parametrize("wrong", [None, "harbour", ""])
def test_no_guild_changes_nothing_and_is_said_once(wrong: Any, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1)]) as fake:
            bot = make(Bot)
            companion = attach(bot, server.url)
            async with running(bot, fake.token):
                await until(lambda: companion.status()["state"] == "synced")
                companion.changed(wrong)
                companion.changed(wrong)
                # The next line proves that nothing was sent before it.
                companion.changed(int(G1))
                await until(lambda: companion.status()["counters"]["lines_sent"] == 2)
                assert companion.status()["counters"]["resyncs"] == 0 and len(server.feed.snapshots) == 1
                companion.changed()
                await until(lambda: len(server.feed.snapshots) == 2)

    asyncio.run(test())
    said = [record for record in caplog.records if "changed()" in record.getMessage()]
    assert len(said) == 1 and said[0].levelname == "WARNING" and "without an argument" in said[0].getMessage()
