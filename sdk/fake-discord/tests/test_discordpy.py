"""The real discord.py on the fake."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import discord
import pytest
from conftest import Start
from discord import app_commands
from raw import G1, G2, PATIENCE, guild, until

from fake_discord import FakeDiscord
from fake_discord.discordpy import pointed_at


def intents(**chosen: bool) -> discord.Intents:
    return discord.Intents(guilds=True, **chosen)


@contextlib.asynccontextmanager
async def running(fake: FakeDiscord, client: discord.Client) -> AsyncIterator[asyncio.Task[None]]:
    with pointed_at(fake):
        task = asyncio.ensure_future(client.start(fake.token))
        test = asyncio.current_task()
        assert test is not None
        # If the bot crashes, the test must not hang.
        task.add_done_callback(lambda _: client.is_closed() or test.cancel())
        try:
            yield task
        except asyncio.CancelledError:
            raise AssertionError("the bot has ended") from (task.exception() if task.done() else None)
        finally:
            await asyncio.wait_for(client.close(), PATIENCE)
            await asyncio.gather(task, return_exceptions=True)


def known(client: discord.Client, guild: int = G1) -> discord.Guild:
    found = client.get_guild(guild)
    assert found is not None
    return found


async def test_a_bot_with_members_has_all_after_chunking(start: Start) -> None:
    fake = await start()
    client = discord.Client(intents=intents(members=True), guild_ready_timeout=0.1)
    async with running(fake, client):
        await until(client.is_ready)
        assert known(client).chunked and {member.id for member in known(client).members} == {10, 11, 900}
        assert len(await fake.until("REQUEST_GUILD_MEMBERS", 2)) == 2
        await fake.emit("GUILD_MEMBER_ADD", {"guild_id": G1, "user": {"id": "12"}})
        await until(lambda: known(client).get_member(12))
    assert fake.stats()["unknown_requests"] == {}


async def test_a_bot_without_members_knows_only_itself(start: Start) -> None:
    fake = await start()
    client = discord.Client(intents=intents(), guild_ready_timeout=0.1)
    async with running(fake, client):
        await until(client.is_ready)
        assert [member.id for member in known(client).members] == [900]
        assert not known(client).chunked


async def test_lost_chunks_leave_the_bot_with_few_members(start: Start) -> None:
    fake = await start(guilds=[guild(1)])
    fake.fault("chunks", "partial_chunks")
    client = discord.Client(intents=intents(members=True), guild_ready_timeout=0.1)
    async with running(fake, client):
        await fake.until("GUILD_MEMBERS_CHUNK")
        await fake.emit("GUILD_UPDATE", {"id": G1, "name": "Seen"})
        await until(lambda: known(client).name == "Seen")
        assert 0 < len(known(client).members) < 3 and not known(client).chunked


async def test_an_intent_that_the_application_does_not_have_ends_the_bot(start: Start) -> None:
    fake = await start(privileged=[])
    client = discord.Client(intents=intents(members=True))
    async with running(fake, client) as task:
        with pytest.raises(discord.PrivilegedIntentsRequired):
            await asyncio.wait_for(asyncio.shield(task), PATIENCE)


async def test_a_wrong_token(start: Start) -> None:
    fake = await start()
    client = discord.Client(intents=intents())
    with pointed_at(fake), pytest.raises(discord.LoginFailure):
        await client.start("wrong.token.here")
    await client.close()


async def test_members_over_rest_through_errors_and_rate_limits(start: Start) -> None:
    fake = await start(generate={"guilds": 1, "members": 1500})
    client = discord.Client(intents=intents(members=True), guild_ready_timeout=0.1, chunk_guilds_at_startup=False)
    async with running(fake, client):
        await until(client.is_ready)
        fake.fault("GET /guilds/{id}/members", "rate_limit", retry_after=0.01, times=1)
        fake.fault("GET /guilds/{id}/members", "status", status=502, times=1)
        found = [member.id async for member in known(client).fetch_members(limit=None)]
        assert len(set(found)) == 1501
        assert [entry["status"] for entry in await fake.until("GET /guilds/{id}/members")] == [429, 502, 200, 200]


async def test_the_privilege_is_missing(start: Start) -> None:
    fake = await start(privileged=["presences"])
    client = discord.Client(intents=intents(), guild_ready_timeout=0.1)
    async with running(fake, client):
        await until(client.is_ready)
        with pytest.raises(discord.Forbidden, match="50001"):
            await client.http.get_members(G1, 1000, None)


async def test_a_sharded_bot_resumes_and_identifies_anew(start: Start) -> None:
    fake = await start(guilds=[guild(n) for n in range(1, 5)], shards=2)
    client = discord.AutoShardedClient(intents=intents(), guild_ready_timeout=0.1)
    resumed: list[int] = []

    @client.event
    async def on_shard_resumed(shard: int) -> None:
        resumed.append(shard)

    async with running(fake, client):
        await until(client.is_ready)
        assert set(client.shards) == {0, 1}
        assert await fake.drop() == 2
        await fake.emit("GUILD_UPDATE", {"id": G1, "name": "Meanwhile"})
        await until(lambda: sorted(resumed) == [0, 1] and known(client).name == "Meanwhile")
        await fake.invalid_session(shard=0)
        await fake.until("READY", 3)
        await fake.emit("GUILD_UPDATE", {"id": G2, "name": "Anew"})
        await until(lambda: known(client, G2).name == "Anew")


async def test_a_zombie_is_noticed(start: Start) -> None:
    fake = await start(heartbeat_interval=50)
    client = discord.Client(intents=intents(), guild_ready_timeout=0.1, heartbeat_timeout=0.2)
    async with running(fake, client):
        await until(client.is_ready)
        fake.make_zombies()
        await fake.until("RESUME")


async def test_commands_and_messages(start: Start) -> None:
    fake = await start()
    client = discord.Client(intents=intents(), guild_ready_timeout=0.1)
    tree = app_commands.CommandTree(client)

    @tree.command(name="ping", description="Answers.")
    async def ping(interaction: discord.Interaction[discord.Client]) -> None:
        await interaction.response.send_message(f"pong for {interaction.user.name}")
        await interaction.followup.send("and more")

    async with running(fake, client):
        await until(client.is_ready)
        (synced,) = await tree.sync()
        used = {"guild_id": G1, "member": {"user": {"id": "10"}}, "data": {"id": synced.id, "name": "ping"}}
        await fake.emit("INTERACTION_CREATE", used)
        (said,) = await fake.until("POST /interactions/{id}/{token}/callback")
        assert said["body"]["data"]["content"] == "pong for person0"
        (after,) = await fake.until("POST /webhooks/{id}/{token}")
        assert after["body"]["content"] == "and more"


async def test_a_message_and_its_answer(start: Start) -> None:
    fake = await start(guilds=[guild(1, channels=[{"id": "5"}])])
    client = discord.Client(intents=intents(guild_messages=True, message_content=True), guild_ready_timeout=0.1)

    @client.event
    async def on_message(message: discord.Message) -> None:
        await message.channel.send(f"{message.author.name} said {message.content}")

    async with running(fake, client):
        await until(client.is_ready)
        author = {"id": "10", "username": "marlow"}
        await fake.emit("MESSAGE_CREATE", {"guild_id": G1, "channel_id": "5", "author": author, "content": "ahoy"})
        (said,) = await fake.until("POST /channels/{id}/messages")
        assert said["body"]["content"] == "marlow said ahoy"


async def test_a_helper_undoes_what_it_did(start: Start) -> None:
    before = discord.http.Route.BASE, discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY, discord.Client.before_identify_hook
    fake = await start()
    with pointed_at(fake):
        assert discord.http.Route.BASE.startswith(fake.url)
    assert before == (discord.http.Route.BASE, discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY, discord.Client.before_identify_hook)
