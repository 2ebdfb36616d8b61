"""REQUEST_GUILD_MEMBERS."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import Start
from raw import G1, G2, GUILDS, MEMBERS, PRESENCES, Gateway, connected, guild

from fake_discord import FakeDiscord


def ids(chunk: dict[str, Any]) -> list[str]:
    return [member["user"]["id"] for member in chunk["members"]]


async def begin(gateway: Gateway, intents: int = GUILDS | MEMBERS) -> None:
    ready = await gateway.ready(intents)
    for _ in ready["guilds"]:
        await gateway.event("GUILD_CREATE")


async def test_all_members_in_chunks_of_a_thousand(start: Start) -> None:
    fake = await start(generate={"guilds": 1, "members": 2500})
    async with connected(fake) as gateway:
        await begin(gateway)
        await gateway.request_members(G1, nonce="a")
        chunks = [await gateway.event("GUILD_MEMBERS_CHUNK") for _ in range(3)]
        assert [len(ids(chunk)) for chunk in chunks] == [1000, 1000, 501]
        assert [(chunk["chunk_index"], chunk["chunk_count"], chunk["nonce"]) for chunk in chunks] == [(0, 3, "a"), (1, 3, "a"), (2, 3, "a")]
        assert len({one for chunk in chunks for one in ids(chunk)}) == 2501


async def test_without_the_intent_a_request_for_all_is_not_answered(start: Start) -> None:
    fake = await start()
    async with connected(fake) as gateway:
        await begin(gateway, GUILDS)
        await gateway.request_members(G1, nonce="all")
        await gateway.request_members(G1, limit=5, nonce="some")
        await gateway.request_members(G1, user_ids=["10", "4711"], nonce="ids")
        chunk = await gateway.event("GUILD_MEMBERS_CHUNK")
        assert (chunk["nonce"], ids(chunk), chunk["not_found"]) == ("ids", ["10"], ["4711"])


async def test_by_name_and_by_ids_at_most_a_hundred(start: Start) -> None:
    fake = await start(guilds=[guild(1, people=150)])
    async with connected(fake) as gateway:
        await begin(gateway, GUILDS)
        await gateway.request_members(G1, query="person1", limit=0)
        assert len(ids(await gateway.event("GUILD_MEMBERS_CHUNK"))) == 61
        await gateway.request_members(G1, query="PERSON", limit=0)
        assert len(ids(await gateway.event("GUILD_MEMBERS_CHUNK"))) == 100
        await gateway.request_members(G1, query="person", limit=3)
        assert ids(await gateway.event("GUILD_MEMBERS_CHUNK")) == ["10", "11", "12"]
        await gateway.request_members(G1, user_ids=[str(10 + n) for n in range(120)])
        assert len(ids(await gateway.event("GUILD_MEMBERS_CHUNK"))) == 100
        await gateway.request_members(G1, user_ids="11")
        assert ids(await gateway.event("GUILD_MEMBERS_CHUNK")) == ["11"]


async def test_presences_need_their_intent(start: Start) -> None:
    described = guild(1)
    described["members"][0]["status"] = "online"
    fake = await start(guilds=[described], member_request_interval=0)
    for intents, expected in ((GUILDS | MEMBERS, []), (GUILDS | MEMBERS | PRESENCES, ["10"])):
        async with connected(fake) as gateway:
            await begin(gateway, intents)
            await gateway.request_members(G1, presences=True)
            chunk = await gateway.event("GUILD_MEMBERS_CHUNK")
            assert [one["user"]["id"] for one in chunk.get("presences", [])] == expected


async def test_a_long_nonce_is_ignored_and_so_is_an_unknown_guild(start: Start) -> None:
    fake = await start()
    async with connected(fake) as gateway:
        await begin(gateway)
        await gateway.request_members(999 << 22, nonce="nowhere")
        await gateway.request_members(G1, nonce="x" * 33)
        assert "nonce" not in await gateway.event("GUILD_MEMBERS_CHUNK")


async def test_all_members_of_a_guild_once_in_a_while(start: Start) -> None:
    assert (await start()).world.member_request_interval == 30
    fake = await start(member_request_interval=300)
    async with connected(fake) as gateway:
        await begin(gateway)
        await gateway.request_members(G1)
        await gateway.event("GUILD_MEMBERS_CHUNK")
        await gateway.request_members(G1, nonce="again")
        limited = await gateway.event("RATE_LIMITED")
        assert limited["opcode"] == 8 and 0 < limited["retry_after"] <= 300
        assert limited["meta"] == {"guild_id": str(G1), "nonce": "again"}
        await gateway.request_members(G2)
        await gateway.event("GUILD_MEMBERS_CHUNK")
    assert await fake.until("RATE_LIMITED", guild=G1)


async def test_a_request_without_a_wish_is_a_decode_error(start: Start) -> None:
    fake = await start()
    async with connected(fake) as gateway:
        await begin(gateway)
        await gateway.send(8, {"guild_id": str(G1)})
        assert await gateway.closed() == 4002


async def ask(fake: FakeDiscord, gateway: Gateway, nonce: str) -> dict[str, Any]:
    await gateway.request_members(G1, nonce=nonce)
    return await gateway.event("GUILD_MEMBERS_CHUNK")


async def test_chunks_that_never_come(start: Start) -> None:
    fake = await start(member_request_interval=0)
    fault = fake.fault("chunks", "drop_chunks", guild=G1, times=1)
    async with connected(fake) as gateway:
        await begin(gateway)
        await gateway.request_members(G1, nonce="lost")
        assert (await ask(fake, gateway, "found"))["nonce"] == "found"
    assert fault.hits == 1


@pytest.mark.parametrize(("people", "keep"), [(2500, 1), (2500, 2), (2, 1), (0, 1)])
async def test_chunks_of_which_some_are_missing(start: Start, people: int, keep: int) -> None:
    fake = await start(generate={"guilds": 1, "members": people}, member_request_interval=0)
    fake.fault("chunks", "partial_chunks", keep=keep, times=1)
    async with connected(fake) as gateway:
        await begin(gateway)
        await gateway.request_members(G1, nonce="part")
        chunks = [await gateway.event("GUILD_MEMBERS_CHUNK") for _ in range(keep)]
        assert all(chunk["chunk_count"] > keep for chunk in chunks)
        assert people == 0 or sum(len(ids(chunk)) for chunk in chunks) < people + 1
        assert (await ask(fake, gateway, "whole"))["nonce"] == "whole"


async def test_chunks_that_wait_and_other_faults(start: Start) -> None:
    fake = await start(member_request_interval=0)
    async with connected(fake) as gateway:
        await begin(gateway)
        fake.fault("chunks", "hang")
        await gateway.request_members(G1, nonce="late")
        await fake.until("REQUEST_GUILD_MEMBERS")
        assert fake.clear_faults() == 1
        assert (await gateway.event("GUILD_MEMBERS_CHUNK"))["nonce"] == "late"
        fake.fault("chunks", "rate_limit", retry_after=12.5, times=1)
        await gateway.request_members(G1)
        assert (await gateway.event("RATE_LIMITED"))["retry_after"] == 12.5
        fake.fault("chunks", "slow", seconds=0.01, times=1)
        await ask(fake, gateway, "slow")
        fake.fault("chunks", "close", code=4000, times=1)
        await gateway.request_members(G1)
        assert await gateway.closed() == 4000
