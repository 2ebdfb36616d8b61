"""The real discord.py, connected to a fake Discord, reporting over real sockets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from feed_model import KEY, Feed, FeedServer
from stage import AutoShardedBot, Bot, Client, attach, discord_with, feed_server, guild, make, running, until

import bot_companion
from bot_companion import GuildPermission, Subscription, _adapter
from bot_companion._limits import Limits

G1, G2 = str(1 << 22), str(2 << 22)


def grants(guild: Any) -> dict[int, list[GuildPermission]]:
    return {50: ["MOD"]}


def test_the_three_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1), guild(2, icon="abc"), guild(3, unavailable=True)]) as fake:
            monkeypatch.setenv("COMPANION_URL", server.url)
            monkeypatch.setenv("COMPANION_BOT_KEY", KEY)

            class ThreeLines(Bot):
                async def setup_hook(self) -> None:
                    await self.load_extension("bot_companion")

            async with running(make(ThreeLines), fake.world.token) as bot:
                await until(lambda: set(server.feed.guilds) == {G1, G2})
                assert server.feed.guilds[G2] == {
                    "id": G2, "name": "Harbour 2", "icon": "abc", "owner": "10", "members": 3,
                    "setup": False, "linked": False, "grants": {}, "staff": {},
                }  # fmt: skip
                (beat,) = server.feed.heartbeats.values()
                assert beat["library"].startswith("discord.py 2.")
                assert [shard["id"] for shard in beat["shards"]] == [0]
                assert "bot_companion" in bot.extensions

                await fake.emit("GUILD_CREATE", guild(3))
                await until(lambda: str(3 << 22) in server.feed.guilds, "back from the outage")
                await fake.emit("GUILD_DELETE", {"id": G1})
                await until(lambda: G1 not in server.feed.guilds, "removed")
                # Closing also sends what is left.
                await fake.emit("GUILD_UPDATE", {"id": G2, "name": "Lighthouse"})
                await until(lambda: bot.get_guild(int(G2)).name == "Lighthouse")
            assert server.feed.guilds[G2]["name"] == "Lighthouse"

    asyncio.run(test())


def test_events_of_the_library_reach_the_service() -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1), guild(2)]) as fake:
            bot = make(Bot)
            companion = bot_companion.attach(bot, url=server.url, key=KEY, grants=grants)

            def staff() -> Any:
                return server.feed.guilds.get(G1, {}).get("staff")

            async with running(bot, fake.world.token):
                await until(lambda: staff() == {"10": ["50"]})
                await fake.emit("GUILD_MEMBER_ADD", {"guild_id": G1, "user": {"id": "12"}, "roles": ["50"]})
                await until(lambda: staff() == {"10": ["50"], "12": ["50"]})
                await fake.emit("GUILD_MEMBER_UPDATE", {"guild_id": G1, "user": {"id": "12"}, "roles": []})
                await until(lambda: staff() == {"10": ["50"]})
                await fake.emit("GUILD_MEMBER_REMOVE", {"guild_id": G1, "user": {"id": "10"}})
                await until(lambda: staff() == {})

                await fake.emit("GUILD_DELETE", {"id": G2, "unavailable": True})
                await fake.emit("GUILD_UPDATE", {"id": G1, "name": "Lighthouse"})
                await until(lambda: server.feed.guilds[G1]["name"] == "Lighthouse")
                assert G2 in server.feed.guilds, "an outage is not a departure"
                await fake.emit("GUILD_CREATE", {"id": G2, "name": "Back"})
                await until(lambda: server.feed.guilds[G2]["name"] == "Back")
                assert server.feed.guilds[G2]["staff"] == {"10": ["50"]}
                await fake.emit("GUILD_ROLE_DELETE", {"guild_id": G2, "role_id": "50"})
                await until(lambda: server.feed.guilds[G2]["staff"] == {})

                companion.feedback(1, "bright", 5, bot.user)
                await until(lambda: "1" in server.feed.feedback)
                assert server.feed.feedback["1"]["submitter"]["username"] == "lantern"
                assert server.feed.feedback["1"]["submitter"]["avatar"].startswith("https://")

    asyncio.run(test())


def test_heartbeats_carry_the_shards_health() -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1)], heartbeat_interval=50) as fake:
            bot = make(Bot)
            attach(bot, server.url, limits=Limits(heartbeat_interval=0.05))
            async with running(bot, fake.world.token):

                def health() -> Any:
                    return next((beat["shards"][0] for beat in server.feed.heartbeats.values()), {})

                await until(lambda: health().get("acknowledged_ms_ago") is not None)
                assert health()["latency"] >= 0 and health()["sent_ms_ago"] >= 0

    asyncio.run(test())


def test_an_auto_sharded_bot_through_drops_and_new_sessions() -> None:
    async def test() -> None:
        guilds = [guild(number) for number in range(1, 9)]
        async with feed_server() as server, discord_with(guilds, shards=4) as fake:
            bot = make(AutoShardedBot)
            bot_companion.attach(bot, url=server.url, key=KEY, grants=grants)
            async with running(bot, fake.world.token):
                await until(lambda: len(server.feed.guilds) == 8)
                assert set(server.feed.shards) == {(4, shard) for shard in range(4)}

                for connection in list(fake.connections):
                    await connection.close(None)
                await until(lambda: fake.counts["resumes"] == 4)
                await fake.emit("GUILD_UPDATE", {"id": G1, "name": "Resumed"})
                await until(lambda: server.feed.guilds[G1]["name"] == "Resumed")

                # A new session: what happened meanwhile is only in the snapshot that follows.
                fake.world.guilds.pop(int(G2))
                fake.world.guilds[int(G1)].rest["name"] = "Identified"
                await fake.invalid_session()
                await until(lambda: fake.counts["identifies"] == 8)
                await until(lambda: server.feed.guilds[G1]["name"] == "Identified")
                await until(lambda: G2 not in server.feed.guilds, "left while no session was open")
                assert len(server.feed.guilds) == 7 and len(server.feed.heartbeats) == 1

    asyncio.run(test())


def test_a_plain_client() -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1)]) as fake:
            client = make(Client)
            bot_companion.attach(client, url=server.url, key=KEY)
            async with running(client, fake.world.token):
                await until(lambda: G1 in server.feed.guilds)
                fresh = guild(5)
                await fake.emit("GUILD_CREATE", fresh)
                await until(lambda: fresh["id"] in server.feed.guilds)

    asyncio.run(test())


def test_a_guild_whose_members_cannot_be_requested() -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1)]) as fake:
            bot = make(Bot)
            bot_companion.attach(bot, url=server.url, key=KEY, grants=grants)
            async with running(bot, fake.world.token):
                await until(lambda: G1 in server.feed.guilds)
                asked = asyncio.Event()

                async def closed(*_: Any, **__: Any) -> None:
                    asked.set()
                    raise ConnectionResetError("Cannot write to closing transport")

                bot._connection.chunk_guild = closed
                await fake.emit("GUILD_CREATE", guild(5))
                await until(lambda: str(5 << 22) in server.feed.guilds)
                assert asked.is_set()

    asyncio.run(test())


def test_a_shard_that_the_library_never_reports_as_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_adapter, "QUIET", 0.3)

    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1), guild(2)]) as fake:
            bot = make(AutoShardedBot, shard_count=2)
            bot_companion.attach(bot, url=server.url, key=KEY, grants=grants)
            async with running(bot, fake.world.token):
                await until(lambda: set(server.feed.guilds) == {G1, G2})
                asked = asyncio.Event()

                async def closed(*_: Any, **__: Any) -> None:
                    asked.set()
                    raise ConnectionResetError("Cannot write to closing transport")

                bot._connection.chunk_guild = closed
                fake.world.guilds[int(G1)].rest["name"] = "Identified"
                await fake.invalid_session()
                await until(lambda: server.feed.guilds[G1]["name"] == "Identified")
                assert asked.is_set()

    asyncio.run(test())


def test_a_guild_left_while_its_members_are_requested() -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1), guild(2)]) as fake:
            bot = make(Bot)
            companion = bot_companion.attach(bot, url=server.url, key=KEY)
            async with running(bot, fake.world.token):
                await until(lambda: set(server.feed.guilds) == {G1, G2} and companion.status()["state"] == "synced")
                asked: dict[int, asyncio.Future[None]] = {}

                async def chunk_guild(guild: Any, **_: Any) -> asyncio.Future[None]:
                    return asked.setdefault(guild.id, asyncio.get_running_loop().create_future())

                bot._connection.chunk_guild = chunk_guild
                await fake.invalid_session()
                await until(lambda: set(asked) == {int(G1), int(G2)})
                await fake.emit("GUILD_DELETE", {"id": G2})
                await until(lambda: bot.get_guild(int(G2)) is None)
                for future in asked.values():
                    future.set_result(None)
                await until(lambda: G2 not in server.feed.guilds)
                assert G1 in server.feed.guilds

    asyncio.run(test())


def test_two_clusters_do_not_overwrite_each_other() -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(number) for number in range(1, 9)]) as fake:
            bots = [make(Bot, shard_id=shard, shard_count=2) for shard in (0, 1)]
            premium: Subscription = {"userid": 1, "slots": 1, "guilds": [], "active_until": None}
            for bot in bots:
                bot_companion.attach(bot, url=server.url, key=KEY, subscriptions=lambda: [premium])
            async with running(bots[0], fake.world.token), running(bots[1], fake.world.token):
                await until(lambda: len(server.feed.guilds) == 8 and len(server.feed.heartbeats) == 2)
                reported = sorted(shard["id"] for beat in server.feed.heartbeats.values() for shard in beat["shards"])
                assert reported == [0, 1]
                await until(lambda: list(server.feed.subscriptions) == ["1"])
                assert server.feed.requests.count(("PUT", "/bot/subscriptions")) == 1
                await fake.emit("GUILD_DELETE", {"id": G1})
                await fake.emit("GUILD_DELETE", {"id": G2})
                await until(lambda: len(server.feed.guilds) == 6)

    asyncio.run(test())


@pytest.mark.parametrize("keeps", [True, False])
def test_the_service_restarts_under_the_bot(keeps: bool) -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1), guild(2)]) as fake:
            bot = make(Bot)
            limits = Limits(heartbeat_interval=0.2, first_retry=0.05, longest_retry=0.2)
            companion = attach(bot, server.url, limits=limits)
            async with running(bot, fake.world.token):
                await until(lambda: len(server.feed.guilds) == 2)
                await server.stop()
                await fake.emit("GUILD_UPDATE", {"id": G1, "name": "While away"})
                await fake.emit("GUILD_DELETE", {"id": G2})
                await until(lambda: companion.status()["state"] == "unreachable")
                if not keeps:
                    server.feed.forget()
                await server.start()
                await until(lambda: {k: v["name"] for k, v in server.feed.guilds.items()} == {G1: "While away"})
                assert fake.counts["identifies"] == 1 and fake.counts["resumes"] == 0, "the bot has noticed"

    asyncio.run(test())


def test_a_wrong_key_or_no_service_does_not_touch_the_bot(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1)]) as fake:
            wrong = make(Bot)
            bot_companion.attach(wrong, url=server.url, key="bck_wrong")
            async with running(wrong, fake.world.token):
                await until(lambda: 401 in server.feed.answers)
            gone = FeedServer(Feed())
            await gone.start()
            await gone.stop()
            nobody = make(Bot)
            companion = bot_companion.attach(nobody, url=gone.url, key=KEY)
            async with running(nobody, fake.world.token):
                await until(lambda: companion.status()["state"] == "unreachable")
            for url in ("not a url", "ftp://127.0.0.1", ""):
                odd = make(Bot)
                companion = bot_companion.attach(odd, url=url, key=KEY)
                async with running(odd, fake.world.token):
                    companion.feedback(1, "bright", 5, odd.user)
                    companion.changed()

    asyncio.run(test())
    said = [record.getMessage() for record in caplog.records if "refuses the bot key" in record.getMessage()]
    assert len(said) == 1 and said[0].count("key create") == 1


def test_extensions_can_be_unloaded_and_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1)]) as fake:
            monkeypatch.setenv("COMPANION_URL", server.url)
            monkeypatch.setenv("COMPANION_BOT_KEY", KEY)
            bot = make(Bot)
            async with running(bot, fake.world.token):
                for _ in range(2):
                    server.feed.forget()
                    await bot.load_extension("bot_companion")
                    await until(lambda: G1 in server.feed.guilds, "a bot that is ready already")
                    await bot.unload_extension("bot_companion")
                    assert not any(bot.extra_events.values())

    asyncio.run(test())


def test_a_big_snapshot_lets_the_bot_run() -> None:
    async def test() -> None:
        guilds = [guild(number) for number in range(1, 1001)]
        async with feed_server() as server, discord_with(guilds) as fake:
            bot = make(Bot, chunk_guilds_at_startup=False)
            turns = 0

            async def tick() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            async with running(bot, fake.world.token):
                # The snapshot begins here, with the bot at rest.
                attach(bot, server.url, limits=Limits(slice=0.0))
                ticking = asyncio.ensure_future(tick())
                await until(lambda: len(server.feed.guilds) == 1000)
                ticking.cancel()
                assert turns > 1000

    asyncio.run(test())


def test_forks_do_not_await_setup(monkeypatch: pytest.MonkeyPatch) -> None:
    """py-cord, nextcord and disnake call `setup` as a plain function, often before there is a loop."""
    monkeypatch.setenv("COMPANION_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("COMPANION_BOT_KEY", KEY)

    async def test(bot: Any) -> None:
        # Like the gateway.
        ready = {"v": 10, "user": {"id": "900", "username": "lantern", "discriminator": "0", "avatar": None}, "guilds": []}
        bot._connection.parsers["READY"](ready)
        await bot.close()

    bot = make(Bot)
    before = dict(bot._connection.parsers)
    bot_companion.setup(bot)
    assert bot._connection.parsers != before
    asyncio.run(test(bot))
    assert bot._connection.parsers == before
