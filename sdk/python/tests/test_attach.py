"""`attach`: its settings, twice, and what a wrong setup says."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import discord
import pytest
from feed_model import KEY
from stage import AutoShardedBot, Bot, discord_with, feed_server, guild, make, running, until

import bot_companion

G1 = str(1 << 22)
SECRET = "bck_Zm9yLXRoZS10ZXN0cw"


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COMPANION_URL", "COMPANION_BOT_KEY", "COMPANION_SPOOL"):
        monkeypatch.delenv(name, raising=False)


WRONG = [
    ({}, "COMPANION_URL", "http://"),
    ({"url": ""}, "`url`", "http://"),
    ({"url": "127.0.0.1:8080"}, "`url`", "https://127.0.0.1:8080"),
    ({"url": "companion.example"}, "`url`", "no scheme"),
    ({"url": "ftp://companion.example"}, "`url`", "https://"),
    ({"url": "http://companion.example\n"}, "`url`", "remove"),
    ({"url": f"http://user:{SECRET}@companion.example"}, "`url`", "remove"),
    ({"url": "http://"}, "`url`", "not an address"),
    ({"url": "http://companion.example", "key": ""}, "`key`", "key create"),
    ({"url": "http://companion.example"}, "COMPANION_BOT_KEY", "key create"),
    ({"url": "http://companion.example", "key": f"{SECRET}\n"}, "`key`", "remove"),
    ({"url": "http://companion.example", "key": f" {SECRET}"}, "`key`", "remove"),
    ({"url": "http://companion.example", "key": f"{SECRET} {SECRET}"}, "`key`", "copy"),
]


@pytest.mark.parametrize(("arguments", "names", "remedy"), WRONG)
def test_a_wrong_setting_names_itself_and_the_remedy(
    arguments: dict[str, Any], names: str, remedy: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        bot = make(Bot)
        companion = bot_companion.attach(bot, **arguments)
        companion.changed()
        delivery = await companion.feedback("1", "bright", 5, {"id": 1, "username": "u"})
        assert delivery.delivered is False and "nothing is reported" in (delivery.reason or "")
        assert companion.status()["counters"]["requests"] == 0
        await companion.close()
        await bot.close()

    asyncio.run(test())
    # The library of an earlier test may also log an error.
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR" and record.name == "bot_companion"]
    assert len(errors) == 1 and names in errors[0] and remedy in errors[0]
    assert SECRET not in caplog.text


def test_the_variable_is_named(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("COMPANION_URL", "http://companion.example")
    monkeypatch.setenv("COMPANION_BOT_KEY", f"{SECRET}\n")
    bot_companion.attach(make(Bot))
    assert "COMPANION_BOT_KEY" in caplog.text and SECRET not in caplog.text


def test_a_second_attach_says_what_it_ignores(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1)]) as fake:
            bot = make(Bot)
            first = bot_companion.attach(bot, url=server.url, key=KEY)
            assert bot_companion.attach(bot) is first
            assert not caplog.records
            assert bot_companion.attach(bot, grants=lambda guild: {}, team=lambda: []) is first
            async with running(bot, fake.token):
                await until(lambda: G1 in server.feed.guilds)

    asyncio.run(test())
    said = [record.getMessage() for record in caplog.records if "already attached" in record.getMessage()]
    assert len(said) == 1 and "grants, team" in said[0] and "Attach once" in said[0]


def test_a_library_that_lacks_a_hook(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        bot = make(Bot)
        parsers = bot._connection.parsers
        bot._connection.parsers = {event: parser for event, parser in parsers.items() if event != "GUILD_ROLE_DELETE"}
        await bot_companion.attach(bot, url="http://companion.example", key=SECRET).close()
        await bot.close()

    asyncio.run(test())
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING" and record.name == "bot_companion"]
    assert said == [f"discord.py {discord.__version__} lacks what the SDK patches: GUILD_ROLE_DELETE. Use a version that the SDK supports"]


def test_a_key_that_no_role_can_grant(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1), guild(2)]) as fake:
            bot = make(Bot)

            def grants(guild: Any) -> Any:
                return {50: ["ADMN"]}

            bot_companion.attach(bot, url=server.url, key=KEY, grants=grants)
            async with running(bot, fake.token):
                await until(lambda: len(server.feed.guilds) == 2)
                assert server.feed.guilds[G1]["grants"] == {}

    asyncio.run(test())
    said = [record for record in caplog.records if "ADMN" in record.getMessage()]
    assert len(said) == 1 and said[0].levelname == "WARNING"
    assert "role 50" in said[0].getMessage() and "did you mean ADMIN?" in said[0].getMessage()


def test_the_first_sync_is_said_and_the_status_tells_more(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "bot_companion")

    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1), guild(2)]) as fake:
            bot = make(Bot)
            heard: list[str] = []
            companion = bot_companion.attach(bot, url=server.url, key=KEY, grants=lambda guild: {50: ["MOD"]})
            companion.on("synced", lambda: heard.append("synced"))
            assert companion.status()["state"] == "starting"
            async with running(bot, fake.token):
                await until(lambda: heard)
                assert f"connected to {server.url} as lantern: 2 guilds, 1 shard, 2 staff" in caplog.text
                status = companion.status()
                assert status["state"] == "synced" and status["staff"] == 2
                await until(lambda: status["instance"] in server.feed.heartbeats)
                with pytest.raises(ValueError, match="synced"):
                    companion.on("sinked", print)  # type: ignore[call-overload]
            assert companion.status()["state"] == "closed"

    asyncio.run(test())


def test_every_own_shard_is_in_the_line(caplog: pytest.LogCaptureFixture) -> None:
    """An auto-sharded bot starts its shards one after the other; the first is reported before the last has started."""
    caplog.set_level("INFO", "bot_companion")

    async def test() -> None:
        async with feed_server() as server, discord_with([guild(number) for number in range(1, 9)], shards=4) as fake:
            last = asyncio.Event()

            class Slow(AutoShardedBot):
                async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
                    if shard_id == 3:
                        await last.wait()

            bot = make(Slow)
            companion = bot_companion.attach(bot, url=server.url, key=KEY)
            running_bot = asyncio.ensure_future(bot.start(fake.token))
            try:
                await until(lambda: len(server.feed.shards) == 3)
                assert "connected" not in caplog.text and companion.status()["state"] == "syncing"
                # The started ones are reported.
                await until(lambda: [len(beat["shards"]) for beat in server.feed.heartbeats.values()] == [3])
                last.set()
                await until(lambda: companion.status()["state"] == "synced")
            finally:
                await bot.close()
                await asyncio.gather(running_bot, return_exceptions=True)

    asyncio.run(test())
    said = [record.getMessage() for record in caplog.records if "connected" in record.getMessage() and record.name == "bot_companion"]
    assert len(said) == 1 and said[0].endswith("as lantern: 8 guilds, 4 shards, 0 staff (no `grants` callback)")


def unconfigured(monkeypatch: pytest.MonkeyPatch) -> logging.Logger:
    """The logger, as in a program that has not set up logging. Called in the test itself, because pytest adds its handlers before."""
    logger = logging.getLogger("bot_companion")
    monkeypatch.setattr(logger, "propagate", False)
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "level", logging.NOTSET)
    return logger


def connect() -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1)]) as fake:
            bot = make(Bot)
            companion = bot_companion.attach(bot, url=server.url, key=KEY)
            async with running(bot, fake.token):
                await until(lambda: companion.status()["state"] == "synced")

    asyncio.run(test())


def test_a_bot_without_logging_sees_that_it_is_connected(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    unconfigured(monkeypatch)
    connect()
    (line,) = capsys.readouterr().err.splitlines()
    assert "[INFO    ] bot_companion: connected to http://127.0.0.1:" in line


def test_what_the_bot_has_set_up_counts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    logger = unconfigured(monkeypatch)
    bot_companion.attach(make(Bot), url="")
    assert "bot_companion: the argument `url` is empty" in capsys.readouterr().err
    # Set up later: each line comes once.
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("own %(message)s"))
    logger.addHandler(handler)
    bot_companion.attach(make(Bot), url="")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("own the argument `url` is empty")
    logger.removeHandler(handler)
    # Switched off.
    logger.addHandler(logging.NullHandler())
    bot_companion.attach(make(Bot), url="")
    logger.handlers.clear()
    logger.level = logging.CRITICAL
    bot_companion.attach(make(Bot), url="")
    assert capsys.readouterr().err == ""
