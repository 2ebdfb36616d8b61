"""Sessions: RESUME, INVALID_SESSION, RECONNECT, and what ends them."""

from __future__ import annotations

import pytest
from conftest import Start
from raw import G1, G2, GUILDS, MEMBERS, Closed, Gateway, connected, guild

from fake_discord import FakeDiscord


async def begin(gateway: Gateway, intents: int = GUILDS) -> None:
    ready = await gateway.ready(intents)
    for _ in ready["guilds"]:
        await gateway.event("GUILD_CREATE")


async def rename(fake: FakeDiscord, *names: str) -> None:
    for name in names:
        await fake.emit("GUILD_UPDATE", {"id": G1, "name": name})


async def test_resume_replays_what_was_missed(start: Start) -> None:
    fake = await start()
    async with connected(fake) as first:
        await begin(first)
        assert await fake.drop() == 1
        assert await first.closed() in (None, 1006)
    assert await fake.emit("GUILD_UPDATE", {"id": G1, "name": "Missed"}) == 0
    await rename(fake, "Missed, too")
    async with connected(fake) as second:
        await second.resume(first.session, first.sequence)
        assert (await second.event("GUILD_UPDATE"))["name"] == "Missed"
        assert (await second.event("GUILD_UPDATE"))["name"] == "Missed, too"
        await second.event("RESUMED")
        await rename(fake, "Live")
        assert (await second.event("GUILD_UPDATE"))["name"] == "Live"
    assert fake.stats()["resumes"] == 1 and fake.stats()["identifies"] == 1


async def test_a_resumed_session_keeps_its_intents(start: Start) -> None:
    fake = await start()
    async with connected(fake) as first:
        await begin(first, GUILDS)
    async with connected(fake) as second:
        await second.ready(GUILDS | MEMBERS)
    assert await fake.emit("GUILD_MEMBER_ADD", {"guild_id": G1, "user": {"id": "5"}}) == 0


async def test_the_buffer_for_resumes_is_bounded(start: Start) -> None:
    fake = await start(guilds=[guild(1)], resume_buffer=3)
    async with connected(fake) as first:
        await begin(first)
        await fake.drop()
        await first.closed()
    await rename(fake, "1", "2", "3")
    async with connected(fake) as second:
        await second.resume(first.session, first.sequence)
        assert [(await second.event("GUILD_UPDATE"))["name"] for _ in range(3)] == ["1", "2", "3"]
        await second.event("RESUMED")
        await fake.drop()
        await second.closed()
    await rename(fake, "4", "5", "6", "7")
    async with connected(fake) as third:
        await third.resume(first.session, second.sequence)
        assert await third.next() == {"op": 9, "d": False, "s": None, "t": None}
        await begin(third)


async def test_resumes_that_are_refused(start: Start) -> None:
    fake = await start()
    async with connected(fake) as gateway:
        await begin(gateway)
        await fake.drop()
        await gateway.closed()
    async with connected(fake) as other:
        await other.resume("no such session", 1)
        assert (await other.next())["d"] is False
    async with connected(fake) as other:
        await other.resume(gateway.session, gateway.sequence + 1)
        assert await other.closed() == 4007
    async with connected(fake) as other:
        await other.send(6, {"token": "wrong", "session_id": gateway.session, "seq": 1})
        assert await other.closed() == 4004


@pytest.mark.parametrize(("code", "survives"), [(1000, False), (1001, False), (4000, True)])
async def test_a_client_that_says_goodbye_ends_its_session(start: Start, code: int, survives: bool) -> None:
    fake = await start()
    async with connected(fake) as gateway:
        await begin(gateway)
        await gateway.socket.close(code=code)
    await fake.until("CLOSE", code=code)
    async with connected(fake) as other:
        await other.resume(gateway.session, gateway.sequence)
        assert (await other.next())["t"] == ("RESUMED" if survives else None)


@pytest.mark.parametrize("resumable", [True, False])
async def test_invalid_session(start: Start, resumable: bool) -> None:
    """discord.js goes on with the same connection."""
    fake = await start()
    async with connected(fake) as gateway:
        await begin(gateway)
        assert await fake.invalid_session(resumable=resumable) == 1
        assert (await gateway.next())["d"] is resumable
        await gateway.resume(gateway.session, gateway.sequence)
        answer = await gateway.next()
        assert (answer["t"], answer["op"]) == (("RESUMED", 0) if resumable else (None, 9))


async def test_reconnect_and_drops_of_one_shard(start: Start) -> None:
    fake = await start()
    async with connected(fake) as first, connected(fake) as second:
        await first.ready(shard=[0, 2])
        await second.ready(shard=[1, 2])
        assert await fake.reconnect(shard=1) == 1
        assert await fake.drop(shard=0, code=4000) == 1
        await second.event("GUILD_CREATE")
        assert (await second.next())["op"] == 7
        assert await first.closed() == 4000


async def test_a_dropped_session_can_be_forgotten(start: Start) -> None:
    fake = await start()
    async with connected(fake) as gateway:
        await begin(gateway)
        await fake.drop(forget=True)
        await gateway.closed()
    async with connected(fake) as other:
        await other.resume(gateway.session, gateway.sequence)
        assert (await other.next())["op"] == 9


async def test_a_session_that_waits_for_its_resume_can_be_forgotten(start: Start) -> None:
    fake = await start()
    async with connected(fake) as gateway:
        await begin(gateway)
        await fake.drop()
        await gateway.closed()
    assert await fake.drop(shard=1, forget=True) == 0
    assert fake.stats()["sessions"] == 1, "it belongs to another shard"
    assert await fake.drop(forget=True) == 0
    async with connected(fake) as other:
        await other.resume(gateway.session, gateway.sequence)
        assert (await other.next())["op"] == 9


async def test_a_zombie_says_nothing_and_keeps_everything_for_a_resume(start: Start) -> None:
    fake = await start()
    async with connected(fake) as gateway:
        await begin(gateway)
        assert fake.make_zombies(shard=0) == 1
        await gateway.send(1, gateway.sequence)
        await rename(fake, "Unheard")
        await fake.drop(code=4000)
        with pytest.raises(Closed):
            await gateway.next()
    async with connected(fake) as second:
        await second.resume(gateway.session, gateway.sequence)
        assert (await second.event("GUILD_UPDATE"))["name"] == "Unheard"
        await second.event("RESUMED")
    assert fake.stats()["heartbeats"] == 0


async def test_guilds_that_are_out_of_order_at_the_start(start: Start) -> None:
    fake = await start(guilds=[guild(1, unavailable=True), guild(2)])
    async with connected(fake) as gateway:
        await gateway.ready()
        assert await gateway.event("GUILD_DELETE") == {"id": str(G1), "unavailable": True}
        assert (await gateway.event("GUILD_CREATE"))["id"] == str(G2)
        await fake.emit("GUILD_CREATE", {"id": G1})
        back = await gateway.event("GUILD_CREATE")
        assert (back["name"], back["member_count"]) == ("Harbour 1", 3)


async def test_guilds_that_come_late_or_never(start: Start) -> None:
    fake = await start(guilds=[guild(1), guild(2), guild(3), guild(4)])
    fake.fault("guilds", "drop", guild=G1)
    fake.fault("guilds", "hang", guild=G2)
    fake.fault("guilds", "slow", guild=3 << 22, seconds=0.01)
    async with connected(fake) as gateway:
        assert len((await gateway.ready())["guilds"]) == 4
        assert (await gateway.event("GUILD_CREATE"))["id"] == str(4 << 22)
        assert (await gateway.event("GUILD_CREATE"))["id"] == str(3 << 22)
        fake.clear_faults()
        assert (await gateway.event("GUILD_CREATE"))["id"] == str(G2)
        await rename(fake, "Heard, but never announced")
        await gateway.event("GUILD_UPDATE")


async def test_shards_get_their_guilds_only(start: Start) -> None:
    fake = await start(guilds=[guild(n) for n in range(1, 5)])
    async with connected(fake) as gateway:
        ready = await gateway.ready(shard=[1, 2])
        assert [int(one["id"]) >> 22 for one in ready["guilds"]] == [1, 3]
        assert await fake.emit("GUILD_UPDATE", {"id": G2, "name": "Elsewhere"}) == 0


@pytest.mark.parametrize("shard", [[2, 2], [-1, 2], [0], ["a", 1]])
async def test_shards_that_cannot_be(start: Start, shard: list[object]) -> None:
    fake = await start()
    async with connected(fake) as gateway:
        await gateway.identify(shard=shard)
        assert await gateway.closed() == 4010


async def test_a_second_resume_takes_the_session_over(start: Start) -> None:
    fake = await start()
    async with connected(fake) as first:
        await begin(first)
        async with connected(fake) as second:
            await second.resume(first.session, first.sequence)
            await second.event("RESUMED")
            with pytest.raises(Closed):
                await first.next()
