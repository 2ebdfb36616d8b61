"""A generated world."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest
from conftest import Start
from raw import GUILDS, MEMBERS, connected

from fake_discord import FakeDiscord
from fake_discord.generate import FIRST_MEMBER


async def read_shard(fake: FakeDiscord, shard: int, count: int) -> int:
    async with connected(fake) as gateway:
        ready = await gateway.ready(GUILDS | MEMBERS, shard=[shard, count])
        for announced in ready["guilds"]:
            assert (await gateway.event("GUILD_CREATE"))["id"] == announced["id"]
        return len(ready["guilds"])


async def test_thousands_of_guilds_on_several_shards(start: Start) -> None:
    fake = await start(generate={"guilds": 5_000, "members": 20, "roles": 3})
    assert fake.world.shards == 5
    assert sum(await asyncio.gather(*(read_shard(fake, shard, 5) for shard in range(5)))) == 5_000


async def test_what_is_generated(start: Start) -> None:
    fake = await start(generate={"guilds": 3, "members": 5, "roles": 2, "first_guild": 7})
    assert [identity >> 22 for identity in fake.world.guilds] == [7, 8, 9]
    guild = fake.world.guilds[8 << 22]
    first = FIRST_MEMBER + 8 * 5
    assert guild.members.ids() == [900, *range(first, first + 5)]
    holders = {member["user"]["id"]: member["roles"] for member in map(guild.members.get, guild.members.ids()) if member and member["roles"]}
    assert holders == {str(first): [str(guild.id + 1)], str(first + 1): [str(guild.id + 2)]}
    assert (guild.base()["owner_id"], guild.member_count) == (str(first), 6)
    await fake.emit("GUILD_MEMBER_REMOVE", {"guild_id": guild.id, "user": {"id": first}})
    await fake.emit("GUILD_MEMBER_UPDATE", {"guild_id": guild.id, "user": {"id": first + 1}, "nick": "Mate"})
    await fake.emit("GUILD_ROLE_DELETE", {"guild_id": guild.id, "role_id": guild.id + 2})
    assert guild.members.ids() == [900, *range(first + 1, first + 5)]
    changed = guild.members.get(first + 1)
    assert changed is not None and (changed["nick"], changed["roles"]) == ("Mate", [])
    assert first not in guild.members and guild.member_count == 5


@pytest.mark.parametrize("people", [0, 1_000_000])
def test_members_cost_nothing_until_they_are_asked_for(people: int) -> None:
    tracemalloc.start()
    world = FakeDiscord({"generate": {"guilds": 1000, "members": people, "roles": 3}}).world
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(world.guilds) == 1000 and used < 20 * 1024 * 1024
