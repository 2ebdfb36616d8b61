"""Who is staff, with the real discord.py on a Discord that misbehaves. An incomplete staff list must never be sent."""

from __future__ import annotations

import asyncio
from typing import Any

import discord
import pytest
from stage import AutoShardedBot, Bot, Client, attach, discord_with, feed_server, guild, make, running, until

from bot_companion import GuildPermission, Limits

G1, G2 = str(1 << 22), str(2 << 22)
MEMBERS = "GET /guilds/{id}/members"
QUICK = Limits(listing_retry=0.05, longest_listing_retry=0.1, listing_rate=1000.0)


def grants(guild: Any) -> dict[int, list[GuildPermission]]:
    return {50: ["MOD"]}


def crew(count: int) -> list[dict[str, Any]]:
    return [{"user": {"id": str(100 + index)}, "roles": ["50"] if index % 2 else []} for index in range(count)]


def expected(count: int) -> dict[str, list[str]]:
    return {str(100 + index): ["50"] for index in range(count) if index % 2}


@pytest.mark.parametrize("kind", [Bot, AutoShardedBot, Client])
def test_a_guild_that_is_not_chunked_is_listed(kind: Any) -> None:
    async def test() -> None:
        # More than two pages of a listing.
        async with feed_server() as server, discord_with([guild(1, members=crew(2500)), guild(2)]) as fake:
            bot = make(kind, chunk_guilds_at_startup=False)
            companion = attach(bot, server.url, limits=QUICK, grants=grants)
            async with running(bot, fake.token):
                await until(lambda: server.feed.guilds.get(G1, {}).get("staff") == expected(2500), "listed")
                await until(lambda: server.feed.guilds[G2]["staff"] == {"10": ["50"]}, "the other one, too")
                assert all("staff" not in line for snapshot in server.feed.snapshots for line in snapshot)
                assert fake.requests[f"GET /guilds/{G1}/members"] == 3
                assert companion.status()["counters"]["listings"] == 2

                # The library has never seen this member.
                assert bot.get_guild(int(G1)).get_member(100) is None
                await fake.emit("GUILD_MEMBER_UPDATE", {"guild_id": G1, "user": {"id": "100"}, "roles": ["50"]})
                await until(lambda: "100" in server.feed.guilds[G1]["staff"])
                await fake.emit("GUILD_MEMBER_REMOVE", {"guild_id": G1, "user": {"id": "101"}})
                await until(lambda: "101" not in server.feed.guilds[G1]["staff"])
                await fake.emit("GUILD_ROLE_DELETE", {"guild_id": G1, "role_id": "50"})
                await until(lambda: server.feed.guilds[G1]["staff"] == {})

    asyncio.run(test())


def test_without_the_intent_staff_stays_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1), guild(2)]) as fake:
            bot = make(Bot)
            attach(bot, server.url, limits=QUICK, grants=grants)
            async with running(bot, fake.token):
                await until(lambda: server.feed.guilds.get(G2, {}).get("staff") == {"10": ["50"]})

            without = discord.Intents.none()
            without.guilds = True
            bot = Bot("!", intents=without, guild_ready_timeout=0.5)
            companion = attach(bot, server.url, limits=QUICK, grants=grants)
            async with running(bot, fake.token):
                await until(lambda: companion.status()["state"] == "synced")
                await fake.emit("GUILD_UPDATE", {"id": G1, "name": "Renamed"})
                await until(lambda: server.feed.guilds[G1]["name"] == "Renamed")
                companion.changed(int(G2))
                await until(lambda: companion.status()["counters"]["lines_sent"] == 4)
            assert [server.feed.guilds[one]["staff"] for one in (G1, G2)] == [{"10": ["50"]}] * 2
            assert fake.requests[f"GET /guilds/{G1}/members"] == 0

    asyncio.run(test())
    said = [record.getMessage() for record in caplog.records if "lacks the intent" in record.getMessage()]
    assert len(said) == 1 and "GUILD_MEMBERS" in said[0]


def test_chunks_that_never_come_and_listings_that_fail(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1), guild(2)]) as fake:
            fake.fault("chunks", "drop_chunks", guild=G1)
            # discord.py itself retries other 5xx errors.
            fault = fake.fault(MEMBERS, "status", status=503, guild=G1)
            bot = make(Bot)
            companion = attach(bot, server.url, limits=QUICK, grants=grants)
            async with running(bot, fake.token):
                await until(lambda: server.feed.guilds.get(G2, {}).get("staff") == {"10": ["50"]}, "this one was chunked")
                await until(lambda: fault.hits >= 3, "tried again")
                assert "staff" not in server.feed.snapshots[0][0]
                # Retried, but logged once.
                fake.clear_faults()
                await until(lambda: server.feed.guilds[G1]["staff"] == {"10": ["50"]}, "recovered on its own")
                assert companion.status()["counters"]["listing_failures"] >= 3

    asyncio.run(test())
    said = [record.getMessage() for record in caplog.records if record.name == "bot_companion"]
    assert len([message for message in said if f"the members of guild {G1} cannot be listed" in message]) == 1


def test_a_listing_that_is_forbidden_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1), guild(2)]) as fake:
            forbidden = fake.fault(MEMBERS, "status", status=403)
            bot = make(Bot, chunk_guilds_at_startup=False)
            companion = attach(bot, server.url, limits=QUICK, grants=grants)
            async with running(bot, fake.token):
                await until(lambda: companion.status()["counters"]["listing_failures"] == 1)
                await until(lambda: companion.status()["state"] == "synced")
                assert forbidden.hits == 1
                # A new session may be allowed to list them.
                fake.clear_faults()
                await fake.invalid_session()
                await until(lambda: server.feed.guilds[G2]["staff"] == {"10": ["50"]})
            assert all("staff" not in line for snapshot in server.feed.snapshots for line in snapshot)

    asyncio.run(test())
    said = [record.getMessage() for record in caplog.records if "lacks the intent" in record.getMessage()]
    assert len(said) == 1 and "GUILD_MEMBERS" in said[0]


@pytest.mark.parametrize("kind", [Bot, AutoShardedBot, Client])
def test_guilds_left_between_two_sessions_are_gone(kind: Any) -> None:
    async def test() -> None:
        async with feed_server() as server, discord_with([guild(1), guild(2), guild(3, unavailable=True)]) as fake:
            bot = make(kind)
            attach(bot, server.url, grants=grants)
            async with running(bot, fake.token):
                await until(lambda: set(server.feed.guilds) == {G1, G2})
                fake.world.guilds.pop(int(G2))
                fake.world.guilds[int(G1)].members.remove(10)
                fake.world.guilds[int(G1)].member_count -= 1
                await fake.invalid_session()
                await until(lambda: fake.counts["identifies"] == 2)
                await until(lambda: set(server.feed.guilds) == {G1}, "READY does not name it")
                await until(lambda: server.feed.guilds[G1]["staff"] == {}, "also left in the meantime")
                # It is back once the bot joins again.
                await fake.emit("GUILD_CREATE", guild(2))
                await until(lambda: set(server.feed.guilds) == {G1, G2})

    asyncio.run(test())


@pytest.mark.parametrize("chunk", [True, False])
def test_roles_that_change_during_an_outage(chunk: bool) -> None:
    async def test() -> None:
        people = [{"user": {"id": "10"}, "roles": ["50"]}, {"user": {"id": "11"}, "roles": ["51"]}]
        roles = [{"id": "50", "name": "Crew"}, {"id": "51", "name": "Pilot"}]
        async with feed_server() as server, discord_with([guild(1, members=people, roles=roles)]) as fake:
            bot = make(Bot, chunk_guilds_at_startup=chunk)
            attach(bot, server.url, grants=lambda guild: {50: ["MOD"], 51: ["ADMIN"]})

            def staff() -> Any:
                return server.feed.guilds.get(G1, {}).get("staff")

            async with running(bot, fake.world.token):
                await until(lambda: staff() == {"10": ["50"], "11": ["51"]})
                for _ in range(2):
                    await fake.emit("GUILD_DELETE", {"id": G1, "unavailable": True})
                    await until(lambda: bot.get_guild(int(G1)).unavailable)
                    fake.change("GUILD_MEMBER_UPDATE", {"guild_id": G1, "user": {"id": "10"}, "roles": []})
                    fake.change("GUILD_MEMBER_UPDATE", {"guild_id": G1, "user": {"id": "11"}, "roles": ["50", "51"]})
                    fake.change("GUILD_ROLE_DELETE", {"guild_id": G1, "role_id": "51"})
                    await fake.emit("GUILD_CREATE", {"id": G1})
                    await until(lambda: staff() == {"11": ["50"]})
                    await fake.emit("GUILD_MEMBER_UPDATE", {"guild_id": G1, "user": {"id": "10"}, "roles": ["50"]})
                    await until(lambda: staff() == {"10": ["50"], "11": ["50"]})

    asyncio.run(test())
