"""Which events a session gets, and who is in GUILD_CREATE."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import Start
from raw import G1, GUILDS, MEMBERS, PRESENCES, connected, guild

from fake_discord.intents import VALID


def ids(event: dict[str, Any]) -> list[str]:
    return [member["user"]["id"] for member in event["members"]]


async def test_without_guilds_nothing_of_guilds_comes(start: Start) -> None:
    fake = await start()
    async with connected(fake) as gateway:
        ready = await gateway.ready(1 << 9)
        assert [one["unavailable"] for one in ready["guilds"]] == [True, True]
        await fake.until("GUILDS_SENT")
        assert await fake.emit("GUILD_UPDATE", {"id": G1, "name": "New"}) == 0
        assert await fake.emit("MESSAGE_CREATE", {"guild_id": G1, "id": "1", "content": "hi"}) == 1
        await gateway.event("MESSAGE_CREATE")


async def test_member_events_need_members_but_for_the_bot_itself(start: Start) -> None:
    fake = await start(guilds=[guild(1)])
    async with connected(fake) as without, connected(fake) as having:
        await without.ready(GUILDS)
        await without.event("GUILD_CREATE")
        await having.ready(GUILDS | MEMBERS)
        await having.event("GUILD_CREATE")
        assert await fake.emit("GUILD_MEMBER_ADD", {"guild_id": G1, "user": {"id": "77"}}) == 1
        assert await fake.emit("GUILD_MEMBER_UPDATE", {"guild_id": G1, "user": {"id": "77"}, "roles": ["5"]}) == 1
        assert await fake.emit("GUILD_MEMBER_UPDATE", {"guild_id": G1, "user": {"id": "900"}, "nick": "Lamp"}) == 2
        assert await fake.emit("GUILD_MEMBER_REMOVE", {"guild_id": G1, "user": {"id": "77"}}) == 1
        assert (await without.event("GUILD_MEMBER_UPDATE"))["nick"] == "Lamp"
        for kind in ("ADD", "UPDATE", "UPDATE", "REMOVE"):
            await having.event(f"GUILD_MEMBER_{kind}")


@pytest.mark.parametrize(
    ("privileged", "intents", "code"),
    [
        (["members"], GUILDS | PRESENCES, 4014),
        ([], GUILDS | MEMBERS, 4014),
        (["members"], GUILDS | 1 << 15, 4014),
        (["members"], 1 << 17, 4013),
        (["members"], 1 << 30, 4013),
        (["members"], -1, 4013),
        (["members"], None, 4013),
        (["members"], "513", 4013),
    ],
)
async def test_intents_that_are_refused(start: Start, privileged: list[str], intents: Any, code: int) -> None:
    fake = await start(privileged=privileged)
    async with connected(fake) as gateway:
        await gateway.identify(intents)
        assert await gateway.closed() == code
    assert fake.stats()["refused"] == 1


async def test_all_intents_are_allowed_by_default(start: Start) -> None:
    fake = await start()
    async with connected(fake) as gateway:
        await gateway.ready(VALID)


async def test_guild_create_has_few_members_without_presences(start: Start) -> None:
    described = guild(1, people=3)
    described["members"][2]["voice_channel_id"] = "70"
    fake = await start(guilds=[described])
    async with connected(fake) as gateway:
        await gateway.ready(GUILDS | MEMBERS)
        created = await gateway.event("GUILD_CREATE")
        assert ids(created) == ["900", "12"], "the bot, and who is in voice"
        assert created["member_count"] == 4
        assert created["presences"] == []
        assert created["voice_states"][0]["user_id"] == "12"


async def test_guild_create_with_presences(start: Start) -> None:
    """A small guild comes whole, a large one without the offline members who have neither role nor nickname, a huge one with few."""
    small, large, huge = guild(1, people=49), guild(2, people=60), guild(3, people=3, member_count=75_001)
    large["members"][5]["roles"] = ["50"]
    large["members"][6]["nick"] = "Captain"
    large["members"][7]["status"] = "idle"
    huge["members"][0]["roles"] = ["50"]
    fake = await start(guilds=[small, large, huge])
    async with connected(fake) as gateway:
        await gateway.ready(GUILDS | PRESENCES)
        whole = await gateway.event("GUILD_CREATE")
        assert (len(ids(whole)), whole["large"]) == (50, False)
        part = await gateway.event("GUILD_CREATE")
        assert (ids(part), part["large"], part["member_count"]) == (["15", "16", "17", "900"], True, 61)
        assert [(one["user"]["id"], one["status"]) for one in part["presences"]] == [("17", "idle")]
        assert ids(await gateway.event("GUILD_CREATE")) == ["900"]
    async with connected(fake) as gateway:
        await gateway.ready(GUILDS | PRESENCES, large_threshold=250)
        await gateway.event("GUILD_CREATE")
        assert len(ids(await gateway.event("GUILD_CREATE"))) == 61


async def test_direct_messages_have_intents_of_their_own(start: Start) -> None:
    fake = await start()
    async with connected(fake) as gateway:
        await gateway.ready(1 << 9)
        assert await fake.emit("MESSAGE_CREATE", {"id": "1", "channel_id": "5"}) == 0
    async with connected(fake) as gateway:
        await gateway.ready(1 << 12)
        assert await fake.emit("MESSAGE_CREATE", {"id": "1", "channel_id": "5"}) == 1
        assert await fake.emit("INTERACTION_CREATE", {"id": "1"}) == 1, "no intent names it"


async def test_message_content_is_hidden_without_its_intent(start: Start) -> None:
    fake = await start()
    message = {"guild_id": G1, "id": "1", "content": "secret", "embeds": [{}], "author": {"id": "10"}, "mentions": []}
    async with connected(fake) as blind, connected(fake) as seeing:
        await blind.ready(1 << 9)
        await seeing.ready(1 << 9 | 1 << 15)
        await fake.emit("MESSAGE_CREATE", message)
        await fake.emit("MESSAGE_CREATE", {**message, "mentions": [{"id": "900"}]})
        hidden = await blind.event("MESSAGE_CREATE")
        assert (hidden["content"], hidden["embeds"]) == ("", [])
        assert (await blind.event("MESSAGE_CREATE"))["content"] == "secret"
        assert (await seeing.event("MESSAGE_CREATE"))["content"] == "secret"
